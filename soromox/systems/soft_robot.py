"""The public methods of every robot: configuration, dynamics, energies. Implemented once."""

import abc
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from equinox import AbstractVar
from jaxtyping import Array, Float, Scalar

from soromox.actuation import loads
from soromox.chain import Mechanics
from soromox.lie import se2, se3
from soromox.numerics.checks import (
    ArrayLike,
    arc_length_array,
    as_array,
    check_arc_length,
    concrete,
    float_dtype,
    index_of,
)
from soromox.numerics.parameters import Parameters
from soromox.systems import terms
from soromox.systems.actuated import Actuated
from soromox.systems.plan import BaseLink, BodyPlan, build_mechanics
from soromox.systems.simulated import Simulated


SelfT = TypeVar("SelfT")  # not `typing.Self`, which a runtime type checker refuses here


class SoftRobot(Actuated, Simulated):
    """A robot of bodies that bend and joints that turn, and what drives them.

    Conventions: SI units, radians; twists `[omega; v]`; the backbone runs along local +x; `q` is
    the deviation from the rest shape; `y = [q; qd]`. Methods take array-likes of the stated shapes
    for one state (`jax.vmap` for many), compute in the dtype of the state, and raise `ValueError`
    for a wrong shape. A floating base adds 6 (plane: 3) coordinates in front of the internal ones.

    Under `jit` use `eqx.filter_jit(robot.f)`, `jax.jit(lambda q: robot.f(q))` or
    `jax.jit(SoftRobot.f)(robot, q)`.
    """

    params: AbstractVar[Parameters]
    base_pose: AbstractVar[Float[Array, " pose"] | None]  # None with a floating base
    floating_base: AbstractVar[BaseLink | None]

    def __check_init__(self):
        for part in (*self.actuators, *self.passive_elements):
            part.install_check(self)

    # --- what a host says about itself -----------------------------------------------------

    @abc.abstractmethod
    def body_plan(self) -> BodyPlan:
        """The bodies, their elasticity and damping: a pure function of `params`."""

    @property
    @abc.abstractmethod
    def num_internal_dofs(self) -> int:
        """Coordinates of joints and strains, without a floating base."""

    # --- counts ----------------------------------------------------------------------------

    @property
    def group(self) -> ModuleType:
        return se2 if self.is_planar else se3

    @property
    def num_dofs(self) -> int:
        """Length of `q`: `num_internal_dofs`, plus 6 (plane: 3) with a floating base."""
        return self.num_internal_dofs + (self.group.DIM if self.floating_base is not None else 0)

    @property
    def dtype(self) -> np.dtype:
        return jax.tree.leaves(self.params)[0].dtype

    @property
    def length(self) -> Float[Array, ""]:
        """Arc length from the base to the farthest tip [m]."""
        return _evaluate(self, terms.length, ())

    @property
    def mass(self) -> Float[Array, ""]:
        """Mass of all bodies [kg], a base link included."""
        return _evaluate(self, terms.mass, ())

    def mechanics(self) -> Mechanics:
        """Everything the recursion needs, derived from the parameters by one pure function."""
        return build_mechanics(self.group, self.body_plan(), self.base_pose, self.floating_base)

    # --- kinematics ------------------------------------------------------------------------

    def forward_kinematics(
        self, q: ArrayLike, s: ArrayLike, body: int | None = None
    ) -> Float[Array, "*pose"]:
        """Pose at arc length `s` [m] from the base: 4x4 in space, `[theta, x, y]` in the plane.

        `s = 0` lies after the first joint and the end of a body belongs to it. On a tree, `s` runs
        along the way from the base to the tip of `body`, which must then be given.

        Raises `ValueError` for a concrete `s` outside `[0, length]`; a traced one is clamped.
        """
        return self._at(terms.pose_at, q, s, body)

    def forward_kinematics_batched(
        self, q: ArrayLike, s: ArrayLike, body: int | None = None
    ) -> Float[Array, "points *pose"]:
        """`forward_kinematics` at several arc lengths `s` (k,)."""
        return self._at(terms.poses_at, q, s, body, s_ndim=1)

    def forward_kinematics_tips(self, q: ArrayLike) -> Float[Array, "bodies *pose"]:
        """Poses at the tips of all links or segments, in order."""
        return self._run(terms.tips, q=q)

    def jacobian(self, q: ArrayLike, s: ArrayLike, body: int | None = None) -> Float[Array, "d n"]:
        """Jacobian of the twist at arc length `s`, in world axes: `[omega; velocity of the point]`."""
        return self._at(terms.jacobian_at, q, s, body)

    def jacobian_bodyframe(
        self, q: ArrayLike, s: ArrayLike, body: int | None = None
    ) -> Float[Array, "d n"]:
        """Jacobian of the body twist at arc length `s`: the rows of `jacobian` turned by `R^T`."""
        return self._at(terms.body_jacobian_at, q, s, body)

    def external_force(
        self, q: ArrayLike, s: ArrayLike, wrench: ArrayLike, body: int | None = None
    ) -> Float[Array, " n"]:
        """Generalized force `J^T wrench` of a wrench `[moment; force]` at arc length `s`.

        The wrench (6,) or (3,) is given in world axes at the point.
        """
        jacobian = self.jacobian(q, s, body)
        wrench = as_array(wrench, "wrench", jacobian.dtype, (self.group.DIM,))
        return jacobian.T @ wrench

    # --- the terms of the equation of motion -----------------------------------------------

    def inertia_matrix(self, q: ArrayLike) -> Float[Array, "n n"]:
        """`M(q)`, symmetric positive definite, armature included."""
        return self._run(terms.inertia_matrix, q=q)

    def coriolis_matrix(self, q: ArrayLike, qd: ArrayLike) -> Float[Array, "n n"]:
        """`C(q, qd)` with `dM/dt - 2C` skew-symmetric."""
        return self._run(terms.coriolis_matrix, q=q, qd=qd)

    def coriolis_force(self, q: ArrayLike, qd: ArrayLike) -> Float[Array, " n"]:
        """`C(q, qd) qd`, in O(bodies)."""
        return self._run(terms.coriolis_force, q=q, qd=qd)

    def gravitational_force(self, q: ArrayLike) -> Float[Array, " n"]:
        """`G(q) = dU_g/dq`, in O(bodies)."""
        return self._run(terms.gravitational_force, q=q)

    def elastic_force(self, q: ArrayLike) -> Float[Array, " n"]:
        """`dU_e/dq` of the bodies and the passive elements."""
        return self._run(terms.elastic_force, q=q)

    def stiffness_matrix(self) -> Float[Array, "n n"]:
        """`K` of the bodies alone."""
        return _evaluate(self, terms.stiffness_matrix, ())

    def damping_matrix(self, q: ArrayLike) -> Float[Array, "n n"]:
        """`D(q)` of the bodies and the passive elements."""
        return self._run(terms.damping_matrix, q=q)

    # --- energies --------------------------------------------------------------------------

    def kinetic_energy(self, q: ArrayLike, qd: ArrayLike) -> Scalar:
        """`1/2 qd^T M qd` [J]."""
        return self._run(terms.kinetic_energy, q=q, qd=qd)

    def gravitational_energy(self, q: ArrayLike) -> Scalar:
        """`-sum m g . p` [J]; zero for a mass at the origin of the world."""
        return self._run(terms.gravitational_energy, q=q)

    def elastic_energy(self, q: ArrayLike) -> Scalar:
        """Elastic energy of the bodies and the passive elements [J]."""
        return self._run(terms.elastic_energy, q=q)

    def potential_energy(self, q: ArrayLike) -> Scalar:
        """Gravitational and elastic energy [J]."""
        return self.gravitational_energy(q) + self.elastic_energy(q)

    def total_energy(self, q: ArrayLike, qd: ArrayLike) -> Scalar:
        """Kinetic and potential energy [J]."""
        return self.kinetic_energy(q, qd) + self.potential_energy(q)

    # --- dynamics --------------------------------------------------------------------------

    def inverse_dynamics(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> Float[Array, " n"]:
        """`M qdd + C qd + G + elastic + damping`, in O(bodies): the force that `qdd` takes."""
        return self._run(terms.inverse_dynamics, q=q, qd=qd, qdd=qdd)

    def forward_acceleration(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        u: ArrayLike | None = None,
        tau_ext: ArrayLike | None = None,
    ) -> Float[Array, " n"]:
        """`qdd` under control `u` (m,) and generalized force `tau_ext` (n,), in O(bodies).

        Without `u` the stored commands hold (zero, unless set).
        """
        return self._run(terms.forward_acceleration, q=q, qd=qd, u=u, tau_ext=tau_ext)

    def forward_dynamics(
        self,
        t: ArrayLike,
        y: ArrayLike,
        u: ArrayLike | None = None,
        tau_ext: ArrayLike | None = None,
    ) -> Float[Array, " state"]:
        """`[qd; qdd]` at `y = [q; qd]` (2n,); the time `t` has no effect."""
        n = self.num_dofs
        y = as_array(y, "y", self._state_dtype(y), (2 * n,))
        return jnp.concatenate([y[n:], self.forward_acceleration(y[:n], y[n:], u, tau_ext)])

    # --- the door --------------------------------------------------------------------------

    def _run(self, function: Callable, **inputs: ArrayLike | None) -> Any:
        """Checks and converts named inputs, then evaluates `function(robot, *inputs)`, compiled."""
        dtype = self._state_dtype(*(inputs[name] for name in ("q", "qd") if name in inputs))
        sizes = {"u": self.num_actuators}
        arguments = tuple(
            None
            if value is None and name != "q"
            else as_array(value, name, dtype, (sizes.get(name, self.num_dofs),))
            for name, value in inputs.items()
        )
        robot = self._in(dtype)
        if "u" in inputs:  # compiled, a refused command could only end in a runtime error
            loads.check_known_control(robot, arguments[list(inputs).index("u")])
        return _evaluate(robot, function, arguments)

    def _at(
        self, function: Callable, q: ArrayLike, s: ArrayLike, body: int | None, s_ndim: int = 0
    ) -> Array:
        dtype = self._state_dtype(q)
        q = as_array(q, "q", dtype, (self.num_dofs,))
        s = arc_length_array(s, dtype)
        if s.ndim != s_ndim:
            raise ValueError(f"`s` needs {s_ndim} axes here, got shape {s.shape}.")
        body = None if body is None else index_of(body, "body")
        self._check_arc_length(s, body)
        return _evaluate(self._in(dtype), function, (q, s), body)

    def _check_arc_length(self, s: Array, body: int | None) -> None:
        if concrete(s) is None or any(
            isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(self)
        ):
            return
        with jax.ensure_compile_time_eval():
            length = float(_evaluate(self, terms.length_to, (), body))
        check_arc_length(s, length)

    def _state_dtype(self, *values: ArrayLike | None) -> np.dtype:
        arrays = [value for value in values if hasattr(value, "dtype")]
        floats = [value for value in arrays if jnp.issubdtype(value.dtype, jnp.floating)]
        return float_dtype(*floats) if floats else self.dtype

    def _in(self: SelfT, dtype: np.dtype) -> SelfT:
        """The robot with its numbers in `dtype`."""
        if dtype == self.dtype:
            return self
        return jax.tree.map(lambda x: x.astype(dtype) if eqx.is_inexact_array(x) else x, self)


@eqx.filter_jit
def _evaluate(robot: SoftRobot, function: Callable, arguments: tuple, *static: int | None) -> Any:
    # compiled also when called eagerly: a notebook does not pay for each operation
    return function(robot, *arguments, *static)
