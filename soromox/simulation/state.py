"""The state of a simulated robot, and how a step can end."""

import enum
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from soromox.numerics.checks import ArrayLike, as_array, float_dtype


class RESULTS(enum.IntEnum):
    """How a step, a rollout or a search for equilibrium ended; larger is worse.

    States carry the number, one per robot and sample: compare with `state.result ==
    RESULTS.successful`. `RESULTS(int(code)).message` says what to do.
    """

    successful = 0
    unstable = 1
    not_converged = 2
    non_finite = 3
    rejected_command = 4
    too_many_substeps = 5

    @property
    def message(self) -> str:
        return _MESSAGES[self]


_MESSAGES = {
    RESULTS.successful: "The solution was found.",
    RESULTS.unstable: (
        "The equilibrium is unstable: the tangent stiffness has a negative eigenvalue. Start "
        "nearer to the stable branch (`q0`) or take more load `steps`."
    ),
    RESULTS.not_converged: (
        "The equations of the step were not solved to rounding. Take a smaller `dt` (or more load "
        "`steps`), or a scheme that damps more (`BackwardEuler`)."
    ),
    RESULTS.non_finite: (
        "NaN or infinity appeared. Check state, control, parameters and a traced `dt`; if they are "
        "finite, take a smaller `dt`; an equilibrium needs stiffness against its load."
    ),
    RESULTS.rejected_command: (
        "An effort law refused its command (such as NaN, or a negative force on a tendon that "
        "cannot push). Keep `u` within what the laws accept; behind a lag, which may overshoot in steps "
        "longer than its time, take a smaller `dt` or `BackwardEuler`."
    ),
    RESULTS.too_many_substeps: (
        "The error of an adaptive step was not brought below its tolerance. Allow more "
        "`max_substeps`, take a smaller `dt`, or larger `rtol` and `atol`."
    ),
}


class SystemState(eqx.Module):
    """Time, configuration and velocity of a robot; trajectories have a leading time axis.

    **Fields:**

    - `t` [s]; `y = [q; qd]`.
    - `u`: control (m,), used where a call is given none. In a trajectory: a function of time at the
      sample; a held control of the step that ended there (at the start, of the first step).
    - `actuator_state`, `control_state`: what stateful laws and controllers remember.
    - `scheme_state`: history of a multi-step scheme; `None` to start it anew.
    - `result`: code of `RESULTS` (the worst since the sample before).
    - `residual`: size of the last Newton correction relative to the velocities of the step (energy
      norm), the worst since the sample before; near rounding where `result` is successful.
    """

    t: Float[Array, "*times"]
    y: Float[Array, "*times states"]
    u: Float[Array, "*times channels"] | None
    actuator_state: Any
    control_state: Any
    scheme_state: Any
    result: Int[Array, "*times"]
    residual: Float[Array, "*times"]

    def __init__(
        self,
        t: ArrayLike,
        y: ArrayLike,
        u: ArrayLike | None = None,
        actuator_state: Any = None,
        control_state: Any = None,
        scheme_state: Any = None,
        result: ArrayLike | None = None,
        residual: ArrayLike | None = None,
    ):
        """Numbers and lists are converted; the dtype is that of the floating arrays among them.

        Raises `ValueError` if `y` does not hold as many velocities as coordinates, or `t` not one
        time for each row of a trajectory.
        """
        dtype = float_dtype(y) if hasattr(y, "dtype") else float_dtype(t, u)
        self.y = as_array(y, "y", dtype)
        if self.y.ndim == 0 or self.y.shape[-1] % 2:
            raise ValueError(f"`y` needs shape (2 n,) for [q; qd], got {self.y.shape}.")
        times = self.y.shape[:-1]
        self.t = as_array(t, "t", dtype, times)
        self.u = None if u is None else as_array(u, "u", dtype)
        self.actuator_state = actuator_state
        self.control_state = control_state
        self.scheme_state = scheme_state
        self.result = jnp.asarray(np.zeros(times, np.int32)) if result is None else result
        self.residual = (
            jnp.asarray(np.zeros(times, dtype))
            if residual is None
            else as_array(residual, "residual", dtype)
        )

    @property
    def q(self) -> Float[Array, "*times dofs"]:
        """Configuration."""
        return self.y[..., : self.y.shape[-1] // 2]

    @property
    def qd(self) -> Float[Array, "*times dofs"]:
        """Velocity."""
        return self.y[..., self.y.shape[-1] // 2 :]


def first_failure(result: Int[Array, "..."]) -> tuple[int, ...] | None:
    """Index of the first sample that is not successful; `None` if all are, or if it is traced."""
    if isinstance(result, jax.core.Tracer):
        return None
    failed = np.argwhere(np.asarray(result) > RESULTS.successful)
    return tuple(int(i) for i in failed[0]) if len(failed) else None
