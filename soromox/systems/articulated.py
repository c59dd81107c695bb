"""Spatial trees of rigid links on one-dof joints."""

from collections.abc import Sequence

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from soromox.actuation import Actuator, PassiveElement
from soromox.chain import Topology
from soromox.lie import se3
from soromox.numerics.checks import (
    ArrayLike,
    as_array,
    broadcast,
    check_finite,
    check_non_negative,
    check_positive,
    check_psd,
    check_values,
    concrete,
    float_dtype,
)
from soromox.numerics.parameters import Parameters
from soromox.systems.installation import (
    check_moved_inertia,
    install_actuators,
    install_base,
    install_params,
    install_passive_elements,
)
from soromox.systems.joint_matrices import joint_matrix
from soromox.systems.links import RigidLinks, link_plan
from soromox.systems.plan import BaseLink, BodyPlan


class ArticulatedSoftRobotParams(Parameters):
    """Numbers of a tree of n rigid links, each behind a one-dof joint.

    `g_link = g_parent_tip @ parent_to_joint_transform @ exp(joint_screw q)`; the tip is the link
    frame moved by `tip_position`.

    **Arguments:**

    - `joint_screw` (n, 6): `[omega; v]` in the joint frame; revolute `[axis; 0]`, prismatic
      `[0; axis]`, helical `[axis; pitch axis]` with the pitch in m/rad.
    - `tip_position`, `center_of_mass_position` (n, 3) in the link frame [m].
    - `mass` (n,) [kg], `center_of_mass_inertia` (n, 3, 3) about the centre of mass [kg m^2].
    - `gravity` (3,) in the world frame [m/s^2].
    - `joint_stiffness`, `joint_damping`: (n, n) or the diagonal (n,).
    - `joint_rest_configuration` (n,): coordinates without elastic force.
    - `armature` (n,): inertia of each joint's rotor, added to the diagonal of `M`.
    - `parent_to_joint_transform` (n, 4, 4): joint frame in the frame at the parent's tip;
      identity by default.
    - `radius` (n,) [m]: for drawing only.

    Raises `ValueError` for wrong shapes, NaN, negative mass, indefinite inertia, a zero screw.
    """

    joint_screw: Float[Array, "n 6"]
    tip_position: Float[Array, "n 3"]
    center_of_mass_position: Float[Array, "n 3"]
    mass: Float[Array, " n"]
    center_of_mass_inertia: Float[Array, "n 3 3"]
    gravity: Float[Array, "3"]
    joint_stiffness: Float[Array, "..."]
    joint_damping: Float[Array, "..."]
    joint_rest_configuration: Float[Array, " n"]
    armature: Float[Array, " n"]
    parent_to_joint_transform: Float[Array, "n 4 4"]
    radius: Float[Array, " n"] | None

    def __init__(
        self,
        joint_screw: ArrayLike,
        tip_position: ArrayLike,
        center_of_mass_position: ArrayLike,
        mass: ArrayLike,
        center_of_mass_inertia: ArrayLike,
        gravity: ArrayLike = (0.0, 0.0, -9.81),
        joint_stiffness: ArrayLike = 0.0,
        joint_damping: ArrayLike = 0.0,
        joint_rest_configuration: ArrayLike = 0.0,
        armature: ArrayLike = 0.0,
        parent_to_joint_transform: ArrayLike | None = None,
        radius: ArrayLike | None = None,
    ):
        given = (
            joint_screw,
            tip_position,
            center_of_mass_position,
            mass,
            center_of_mass_inertia,
            gravity,
            joint_stiffness,
            joint_damping,
            joint_rest_configuration,
            armature,
            parent_to_joint_transform,
            radius,
        )
        dtype = float_dtype(*given)
        screw = as_array(joint_screw, "joint_screw", dtype)
        if screw.ndim != 2 or screw.shape[1] != 6 or screw.shape[0] == 0:
            raise ValueError(
                f"`joint_screw` needs one row [omega; v] per joint (n, 6), got {screw.shape}."
            )
        n = screw.shape[0]
        self.joint_screw = screw
        self.tip_position = as_array(tip_position, "tip_position", dtype, (n, 3))
        self.center_of_mass_position = as_array(
            center_of_mass_position, "center_of_mass_position", dtype, (n, 3)
        )
        self.mass = broadcast(mass, "mass", dtype, n)
        self.center_of_mass_inertia = as_array(
            center_of_mass_inertia, "center_of_mass_inertia", dtype, (n, 3, 3)
        )
        self.gravity = as_array(gravity, "gravity", dtype, (3,))
        self.joint_stiffness = joint_matrix(joint_stiffness, "joint_stiffness", dtype, n)
        self.joint_damping = joint_matrix(joint_damping, "joint_damping", dtype, n)
        self.joint_rest_configuration = broadcast(
            joint_rest_configuration, "joint_rest_configuration", dtype, n
        )
        self.armature = broadcast(armature, "armature", dtype, n)
        if parent_to_joint_transform is None:
            parent_to_joint_transform = np.broadcast_to(np.eye(4), (n, 4, 4))
        self.parent_to_joint_transform = as_array(
            parent_to_joint_transform, "parent_to_joint_transform", dtype, (n, 4, 4)
        )
        self.radius = None if radius is None else broadcast(radius, "radius", dtype, n)
        self._check()

    def _check(self):
        for name in (
            "joint_screw",
            "tip_position",
            "center_of_mass_position",
            "gravity",
            "joint_rest_configuration",
            "parent_to_joint_transform",
        ):
            check_finite(getattr(self, name), name)
        check_values(
            self.joint_screw,
            lambda screw: np.any(screw != 0, axis=-1),
            "Each row of `joint_screw` must move something: a zero screw is no joint.",
        )
        check_non_negative(self.mass, "mass")  # a universal joint has a massless link
        check_psd(self.center_of_mass_inertia, "center_of_mass_inertia")
        check_non_negative(self.armature, "armature")
        if self.radius is not None:
            check_positive(self.radius, "radius")
        check_values(
            self.parent_to_joint_transform,
            _is_rigid,
            "`parent_to_joint_transform` needs rigid motions (4, 4).",
        )


class ArticulatedSoftRobot(RigidLinks):
    """A serial chain or tree of rigid links on revolute, prismatic or helical joints.

    `parents[i] < i` is the link that link i hangs on, -1 the base; serial by default. `base_pose`
    is `[qx, qy, qz, qw, x, y, z]`, upright by default (local x up); `floating_base` frees it.
    `actuators=None` installs one force per joint.
    """

    params: ArticulatedSoftRobotParams
    parents: tuple[int, ...] = eqx.field(static=True)
    actuators: tuple[Actuator, ...]
    passive_elements: tuple[PassiveElement, ...]
    base_pose: Float[Array, "7"] | None
    floating_base: BaseLink | None

    def __init__(
        self,
        params: ArticulatedSoftRobotParams,
        parents: Sequence[int] | None = None,
        *,
        actuators: Actuator | tuple[Actuator, ...] | None = None,
        passive_elements: PassiveElement | tuple[PassiveElement, ...] | None = None,
        base_pose: ArrayLike | None = None,
        floating_base: bool | BaseLink | None = False,
    ):
        self.params = install_params(params, ArticulatedSoftRobotParams)
        n = params.mass.size
        serial = tuple(range(-1, n - 1))
        self.parents = serial if parents is None else tuple(int(parent) for parent in parents)
        if len(self.parents) != n:
            raise ValueError(f"`parents` needs one entry per link: {n}, got {len(self.parents)}.")
        Topology(self.parents, (1,) * n)  # raises for a parent that is not an earlier link
        check_inertia(params, self.parents)
        self.actuators = install_actuators(actuators, n)
        self.passive_elements = install_passive_elements(passive_elements)
        self.base_pose, self.floating_base = install_base(
            base_pose, floating_base, False, params.mass.dtype, starts_with_joint=True
        )

    @property
    def is_planar(self) -> bool:
        return False

    @property
    def joint_parents(self) -> tuple[int, ...]:
        return self.parents

    @property
    def joint_screws(self) -> Float[Array, "n 6"]:
        return self.params.joint_screw

    def body_plan(self) -> BodyPlan:
        return spatial_link_plan(self.params, self.parents)


def check_inertia(params: ArticulatedSoftRobotParams, parents: tuple[int, ...]) -> None:
    """Raises `ValueError` where a joint, the links behind it included, moves no inertia."""
    numbers = [concrete(x) for x in (params.mass, params.center_of_mass_inertia, params.armature)]
    if any(x is None for x in numbers):
        return
    mass, inertia, armature = numbers
    moved = mass + np.trace(inertia, axis1=1, axis2=2)
    for link in reversed(range(len(parents))):
        if parents[link] >= 0:
            moved[parents[link]] += moved[link]
    check_moved_inertia(
        moved + armature,
        "link {link} or one behind it a `mass` or a `center_of_mass_inertia`, or the joint an "
        "`armature`",
    )


def spatial_link_plan(params: ArticulatedSoftRobotParams, parents: tuple[int, ...]) -> BodyPlan:
    """The bodies of a tree of links in space."""
    return link_plan(
        se3,
        params,
        parents,
        screw=params.joint_screw,
        before=params.parent_to_joint_transform,
        center_of_mass=params.center_of_mass_position,
        inertia=params.center_of_mass_inertia,
        tip=params.tip_position,
        armature=params.armature,
    )


def _is_rigid(transforms: np.ndarray) -> np.ndarray:
    R = transforms[..., :3, :3].astype(np.float64)
    orthonormal = np.abs(R @ np.swapaxes(R, -1, -2) - np.eye(3)).max(axis=(-1, -2)) < 1e-5
    last = np.abs(transforms[..., 3, :] - np.array([0.0, 0.0, 0.0, 1.0])).max(axis=-1) < 1e-6
    return orthonormal & (np.linalg.det(R) > 0) & last
