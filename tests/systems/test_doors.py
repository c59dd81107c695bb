"""What comes in wrong is refused with a sentence that says what to do."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.actuation import (
    AffineGeneralizedCoordinateActuator,
    ArticulatedTendonActuator,
    DirectEffort,
    IdentityActuator,
    Transmission,
    TransmissionActuator,
)
from soromox.simulation import BackwardEuler, SystemState
from soromox.systems import (
    GVS,
    PCS,
    ArticulatedSoftRobot,
    BaseLink,
    GVSSegment,
    LinkSpec,
    Pendulum,
    PendulumParams,
    PlanarPCS,
    SoftRobot,
    StrainBasisSpec,
    base_poses,
)
from tests.hosts import hand, link_params, pendulum, serial_arm


def params(**changes) -> PendulumParams:
    numbers = {
        "mass": [1.0, 2.0],
        "moment_inertia": [0.1, 0.1],
        "length": [0.5, 0.5],
        "center_of_mass_length": [0.2, 0.2],
    }
    return PendulumParams(**(numbers | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mass": [1.0, -2.0]}, "`mass` must be positive"),
        ({"mass": [1.0, np.nan]}, "`mass` must be positive"),
        ({"mass": [1.0, np.inf]}, "`mass` must be positive"),
        ({"mass": []}, "`mass` needs one value per link"),
        ({"mass": 1.0}, "`mass` needs one value per link"),
        ({"length": [0.5, 0.5, 0.5]}, re.escape("`length` needs shape (2,), got (3,)")),
        ({"length": [0.5, -0.5]}, "`length` must be non-negative"),
        ({"moment_inertia": [-0.1, 0.1]}, "`moment_inertia` must be non-negative"),
        ({"center_of_mass_length": [np.nan, 0.1]}, "`center_of_mass_length` must be finite"),
        ({"gravity": [0.0, 0.0, -9.81]}, re.escape("`gravity` needs shape (2,), got (3,)")),
        ({"joint_stiffness": [1.0, -1.0]}, "`joint_stiffness` must be non-negative"),
        ({"joint_stiffness": np.diag([1.0, -1.0])}, "must be positive semi-definite"),
        ({"joint_stiffness": [[1.0, 0.5], [0.0, 1.0]]}, "`joint_stiffness` must be symmetric"),
        ({"joint_damping": np.eye(3)}, re.escape("`joint_damping` needs shape (2, 2) or (2,)")),
        ({"radius": [0.0, 0.1]}, "`radius` must be positive"),
    ],
)
def test_refused_pendulum_params(changes, message):
    with pytest.raises(ValueError, match=message):
        params(**changes)
    if "mass" not in changes:  # an update runs the same checks
        known = {name: value for name, value in changes.items() if name != "radius"}
        for name, value in known.items():
            with pytest.raises(ValueError, match=f"`(PendulumParams.)?{name}`"):
                Pendulum(params()).update_params(**{name: value})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"joint_screw": np.zeros((3, 6))}, "a zero screw is no joint"),
        ({"joint_screw": np.ones((3, 5))}, re.escape("(n, 6), got (3, 5)")),
        ({"joint_screw": np.zeros((0, 6))}, re.escape("(n, 6), got (0, 6)")),
        ({"center_of_mass_inertia": -np.tile(np.eye(3), (3, 1, 1))}, "positive semi-definite"),
        ({"tip_position": np.full((3, 3), np.nan)}, "`tip_position` must be finite"),
        ({"armature": [-1.0, 0.0, 0.0]}, "`armature` must be non-negative"),
        ({"parent_to_joint_transform": np.zeros((3, 4, 4))}, "needs rigid motions"),
    ],
)
def test_refused_articulated_params(changes, message):
    with pytest.raises(ValueError, match=message):
        link_params(3, **changes)


def test_a_joint_needs_inertia_behind_it():
    """The middle link of a universal joint may be massless, the last one of a chain may not."""
    none = np.zeros((3, 3))
    inertia = np.stack([none, np.eye(3), none])
    body = {"center_of_mass_inertia": inertia, "armature": 0.0}
    robot = ArticulatedSoftRobot(link_params(3, **body, mass=[0.0, 0.0, 1.0]))
    assert np.all(np.isfinite(robot.forward_acceleration(np.ones(3), np.ones(3))))
    with pytest.raises(ValueError, match="Joint 2 moves no inertia"):
        ArticulatedSoftRobot(link_params(3, **body, mass=[0.0, 1.0, 0.0]))
    with pytest.raises(ValueError, match="`mass` must be non-negative"):
        link_params(3, mass=[-1.0, 1.0, 1.0])


def test_misspelled_keywords_raise():
    with pytest.raises(TypeError, match="actuator"):
        Pendulum(params(), actuator=())
    with pytest.raises(TypeError, match="joint_stifness"):
        params(joint_stifness=1.0)
    with pytest.raises(ValueError, match="has no field `joint_stifness`; it has: mass,"):
        Pendulum(params()).update_params(joint_stifness=1.0)


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ((-1, 0), "`parents` needs one entry per link: 3, got 2"),
        ((-1, 1, 0), "earlier body"),
        ((-1, 0, 5), "earlier body"),
    ],
)
def test_refused_parents(parents, message):
    with pytest.raises(ValueError, match=message):
        ArticulatedSoftRobot(link_params(3), parents)


STATE_METHODS = {
    "inertia_matrix": ("q",),
    "gravitational_force": ("q",),
    "elastic_force": ("q",),
    "damping_matrix": ("q",),
    "elastic_energy": ("q",),
    "actuator_coordinates": ("q",),
    "actuation_matrix": ("q",),
    "forward_kinematics_tips": ("q",),
    "passive_elastic_force": ("q",),
    "coriolis_matrix": ("q", "qd"),
    "coriolis_force": ("q", "qd"),
    "kinetic_energy": ("q", "qd"),
    "total_energy": ("q", "qd"),
    "actuator_velocities": ("q", "qd"),
    "inverse_dynamics": ("q", "qd", "qdd"),
    "forward_acceleration": ("q", "qd", "u", "tau_ext"),
    "actuation_force": ("q", "u", "qd"),
    "actuator_efforts": ("q", "u", "qd"),
    "actuator_loads": ("q", "u", "qd"),
}


@pytest.mark.parametrize("method", STATE_METHODS)
def test_wrong_shapes_of_state_and_control(method):
    robot = pendulum(actuators=IdentityActuator(3))
    for wrong in STATE_METHODS[method]:
        for shape, hint in (((4,), ""), ((2,), ""), ((7, 3), "jax.vmap"), ((), "")):
            inputs = {name: np.zeros(3) for name in STATE_METHODS[method]}
            inputs[wrong] = np.zeros(shape)
            with pytest.raises(ValueError, match=re.escape(f"`{wrong}` needs shape (3,)")) as error:
                getattr(robot, method)(**inputs)
            assert hint in str(error.value)


def test_wrong_types_of_state():
    with pytest.raises(TypeError, match="`q` needs real numbers"):
        pendulum().gravitational_force(np.array(["a", "b", "c"]))
    with pytest.raises(ValueError, match=re.escape("`y` needs shape (6,)")):
        pendulum().forward_dynamics(0.0, np.zeros(3))


@pytest.mark.parametrize("method", ["forward_kinematics", "jacobian", "jacobian_bodyframe"])
def test_arc_length_outside_the_robot(method):
    robot = pendulum()
    for s in (-0.01, 1.21, np.nan):
        with pytest.raises(ValueError, match=re.escape("`s` must lie in [0, 1.2] m")):
            getattr(robot, method)(np.zeros(3), s)
    # traced values are clamped, values within rounding of the end belong to it
    reach = jax.jit(lambda s: robot.forward_kinematics(jnp.zeros(3), s))
    np.testing.assert_allclose(reach(5.0), [np.pi / 2, 0, 1.2], atol=1e-15)
    np.testing.assert_allclose(reach(-1.0), [np.pi / 2, 0, 0], atol=1e-15)
    end = robot.forward_kinematics(np.zeros(3), 1.2 * (1 + 1e-16))
    np.testing.assert_allclose(end, [np.pi / 2, 0, 1.2], atol=1e-15)
    with pytest.raises(ValueError, match="`s` needs 0 axes here"):
        getattr(robot, method)(np.zeros(3), np.zeros(2))


@pytest.mark.parametrize("name", ["planar_pcs", "gvs"])
def test_positions_have_the_slope_of_the_body_that_they_belong_to(name):
    """At the base, at the end of a segment and at the tip: not the mean of both sides."""
    link = LinkSpec.circular(
        length=0.1, radius=0.01, density=1000.0, young_modulus=1e5, poisson_ratio=0.45
    )
    if name == "planar_pcs":
        robot = PlanarPCS.from_links([link, link])
        q = jnp.array([4.0, 0.0, 0.0, -3.0, 0.0, 0.0])
    else:
        bending = StrainBasisSpec("legendre", ["kappa_z"], 1)
        robot = GVS.from_segments([GVSSegment(link, basis=bending)] * 2)
        q = jnp.linspace(-1.0, 1.0, robot.num_dofs)
    slope = jax.jit(jax.jacfwd(lambda s: robot.forward_kinematics(q, s)))
    h = 1e-7
    for s, inside in ((0.0, h), (0.1, 0.1 - h), (0.2, 0.2 - h), (0.2 * (1 + 2e-16), 0.2 - h)):
        np.testing.assert_allclose(slope(s), slope(inside), atol=1e-5)
    if name == "planar_pcs":
        found = [slope(s)[0] for s in (0.0, 0.1, 0.2)]
        np.testing.assert_allclose(found, [4.0, 4.0, -3.0])


def test_a_tree_needs_the_body():
    with pytest.raises(ValueError, match="`body` is needed on a tree"):
        hand().forward_kinematics(np.zeros(6), 0.0)
    with pytest.raises(ValueError, match=re.escape("`body` must be in 0..5, got 6")):
        hand().jacobian(np.zeros(6), 0.0, body=6)


def test_base_translation_is_part_of_pose_and_jacobian():
    """The first link of a robot whose base is turned and moved."""
    robot = pendulum(base_pose=[0.3, 2.0, -1.0])
    q = jnp.array([0.2, 0.0, 0.0])
    tip = robot.forward_kinematics(q, 0.5)
    expected = [0.5, 2.0 + 0.5 * np.cos(0.5), -1.0 + 0.5 * np.sin(0.5)]
    np.testing.assert_allclose(tip, expected, rtol=1e-15)
    column = robot.jacobian(q, 0.5)[:, 0]
    np.testing.assert_allclose(column, [1, -0.5 * np.sin(0.5), 0.5 * np.cos(0.5)], rtol=1e-14)


@pytest.mark.parametrize(
    ("pose", "message"),
    [
        (np.zeros(7), "quaternion other than zero"),
        (np.zeros(3), "`base_pose` must be"),
        (np.full(7, np.nan), "`base_pose` must be finite"),
        (np.zeros((4, 4)), "needs a rotation"),
    ],
)
def test_refused_base_poses(pose, message):
    with pytest.raises(ValueError, match=message):
        ArticulatedSoftRobot(link_params(3), base_pose=pose)


@pytest.mark.parametrize("mount", [base_poses.upright, base_poses.hanging, base_poses.horizontal])
def test_mountings(mount):
    axis = {"upright": 1.0, "hanging": -1.0, "horizontal": 0.0}[mount.__name__]
    flat = pendulum(base_pose=mount(planar=True)).forward_kinematics(np.zeros(3), 1.2)
    np.testing.assert_allclose(flat[2], 1.2 * axis, atol=1e-15)
    still = link_params(1, tip_position=[[0.5, 0, 0]], parent_to_joint_transform=np.eye(4)[None])
    robot = ArticulatedSoftRobot(still, base_pose=mount())
    pose = robot.forward_kinematics(np.zeros(1), 0.5)
    np.testing.assert_allclose(pose[2, 3], 0.5 * axis, atol=1e-15)
    same = ArticulatedSoftRobot(still, base_pose=np.asarray(robot.forward_kinematics([0.0], 0.0)))
    np.testing.assert_allclose(same.forward_kinematics([0.0], 0.5), pose, atol=1e-15)


def test_refused_floating_bases():
    with pytest.raises(ValueError, match="give one of them"):
        pendulum(base_pose=np.zeros(3), floating_base=BaseLink(1.0, 0.1))
    with pytest.raises(ValueError, match="needs BaseLink"):
        pendulum(floating_base=True)
    with pytest.raises(ValueError, match="spatial link"):
        ArticulatedSoftRobot(link_params(2), floating_base=BaseLink(1.0, 0.1))


def test_refused_actuators():
    with pytest.raises(ValueError, match="2"):
        pendulum(actuators=AffineGeneralizedCoordinateActuator.from_routing([[1.0, 0.0]]))
    skipping = [[0.01, 0.0, 0.01]]
    with pytest.raises(ValueError, match="Row 0 of `routing_matrix` skips joint 1"):
        ArticulatedTendonActuator.from_routing(skipping)
    assert (
        pendulum(actuators=AffineGeneralizedCoordinateActuator.from_routing(skipping)).num_actuators
        == 1
    )
    with pytest.raises(ValueError, match="must be independent"):
        ArticulatedTendonActuator.from_routing([[0.01, 0.01, 0.0], [0.02, 0.02, 0.0]])
    with pytest.raises(ValueError, match="joints of a tendon must be a path"):
        ArticulatedSoftRobot(
            link_params(3),
            (-1, 0, 0),
            actuators=ArticulatedTendonActuator.from_routing([[0.01, 0.01, 0.01]]),
        )


def test_installed_actuators():
    robot = pendulum(actuators=())
    assert (robot.num_actuators, robot.actuator_input_labels) == (0, ())
    assert robot.actuation_force(np.zeros(3), np.zeros(0)).tolist() == [0, 0, 0]
    assert pendulum().num_actuators == 3
    assert isinstance(pendulum(actuators=IdentityActuator(3)).actuators, tuple)
    first, second = (
        IdentityActuator(3),
        AffineGeneralizedCoordinateActuator.from_routing([[1, 2, 3]]),
    )
    robot = pendulum(actuators=(second, first))
    assert robot.num_actuators == 4
    np.testing.assert_allclose(robot.actuation_matrix(np.zeros(3))[:, 0], [1, 2, 3])


def test_updates_keep_class_law_and_the_old_robot():
    tendons = ArticulatedTendonActuator.from_routing([[0.01, 0.01, 0.01]])
    robot = pendulum(actuators=tendons)
    offset = robot.actuators[0].params.transmission.replace(coordinate_offset=[0.5])
    updated = robot.update_actuator_params(0, transmission=offset)
    assert type(updated.actuators[0]) is ArticulatedTendonActuator
    assert type(updated.actuators[0].effort_model) is type(tendons.effort_model)
    np.testing.assert_allclose(updated.actuator_coordinates(np.zeros(3)), [0.5])
    np.testing.assert_allclose(robot.actuator_coordinates(np.zeros(3)), [0.0])
    with pytest.raises(IndexError, match=r"has 1 actuators.*got index 1"):
        robot.update_actuator_params(1, lower_bounds=[0.0])
    with pytest.raises(ValueError, match="lower"):
        robot.update_actuator_params(0, lower_bounds=[1.0], upper_bounds=[0.0])
    other = TransmissionActuator(tendons.transmission)
    assert other.num_channels == 1


def test_parameters_are_one_leaf():
    """The gradient with respect to the robot is the one through `update_params`, and not zero."""
    robot = serial_arm()
    q, qd = jnp.array([[0.3, -0.2, 0.1], [1.0, 0.5, -0.7]])
    speed = lambda robot: jnp.sum(robot.forward_acceleration(q, qd, jnp.ones(1)) ** 2)
    by_robot = eqx.filter_jit(eqx.filter_grad(speed))(robot)
    by_update = jax.jit(jax.grad(lambda mass: speed(robot.update_params(mass=mass))))
    slope = by_update(robot.params.mass)
    np.testing.assert_allclose(by_robot.params.mass, slope, rtol=1e-13)
    assert np.all(slope != 0)
    step = jnp.array([0.0, 1e-6, 0.0])
    up, down = (speed(robot.update_params(mass=robot.params.mass + x)) for x in (step, -step))
    np.testing.assert_allclose(slope[1], (up - down) / 2e-6, rtol=1e-6)


def test_forms_under_jit():
    robot, q = pendulum(), jnp.array([0.1, 0.2, 0.3])
    expected = robot.gravitational_force(q)
    forms = (
        eqx.filter_jit(robot.gravitational_force)(q),
        jax.jit(lambda q: robot.gravitational_force(q))(q),
        jax.jit(SoftRobot.gravitational_force)(robot, q),
        jax.vmap(robot.gravitational_force)(q[None])[0],
    )
    for value in forms:
        np.testing.assert_allclose(value, expected, rtol=1e-14)


def test_a_new_value_does_not_trace_anew():
    traces = 0

    @eqx.filter_jit
    def evaluate(robot, q):
        nonlocal traces
        traces += 1
        return robot.gravitational_force(q)

    robot = pendulum()
    for mass in ([1.0, 2.0, 3.0], jnp.array([3.0, 2.0, 1.0]), np.array([1.0, 1.0, 1.0])):
        evaluate(robot.update_params(mass=mass), jnp.zeros(3))
    evaluate(pendulum(), jnp.ones(3))
    assert traces == 1


def test_single_precision_robots_stay_single():
    numbers = {"mass": jnp.array([1.0, 2.0], jnp.float32), "length": [0.5, 0.5]}
    robot = Pendulum(params(**numbers))
    assert robot.dtype == jnp.float32
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(robot.params))
    assert robot.gravitational_force([0.1, 0.2]).dtype == jnp.float32


def test_refused_rods_and_pendulums_without_inertia():
    numbers = {"length": 0.1, "radius": 0.01, "young_modulus": 1e5, "poisson_ratio": 0.4}
    with pytest.raises(ValueError, match="`density` must be positive"):
        PCS.from_links([LinkSpec.circular(density=0.0, **numbers)])
    squeezed = LinkSpec.circular(density=1e3, reference_strain=[0.0] * 6, **numbers)
    with pytest.raises(ValueError, match="`sigma_x of reference_strain"):
        PCS.from_links([squeezed])
    massless = PendulumParams([1.0, 1.0], [0.1, 0.0], [1.0, 1.0], [0.5, 0.0])
    with pytest.raises(ValueError, match="Joint 1 moves no inertia"):
        Pendulum(massless)


@pytest.mark.parametrize("scheme", [BackwardEuler, "bdf2"], ids=repr)
def test_a_scheme_is_an_instance(scheme):
    # while tests run, the type hook speaks first
    with pytest.raises(TypeError, match=r"['`]scheme['`]"):
        pendulum().implicit_step(SystemState(t=0.0, y=np.zeros(6)), dt=0.01, scheme=scheme)


def test_an_unknown_orientation_is_refused():
    class Pulled(Transmission):
        orientation = "pull"

        def coordinates(self, robot, q):
            return q[:1]

    with pytest.raises(ValueError, match="must be one of length, contraction, generic, got 'pull'"):
        pendulum(actuators=TransmissionActuator(Pulled(), DirectEffort()))
