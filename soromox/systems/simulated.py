"""The public methods of every robot that move it in time."""

from collections.abc import Sequence

import jax
import jax.export
from jaxtyping import Array, Float

from soromox import simulation
from soromox.actuation import ActuatedHost
from soromox.numerics.checks import ArrayLike
from soromox.simulation import (
    AbstractScheme,
    Adaptive,
    Controller,
    Equilibrium,
    Signal,
    SystemState,
)


class Simulated(ActuatedHost):
    """Implicit steps and rollouts; `soromox.simulation` has the methods behind them."""

    def implicit_step(
        self,
        state: SystemState,
        u: ArrayLike | None = None,
        dt: ArrayLike | None = None,
        scheme: AbstractScheme | None = None,
        tau_ext: ArrayLike | None = None,
    ) -> SystemState:
        """The state one step of `dt` [s] later, under control `u` (m,) and force `tau_ext` (n,).

        `result` says whether the step converged; if not, time and `y` are those of `state`.
        The scheme is `BackwardEuler()` by default. See `soromox.simulation.implicit_step`.
        """
        return simulation.implicit_step(self, state, u, dt, scheme, tau_ext)

    def rollout_to(
        self,
        initial_state: SystemState,
        u: Signal | None = None,
        t1: ArrayLike | None = None,
        num_steps: int | None = None,
        dt: ArrayLike | None = None,
        save_every: int = 1,
        scheme: AbstractScheme | None = None,
        controller: Controller | None = None,
        progress: bool = False,
        throw: bool = False,
        tau_ext: Signal | None = None,
        control_every: int = 1,
        adaptive: Adaptive | None = None,
    ) -> SystemState:
        """The motion in steps of `dt` [s] up to `t1` or for `num_steps`, with a leading time axis.

        The first sample is the start, the last lies exactly at `t1`. `u` is constant (m,), one row
        a step (steps, m), or a function of time. See `soromox.simulation.rollout_to`.
        """
        return simulation.rollout_to(
            self,
            initial_state,
            u,
            t1,
            num_steps,
            dt,
            save_every,
            scheme,
            controller,
            progress,
            throw,
            tau_ext,
            control_every,
            adaptive,
        )

    def static_equilibrium(
        self,
        u: ArrayLike | None = None,
        tau_ext: ArrayLike | None = None,
        q0: ArrayLike | None = None,
        steps: int = 1,
        throw: bool = False,
    ) -> Equilibrium:
        """The equilibrium under control `u` (m,) and generalized force `tau_ext` (n,).

        Has `.q`, `.residual`, `.result` (also says whether the equilibrium is unstable) and
        `.smallest_stiffness`. `throw=True` raises where the search fails. See
        `soromox.simulation.static_equilibrium`.
        """
        return simulation.static_equilibrium(self, u, tau_ext, q0, steps, throw)

    def export(
        self,
        dt: ArrayLike,
        num_steps: int = 1,
        scheme: AbstractScheme | None = None,
        batch_size: int | None = None,
        platforms: Sequence[str] = ("cpu",),
    ) -> jax.export.Exported:
        """`num_steps` implicit steps of `dt` [s] as a compiled program that runs without `soromox`.

        A function `(y, actuator_state, u) -> (y, actuator_state, result, residual)`; `.serialize()`
        gives bytes. See `soromox.simulation.export`.
        """
        return simulation.export(self, dt, num_steps, scheme, batch_size, platforms)

    def linearize(
        self, q: ArrayLike, qd: ArrayLike, u: ArrayLike | None = None
    ) -> tuple[Float[Array, "states states"], Float[Array, "states channels"]]:
        """`(A, B)` of `dy/dt = A y + B u` about a state, `y = [q; qd]`."""
        return simulation.linearize(self, q, qd, u)
