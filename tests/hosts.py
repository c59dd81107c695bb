"""One small instance of each kind of robot; every law is tested over all of them.

Adding a kind means adding one line to `HOSTS`.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from soromox.actuation import (
    AffineGeneralizedCoordinateActuator,
    ArticulatedMcKibbenActuator,
    ArticulatedMcKibbenTransmissionParams,
    ArticulatedTendonActuator,
    ArticulatedTendonImpedance,
    IdentityActuator,
)
from soromox.systems import (
    GVS,
    PCS,
    ArticulatedSoftRobot,
    ArticulatedSoftRobotParams,
    BaseLink,
    GVSSegment,
    JointSpec,
    LinearProfile,
    LinkSpec,
    McKibbenActuatedUMArm,
    PCSStructure,
    Pendulum,
    PendulumParams,
    PlanarPCS,
    PlanarPCSStructure,
    SoftRobot,
    StrainBasisSpec,
)


ROUTING = np.array([[0.012, 0.010, 0.008], [-0.011, -0.009, 0.0]])  # [m] moment arms


def pendulum(**keywords) -> Pendulum:
    params = PendulumParams(
        mass=jnp.array([0.6, 0.4, 0.3]),
        moment_inertia=[0.004, 0.003, 0.001],
        length=[0.5, 0.4, 0.3],
        center_of_mass_length=[0.2, 0.25, 0.1],
        joint_stiffness=np.diag([2.0, 1.0, 0.5]) + 0.1,
        joint_damping=[0.1, 0.05, 0.02],
        joint_rest_configuration=[0.1, -0.2, 0.3],
    )
    return Pendulum(params, **keywords)


def tendon_pendulum() -> Pendulum:
    springs = ArticulatedTendonImpedance.from_routing(
        ROUTING, stiffness=[80.0, 60.0], damping=[1.5, 1.0], coordinate_offset=[0.01, -0.02]
    )
    tendons = ArticulatedTendonActuator.from_routing(ROUTING)
    return pendulum(actuators=(tendons, IdentityActuator(3)), passive_elements=(springs,))


def link_params(count: int, seed: int = 0, **changes) -> ArticulatedSoftRobotParams:
    """Random links on revolute, prismatic and helical joints with tilted joint frames."""
    rng = np.random.default_rng(seed)
    screws = np.zeros((count, 6))
    for i, axis in enumerate(rng.normal(size=(count, 3))):
        axis = axis / np.linalg.norm(axis)
        kind = i % 3
        screws[i, :3] = axis if kind != 1 else 0
        screws[i, 3:] = axis if kind == 1 else 0.05 * axis * (kind == 2)
    half = rng.normal(size=(count, 3, 3)) * 0.05
    angles = rng.uniform(-1, 1, count)
    frames = np.tile(np.eye(4), (count, 1, 1))
    frames[:, 1, 1] = frames[:, 2, 2] = np.cos(angles)
    frames[:, 2, 1], frames[:, 1, 2] = np.sin(angles), -np.sin(angles)
    frames[:, :3, 3] = rng.normal(size=(count, 3)) * 0.1
    numbers = {
        "joint_screw": screws,
        "tip_position": rng.normal(size=(count, 3)) * 0.3,
        "center_of_mass_position": rng.normal(size=(count, 3)) * 0.1,
        "mass": rng.uniform(0.5, 2, count),
        "center_of_mass_inertia": half @ half.transpose(0, 2, 1) + 0.01 * np.eye(3),
        "gravity": [1.0, -2.0, -9.0],
        "joint_stiffness": rng.uniform(0, 3, count),
        "joint_damping": rng.uniform(0, 0.3, count),
        "joint_rest_configuration": rng.normal(size=count) * 0.2,
        "armature": rng.uniform(0, 0.1, count),
        "parent_to_joint_transform": frames,
    }
    return ArticulatedSoftRobotParams(**(numbers | changes))


def serial_arm() -> ArticulatedSoftRobot:
    affine = AffineGeneralizedCoordinateActuator.from_routing([[0.1, 0.0, -0.3]])
    return ArticulatedSoftRobot(
        link_params(3), actuators=affine, base_pose=[0.1, -0.2, 0.3, 0.9, 0.2, -0.1, 0.3]
    )


def hand() -> ArticulatedSoftRobot:
    """A palm with two fingers and a thumb on the base: a forest."""
    return ArticulatedSoftRobot(link_params(6, seed=1), parents=(-1, 0, 1, 0, 3, -1))


def floating_arm() -> ArticulatedSoftRobot:
    base = BaseLink(mass=1.5, inertia=np.diag([0.02, 0.03, 0.04]), center_of_mass=[0.0, 0.1, 0.0])
    return ArticulatedSoftRobot(link_params(2, seed=2), floating_base=base)


def floating_pendulum() -> Pendulum:
    return pendulum(floating_base=BaseLink(mass=0.8, inertia=0.01, center_of_mass=[0.0, 0.05]))


def hybrid_gvs() -> GVS:
    """A soft link, a rigid one on a hinge, a soft one with a rest curvature on a screw.

    They are large, because short links make inertia matrices of poor condition.
    """
    rod = {"radius": LinearProfile(0.12, 0.08), "density": 1000.0, "young_modulus": 4e5}
    bar = {"height": 0.2, "width": 0.12, "density": 1050.0, "young_modulus": 6e5}
    eta = {"material_damping_coefficient": 60.0, "poisson_ratio": 0.45}
    return GVS.from_segments(
        [
            GVSSegment(
                LinkSpec.circular(length=1.0, **rod, **eta),
                basis=StrainBasisSpec("legendre", ["kappa_y", "sigma_x"], [0, 1, 0, 0, 0, 0]),
            ),
            GVSSegment(
                LinkSpec.circular(length=0.8, radius=0.1, density=900.0),
                JointSpec.revolute("z", stiffness=0.3, damping=0.01),
            ),
            GVSSegment(
                LinkSpec.rectangular(
                    length=0.9, reference_strain=[0.0, 0.0, 0.5, 1.0, 0.0, 0.0], **bar, **eta
                ),
                JointSpec.helical([1.0, 1.0, 0.0], 0.01, stiffness=0.2),
                StrainBasisSpec("imq", ["kappa_z"], 1),
                num_gauss_points=6,
            ),
        ],
        gravity=[0.5, -1.0, -9.0],
    )


def jointed_gvs() -> GVS:
    """Rigid links on the joints with several coordinates, on a floating base."""
    link = LinkSpec.rectangular(
        length=0.2,
        height=0.06,
        width=0.03,
        density=500.0,
        reference_strain=[0.5, 2.0, -3.0, 1.0, 0.0, 0.1],
    )
    joints = (
        JointSpec.fixed(),
        JointSpec.spherical(stiffness=0.2, damping=[0.01, 0.02, 0.03]),
        JointSpec.planar("yz", stiffness=[0.1, 3.0, 4.0]),
        JointSpec.cylindrical("x"),
    )
    return GVS.from_segments([GVSSegment(link, joint) for joint in joints], floating_base=True)


def tapered_pcs() -> PCS:
    """A tapered circle and an ellipse; different strains are active on them.

    Large, as `hybrid_gvs`.
    """
    common = {"density": 1000.0, "young_modulus": 1e5, "poisson_ratio": 0.4}
    links = [
        LinkSpec.circular(
            length=1.0,
            radius=LinearProfile(0.12, 0.1),
            material_damping_coefficient=30.0,
            reference_strain=[0.2, 0.0, -1.0, 1.0, 0.05, 0.0],
            **common,
        ),
        LinkSpec.elliptical(length=0.8, semi_major=0.1, semi_minor=0.08, **common),
    ]
    return PCS.from_links(
        links,
        gravity=(1.0, -2.0, -9.0),
        structure=PCSStructure(3, [[1, 1, 1, 1, 0, 0], [0, 1, 1, 0, 0, 1]]),
        base_pose=[0.1, -0.2, 0.3, 0.9, 0.2, -0.1, 0.3],
    )


def floating_planar_pcs() -> PlanarPCS:
    """Coordinates are angles here, not curvatures."""
    link = LinkSpec.rectangular(
        length=0.2,
        height=0.03,
        width=0.02,
        density=900.0,
        young_modulus=1e5,
        shear_modulus=4e4,
        material_damping_coefficient=20.0,
    )
    structure = PlanarPCSStructure(3, [1, 1, 0], scale_rotational_basis_by_length=True)
    return PlanarPCS.from_links([link, link], structure=structure, floating_base=True)


def muscle_params() -> ArticulatedMcKibbenTransmissionParams:
    """Four muscles across each of two universal joints."""
    angles = np.arange(4) * np.pi / 2
    ring = np.stack([np.cos(angles), np.sin(angles), np.zeros(4)], axis=-1)
    up = np.array([0.0, 0.0, 0.1])
    return ArticulatedMcKibbenTransmissionParams(
        moving_base_transform=np.tile(np.eye(4), (2, 1, 1)),
        moving_points=np.tile(0.03 * ring + up, (2, 1, 1)),
        fixed_points=np.tile(0.05 * ring, (2, 1, 1)),
        reference_length=0.1,
        length_offset=0.15,
        thread_length=0.2,
        num_turns=1.1,
        joint_pair_indices=[(0, 1), (2, 3)],
    )


def umarm() -> McKibbenActuatedUMArm:
    axes = np.zeros((4, 6))
    axes[[0, 2], 0] = axes[[1, 3], 1] = 1
    body = link_params(
        4,
        joint_screw=axes,
        tip_position=np.array([[0, 0, 0], [0, 0, 0.3]] * 2, float),
        parent_to_joint_transform=None,
        radius=0.05,
    )
    return McKibbenActuatedUMArm(body, ArticulatedMcKibbenActuator(muscle_params()))


HOSTS: dict[str, Callable[[], SoftRobot]] = {
    "pendulum": pendulum,
    "tendon_pendulum": tendon_pendulum,
    "serial_arm": serial_arm,
    "hand": hand,
    "floating_arm": floating_arm,
    "umarm": umarm,
    "floating_pendulum": floating_pendulum,
    "tapered_pcs": tapered_pcs,
    "floating_planar_pcs": floating_planar_pcs,
    "hybrid_gvs": hybrid_gvs,
    "jointed_gvs": jointed_gvs,
}
