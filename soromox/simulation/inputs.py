"""Checks at the door of a simulation: states, controls, external forces."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from soromox.actuation import ActuatedHost, loads
from soromox.numerics.checks import (
    ArrayLike,
    as_array,
    check_finite,
    check_positive,
    concrete,
    float_dtype,
)
from soromox.simulation.implicit import History
from soromox.simulation.schemes import AbstractScheme, BackwardEuler
from soromox.simulation.state import SystemState


Signal = ArrayLike | Callable[[Array], ArrayLike]


def in_dtype(robot: ActuatedHost, dtype: np.dtype) -> ActuatedHost:
    """The robot with its numbers in `dtype`."""
    if dtype == robot.dtype:
        return robot
    return jax.tree.map(lambda x: x.astype(dtype) if eqx.is_inexact_array(x) else x, robot)


def dtype_for(robot: ActuatedHost, *values: ArrayLike | None) -> np.dtype:
    """That of the floating arrays among `values`, else the robot's."""
    known = [x for x in values if hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.floating)]
    return float_dtype(*known) if known else robot.dtype


def checked_state(robot: ActuatedHost, state: SystemState, name: str) -> SystemState:
    """Raises unless `state` is one state of `robot`."""
    if not isinstance(state, SystemState):
        raise TypeError(f"`{name}` needs a SystemState, got {type(state).__name__}.")
    as_array(state.y, f"{name}.y", state.y.dtype, (2 * robot.num_dofs,))
    if state.t.shape != ():
        raise ValueError(f"`{name}.t` needs shape (), got {state.t.shape}.")
    check_finite(state.t, f"{name}.t")
    return state


def checked_step_length(dt: ArrayLike | None, dtype: np.dtype) -> Float[Array, ""]:
    if dt is None:
        raise ValueError("`dt`, the length of a step in seconds, is needed.")
    check_positive(dt, "dt")
    dt = as_array(dt, "dt", dtype, ())
    if concrete(dt) is not None:
        return dt
    return jnp.where(dt > 0, dt, jnp.nan)  # a step of a length that is not positive fails


def checked_scheme(scheme: AbstractScheme | None) -> AbstractScheme:
    """`BackwardEuler()` by default."""
    scheme = BackwardEuler() if scheme is None else scheme
    if not isinstance(scheme, AbstractScheme):
        raise TypeError(f"`scheme` needs an instance such as `BackwardEuler()`, got {scheme!r}.")
    return scheme


def checked_control(
    robot: ActuatedHost, state: SystemState, u: ArrayLike | None
) -> Float[Array, " channels"]:
    """`u`, else the control of the state, else the stored commands."""
    return loads.control_vector(robot, state.u if u is None else u, state.y.dtype)


def checked_states(robot: ActuatedHost, state: SystemState) -> Float[Array, " states"]:
    """The states of stateful laws: those of `state`, else those stored in the robot."""
    stored = loads.stored_states(robot, state.y.dtype)
    if state.actuator_state is None:
        return stored
    return as_array(state.actuator_state, "actuator_state", state.y.dtype, stored.shape)


def check_history(scheme: AbstractScheme, state: SystemState) -> None:
    """Raises unless `state.scheme_state` is none or belongs to a multi-step scheme like this."""
    history = state.scheme_state
    if history is None:
        return
    if not isinstance(history, History):
        raise TypeError(
            f"`scheme_state` needs that of a multi-step scheme's result, got {type(history).__name__}."
        )
    if scheme.multistep is None:
        return
    needed = len(scheme.multistep.past) - 1
    if len(history.q) != needed:
        raise ValueError(
            f"`scheme_state` holds {len(history.q)} points before the present one, "
            f"{type(scheme).__name__} needs {needed}; None starts it anew."
        )
    for past, now in ((history.q, state.q), (history.qd, state.qd)):
        if past.shape[1:] != now.shape:
            raise ValueError(
                f"`scheme_state` is that of a robot with {past.shape[-1]} dofs, not {now.size}."
            )


class TimeFunction(eqx.Module):
    """A function of time whose values are checked."""

    function: Callable
    name: str = eqx.field(static=True)
    size: int = eqx.field(static=True)

    def __call__(self, time: Array) -> Array:
        try:
            value = self.function(time)
        except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
            raise TypeError(
                f"`{self.name}(t)` is traced: write it with `jax.numpy`, and `jnp.where` for `if`."
            ) from error
        if value is None:
            raise TypeError(f"`{self.name}(t)` must return {self.size} numbers, got None.")
        return as_array(value, f"{self.name}(t)", time.dtype, (self.size,))


def checked_signal(
    signal: Signal | None, name: str, dtype: np.dtype, size: int, num_steps: int
) -> Array | Callable | None:
    """A constant `(size,)`, one row per step `(num_steps, size)`, or a function of time."""
    if callable(signal):
        return TimeFunction(signal, name, size)
    if signal is None:
        return None
    array = as_array(signal, name, dtype)
    if array.shape not in ((size,), (num_steps, size)):
        raise ValueError(
            f"`{name}` needs shape ({size},), ({num_steps}, {size}) with one row per step, or a "
            f"function of time, got shape {array.shape}."
        )
    return array
