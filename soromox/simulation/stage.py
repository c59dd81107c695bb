"""The equations of one implicit stage."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Scalar

from soromox.actuation import ActuatedHost, loads
from soromox.chain import Mechanics
from soromox.simulation.root import Residual


class Motion(NamedTuple):
    """Coordinates and rates of the loads whose efforts respond to them."""

    y: Float[Array, " responsive"]
    yd: Float[Array, " responsive"]


class Held(NamedTuple):
    """Efforts of all loads by a linear model, and the motion at which they are these."""

    effort: Float[Array, " loads"]
    motion: Motion
    k: Float[Array, "responsive responsive"]  # minus the slopes of the responsive efforts
    c: Float[Array, "responsive responsive"]


class Stage(Residual):
    """`ID(q, v, a) + elastic + damping - A(q) e(y, rate, u) - other - tau_ext = 0` in `a`.

    `v = v0 + h a`, `q = q0 + h v`. The rate is `(y(q) - y0) / h` if `y0` is given, `A(q)^T v`
    otherwise. States of stateful laws, `z = z0 + h dz/dt`, are eliminated within the effort e.
    """

    robot: ActuatedHost
    mechanics: Mechanics
    h: Scalar
    q0: Float[Array, " dofs"]
    v0: Float[Array, " dofs"]
    y0: Float[Array, " coordinates"] | None
    z0: Float[Array, " states"]
    u: Float[Array, " channels"]
    tau_ext: Float[Array, " dofs"] | None

    @property
    def memory(self) -> loads.Memory:
        return loads.Memory(self.z0, self.h)

    def motion(self, a: Float[Array, " dofs"]) -> tuple[Array, Array]:
        """Configuration and velocity at the end of the stage."""
        v = self.v0 + self.h * a
        return self.q0 + self.h * v, v

    def final_states(self, a: Float[Array, " dofs"]) -> tuple[Array, Bool[Array, ""]]:
        """States of stateful laws at the end of the stage, and whether they were found."""
        if self.z0.size == 0:
            return self.z0, jnp.asarray(True)
        q, v = self.motion(a)
        y, yd = jax.jvp(lambda q: loads.load_coordinates(self.robot, q), (q,), (v,))
        yd = yd if self.y0 is None else (y - self.y0) / self.h
        return loads.final_states(self.robot, y, yd, self.u, self.memory)

    def value(self, x: Float[Array, " dofs"]) -> Float[Array, " dofs"]:
        return self.value_under(x, None)

    def value_under(self, x: Float[Array, " dofs"], held: Held | None) -> Float[Array, " dofs"]:
        """`value` with the held efforts instead of those of the laws, where they are not NaN."""
        q, v = self.motion(x)
        force = self.mechanics.inverse_dynamics(q, v, x) - loads.other_force(self.robot, q, v)
        if loads.responsive_mask(self.robot):
            y, rates = jax.linearize(lambda q: loads.load_coordinates(self.robot, q), q)
            yd = rates(v) if self.y0 is None else (y - self.y0) / self.h
            effort = loads.load_efforts(self.robot, y, yd, self.u, self.memory)
            if held is not None:
                effort = jnp.where(jnp.isnan(held.effort), effort, held.effort)
            (drive,) = jax.linear_transpose(rates, q)(effort)
            force = force - drive
        return force if self.tau_ext is None else force - self.tau_ext
