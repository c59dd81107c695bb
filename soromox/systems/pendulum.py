"""Planar chains of rigid links on revolute joints."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from soromox.actuation import Actuator, PassiveElement
from soromox.lie import se2
from soromox.numerics.checks import (
    ArrayLike,
    as_array,
    broadcast,
    check_finite,
    check_non_negative,
    check_positive,
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


class PendulumParams(Parameters):
    """Numbers of a planar chain of n links; a number stands for all links where one array is meant.

    **Arguments:**

    - `mass` (n,) [kg], `moment_inertia` (n,) about the centre of mass [kg m^2].
    - `length` (n,) [m], `center_of_mass_length` (n,) from the joint [m], both along local x.
    - `gravity` (2,) in the world frame [m/s^2].
    - `joint_stiffness` [N m/rad], `joint_damping` [N m s/rad]: (n, n) or the diagonal (n,).
    - `joint_rest_configuration` (n,) [rad]: angles without elastic torque.
    - `radius` (n,) [m]: for drawing only.

    Raises `ValueError` for wrong shapes, NaN, negative mass or inertia, indefinite matrices.
    """

    mass: Float[Array, " n"]
    moment_inertia: Float[Array, " n"]
    length: Float[Array, " n"]
    center_of_mass_length: Float[Array, " n"]
    gravity: Float[Array, "2"]
    joint_stiffness: Float[Array, "..."]
    joint_damping: Float[Array, "..."]
    joint_rest_configuration: Float[Array, " n"]
    radius: Float[Array, " n"] | None

    def __init__(
        self,
        mass: ArrayLike,
        moment_inertia: ArrayLike,
        length: ArrayLike,
        center_of_mass_length: ArrayLike,
        gravity: ArrayLike = (0.0, -9.81),
        joint_stiffness: ArrayLike = 0.0,
        joint_damping: ArrayLike = 0.0,
        joint_rest_configuration: ArrayLike = 0.0,
        radius: ArrayLike | None = None,
    ):
        dtype = float_dtype(
            mass,
            moment_inertia,
            length,
            center_of_mass_length,
            gravity,
            joint_stiffness,
            joint_damping,
            joint_rest_configuration,
            radius,
        )
        self.mass = as_array(mass, "mass", dtype)
        if self.mass.ndim != 1 or self.mass.size == 0:
            raise ValueError(
                f"`mass` needs one value per link (n,), n >= 1, got shape {self.mass.shape}."
            )
        n = self.mass.size
        self.moment_inertia = broadcast(moment_inertia, "moment_inertia", dtype, n)
        self.length = broadcast(length, "length", dtype, n)
        self.center_of_mass_length = broadcast(
            center_of_mass_length, "center_of_mass_length", dtype, n
        )
        self.gravity = as_array(gravity, "gravity", dtype, (2,))
        self.joint_stiffness = joint_matrix(joint_stiffness, "joint_stiffness", dtype, n)
        self.joint_damping = joint_matrix(joint_damping, "joint_damping", dtype, n)
        self.joint_rest_configuration = broadcast(
            joint_rest_configuration, "joint_rest_configuration", dtype, n
        )
        self.radius = None if radius is None else broadcast(radius, "radius", dtype, n)
        check_positive(self.mass, "mass")
        check_non_negative(self.moment_inertia, "moment_inertia")
        check_non_negative(self.length, "length")
        for name in ("center_of_mass_length", "gravity", "joint_rest_configuration"):
            check_finite(getattr(self, name), name)
        if self.radius is not None:
            check_positive(self.radius, "radius")


class Pendulum(RigidLinks):
    """A planar chain of n links on revolute joints; angles are relative, links along local x.

    By default it points up along +y; `base_pose = [theta, x, y]` mounts it differently, or
    `floating_base` frees it. `actuators=None` installs one torque per joint.
    """

    params: PendulumParams
    actuators: tuple[Actuator, ...]
    passive_elements: tuple[PassiveElement, ...]
    base_pose: Float[Array, "3"] | None
    floating_base: BaseLink | None

    def __init__(
        self,
        params: PendulumParams,
        *,
        actuators: Actuator | tuple[Actuator, ...] | None = None,
        passive_elements: PassiveElement | tuple[PassiveElement, ...] | None = None,
        base_pose: ArrayLike | None = None,
        floating_base: bool | BaseLink | None = False,
    ):
        self.params = install_params(params, PendulumParams)
        _check_inertia(params)
        self.actuators = install_actuators(actuators, params.mass.size)
        self.passive_elements = install_passive_elements(passive_elements)
        self.base_pose, self.floating_base = install_base(
            base_pose, floating_base, True, params.mass.dtype, starts_with_joint=True
        )

    @property
    def is_planar(self) -> bool:
        return True

    @property
    def joint_parents(self) -> tuple[int, ...]:
        return tuple(range(-1, self.num_internal_dofs - 1))

    @property
    def joint_screws(self) -> Float[Array, "n 3"]:
        turn = jnp.array([1.0, 0.0, 0.0], self.dtype)
        return jnp.broadcast_to(turn, (self.num_internal_dofs, 3))

    def body_plan(self) -> BodyPlan:
        params, n = self.params, self.num_internal_dofs
        dtype = params.mass.dtype

        def along_x(x: Float[Array, " n"]) -> Float[Array, "n 2"]:
            return jnp.stack([x, jnp.zeros_like(x)], axis=-1)

        return link_plan(
            se2,
            params,
            self.joint_parents,
            screw=self.joint_screws,
            before=jnp.broadcast_to(se2.identity(dtype), (n, 3)),
            center_of_mass=along_x(params.center_of_mass_length),
            inertia=params.moment_inertia,
            tip=along_x(params.length),
            armature=jnp.zeros(n, dtype),
        )


def _check_inertia(params: PendulumParams) -> None:
    names = ("mass", "moment_inertia", "length", "center_of_mass_length")
    numbers = [concrete(getattr(params, name)) for name in names]
    if any(x is None for x in numbers):
        return
    mass, inertia, length, center = numbers
    behind = np.append(np.cumsum(mass[::-1])[::-1][1:], 0)
    moved = inertia + mass * center**2 + behind * length**2
    check_moved_inertia(
        moved,
        "link {link} or one behind it a `mass` away from the joint, or a `moment_inertia`",
    )
