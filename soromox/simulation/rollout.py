"""Many steps: a scan over an integer step index, with memory that grows like its square root."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Scalar

from soromox.actuation import ActuatedHost, loads
from soromox.numerics.checks import ArrayLike, as_array, check_positive, concrete, whole_number
from soromox.simulation import implicit
from soromox.simulation.adaptive import Adaptive, substeps
from soromox.simulation.checkpointing import checkpointed_scan
from soromox.simulation.inputs import (
    Signal,
    check_history,
    checked_control,
    checked_scheme,
    checked_signal,
    checked_state,
    checked_states,
    checked_step_length,
    in_dtype,
)
from soromox.simulation.progress import Progress
from soromox.simulation.schemes import AbstractScheme
from soromox.simulation.state import RESULTS, SystemState, first_failure


Controller = Callable[[SystemState], ArrayLike | tuple[ArrayLike, Any]]


def implicit_step(
    robot: ActuatedHost,
    state: SystemState,
    u: ArrayLike | None = None,
    dt: ArrayLike | None = None,
    scheme: AbstractScheme | None = None,
    tau_ext: ArrayLike | None = None,
) -> SystemState:
    """The state one step later.

    If the step fails, `result` says why and time and `y` are those of `state`. The fields of
    `state` keep their structure, so that a step can be the body of a `jax.lax.scan` (for `BDF2`,
    `BDF3` and stateful laws take the state after one step as the start of the scan).

    **Arguments:**

    - `u`: control (m,), held over the step; by default that of the state, else the stored commands.
    - `dt` [s]: length of the step.
    - `scheme`: by default `BackwardEuler()`.
    - `tau_ext`: generalized force (n,).

    Raises `ValueError` for wrong shapes and non-positive `dt`.
    """
    state = checked_state(robot, state, "state")
    dtype = state.y.dtype
    dt = checked_step_length(dt, dtype)
    control = checked_control(robot, state, u)
    if tau_ext is not None:
        tau_ext = as_array(tau_ext, "tau_ext", dtype, (robot.num_dofs,))
    scheme = checked_scheme(scheme)
    check_history(scheme, state)
    return _step(in_dtype(robot, dtype), state, control, dt, scheme, tau_ext)


@eqx.filter_jit
def _step(
    robot: ActuatedHost,
    state: SystemState,
    u: Array,
    dt: Array,
    scheme: AbstractScheme,
    tau_ext: Array | None,
) -> SystemState:
    states = checked_states(robot, state)
    point = implicit.start(scheme, state.q, state.qd, states, state.scheme_state)
    new = implicit.step(robot, robot.mechanics(), scheme, point, dt, lambda node: (u, tau_ext))
    t = jnp.where(new.result == RESULTS.successful, state.t + dt, state.t)
    return SystemState(
        t=t,
        y=jnp.concatenate([new.q, new.qd]),
        u=state.u,
        actuator_state=new.states if states.size else state.actuator_state,
        control_state=state.control_state,
        scheme_state=new.history,
        result=new.result,
        residual=new.residual,
    )


def rollout_to(
    robot: ActuatedHost,
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
    """The motion from `initial_state` on: states with a leading time axis.

    The first sample is the start; then one follows every `save_every` steps; the last lies exactly
    at `t1`. Sample times are `t0 + k dt` with an integer k. After a step that fails the last good
    state is kept and `result` says why. Memory for the gradient grows like the square root of the
    number of steps. `grad`, `jvp`, `jacfwd`, `vmap` and `hessian` (forward over reverse) work;
    reverse over reverse does not.

    **Arguments:**

    - `u`: control (m,), or one row for each step (steps, m), or a function of time, evaluated at
      the times of the stages. By default that of the state, else the stored commands.
    - `t1` [s]: the end; needs concrete times and a whole number of steps (to 1e-6). Or `num_steps`,
      with which `dt` may be traced and differentiated.
    - `dt` [s]: length of a step.
    - `controller`: a function of the `SystemState` that returns the control, or control and next
      `control_state`; called every `control_every` steps and held between. Excludes `u`.
    - `progress`: shows a bar.
    - `throw`: raises `RuntimeError` if a step fails, unless the call is being traced.
    - `tau_ext`: generalized force (n,), (steps, n), or a function of time.
    - `adaptive`: takes each step in substeps whose error is controlled; not for `BDF2` and `BDF3`.

    Raises `ValueError` for wrong shapes, times that do not fit and arguments that exclude each
    other.
    """
    state = checked_state(robot, initial_state, "initial_state")
    dtype = state.y.dtype
    step_length = checked_step_length(dt, dtype)
    span, num_steps = _span(state, t1, num_steps, dt, step_length)
    save_every = whole_number(save_every, "`save_every` must be a positive integer")
    control_every = whole_number(control_every, "`control_every` must be a positive integer")
    for name, every in (("save_every", save_every), ("control_every", control_every)):
        if num_steps % every:
            raise ValueError(f"`{name}` must divide the {num_steps} steps, got {every}.")
    if controller is not None and u is not None:
        raise ValueError("Give either `u` or `controller`.")
    if controller is not None and not callable(controller):
        raise TypeError(f"`controller` needs a function of the state, got {controller!r}.")
    if controller is None and control_every != 1:
        raise ValueError("`control_every` is the period of a `controller`, and there is none.")
    if controller is None and u is None:
        u = checked_control(robot, state, None)
    scheme = checked_scheme(scheme)
    check_history(scheme, state)
    if adaptive is not None and not isinstance(adaptive, Adaptive):
        raise TypeError(f"`adaptive` needs an instance such as `Adaptive()`, got {adaptive!r}.")
    if adaptive is not None and scheme.multistep is not None:
        raise ValueError(
            f"`adaptive` needs a scheme of one step, got {type(scheme).__name__}: a change of step "
            "length would start it anew."
        )
    u = checked_signal(u, "u", dtype, loads.num_channels(robot), num_steps)
    tau_ext = checked_signal(tau_ext, "tau_ext", dtype, robot.num_dofs, num_steps)
    plan = _Plan(
        num_steps,
        save_every,
        control_every,
        scheme,
        Progress(num_steps) if progress else None,
        adaptive,
    )
    trajectory = _rollout(in_dtype(robot, dtype), state, u, tau_ext, span, plan, controller)
    if throw:
        _raise_failure(trajectory, save_every)
    return trajectory


class _Span(NamedTuple):
    """The clock: `t0 + k dt`; with an end, interpolated so that it is met exactly."""

    t0: Scalar
    t1: Scalar | None
    dt: Scalar

    def time(self, k: Array, num_steps: int) -> Array:
        k = k.astype(self.dt.dtype)
        if self.t1 is None:
            return self.t0 + k * self.dt
        part = k / num_steps
        return self.t0 * (1 - part) + self.t1 * part


class _Plan(NamedTuple):
    num_steps: int
    save_every: int
    control_every: int
    scheme: AbstractScheme
    progress: Progress | None
    adaptive: Adaptive | None


def _span(
    state: SystemState,
    t1: ArrayLike | None,
    num_steps: int | None,
    dt: ArrayLike,
    step_length: Array,
) -> tuple[_Span, int]:
    if (t1 is None) == (num_steps is None):
        raise ValueError("Give exactly one of `t1` (concrete) and `num_steps`.")
    if num_steps is not None:
        count = whole_number(num_steps, "`num_steps` must be a concrete positive integer")
        return _Span(state.t, None, step_length), count
    start, end, known_dt = concrete(state.t), concrete(t1), concrete(dt)
    if start is None or end is None or known_dt is None:
        raise ValueError(
            "`t1` needs concrete times: give `num_steps` where `dt`, `t1` or the time of the "
            "state is traced."
        )
    length = float(end) - float(start)
    check_positive(length, "t1 - t0")
    steps = length / float(known_dt)
    whole = round(steps)
    # in float32 the times themselves are known to eps only
    slack = max(1e-6, 4 * float(jnp.finfo(step_length.dtype).eps) * max(1.0, steps))
    if whole < 1 or abs(steps - whole) > slack:
        raise ValueError(
            f"`dt` must divide the time to `t1`: ({float(end)} - {float(start)}) / "
            f"{float(known_dt)} = {steps:.9g} steps. Take `dt = {length / max(whole, 1):.9g}`."
        )
    dtype = step_length.dtype
    t1, dt = as_array(t1, "t1", dtype, ()), as_array(length / whole, "dt", dtype, ())
    return _Span(state.t, t1, dt), whole


class _Carry(NamedTuple):
    point: implicit.Point
    u: Array  # held
    control_state: Any
    code: Int[Array, ""]  # of the first failure; later steps are not taken
    worst: Scalar  # residual since the last sample
    substep: Scalar  # part of a step that an adaptive one tries first


@eqx.filter_jit
def _rollout(
    robot: ActuatedHost,
    state: SystemState,
    u: Array | Callable | None,
    tau_ext: Array | Callable | None,
    span: _Span,
    plan: _Plan,
    controller: Controller | None,
) -> SystemState:
    mechanics = robot.mechanics()
    num_steps, dtype = plan.num_steps, state.y.dtype
    states = checked_states(robot, state)
    point = implicit.start(plan.scheme, state.q, state.qd, states, state.scheme_state)

    def to_state(k: Array, carry: _Carry, u: Array) -> SystemState:
        point = carry.point
        return SystemState(
            t=span.time(k, num_steps),
            y=jnp.concatenate([point.q, point.qd]),
            u=u,
            actuator_state=point.states if states.size else state.actuator_state,
            control_state=carry.control_state,
            scheme_state=point.history,
            result=carry.code,
            residual=carry.worst,
        )

    def control(k: Array, carry: _Carry) -> tuple[Array, Any]:
        if controller is None:
            return carry.u, carry.control_state
        call = lambda carry: _call(controller, to_state(k, carry, carry.u))
        if plan.control_every == 1:
            return call(carry)
        held = lambda carry: (carry.u, carry.control_state)
        return jax.lax.cond(k % plan.control_every == 0, call, held, carry)

    def advance(carry: _Carry, xs: tuple) -> _Carry:
        k, (u_row, tau_row) = xs
        held, control_state = control(k, carry)
        if u_row is not None:
            held = u_row

        def inputs(node: Array) -> tuple[Array, Array | None]:
            time = span.time(k, num_steps) + node * span.dt
            return _value(u, held, time), _value(tau_ext, tau_row, time)

        problem = (robot, mechanics, plan.scheme, carry.point, span.dt, inputs)
        if plan.adaptive is None:
            new, substep = implicit.step(*problem), carry.substep
        else:
            new, substep = substeps(*problem, carry.substep, plan.adaptive)
        worst = jnp.maximum(carry.worst, new.residual)
        if plan.progress is not None:
            plan.progress.report(k)
        frozen = carry.code != RESULTS.successful
        reached = _Carry(new, held, control_state, new.result, worst, substep)
        return implicit.keep_where(frozen, carry, reached)

    def sample(k: Array, carry: _Carry) -> tuple[_Carry, SystemState]:
        saved = to_state(k, carry, _value(u, carry.u, span.time(k, num_steps)))
        return carry._replace(worst=jnp.zeros((), dtype)), saved

    zero = jnp.zeros((), jnp.int32)
    carry = _Carry(
        point,
        _first_control(u, loads.num_channels(robot), dtype),
        jax.tree.map(_strong, state.control_state),
        zero,
        jnp.zeros((), dtype),
        jnp.ones((), dtype),
    )
    if controller is not None:
        carry = carry._replace(u=_first_call(controller, to_state(zero, carry, carry.u)))
    rows = tuple(signal if _is_table(signal) else None for signal in (u, tau_ext))
    start = sample(zero, carry)[1]
    samples = checkpointed_scan(advance, sample, carry, rows, num_steps, plan.save_every)
    return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), start, samples)


def _is_table(signal: Array | Callable | None) -> bool:
    return signal is not None and not callable(signal) and signal.ndim == 2


def _value(signal: Array | Callable | None, held: Array | None, time: Array) -> Array | None:
    """A signal at a time; a table has its row in `held`."""
    if callable(signal):
        return signal(time)
    return held if signal is None or signal.ndim == 2 else signal


def _first_control(u: Array | Callable | None, size: int, dtype: np.dtype) -> Array:
    if u is None or callable(u):
        return jnp.zeros(size, dtype)
    return u[0] if u.ndim == 2 else u


def _call(controller: Controller, state: SystemState) -> tuple[Array, Any]:
    """Control and next control state."""
    answer = controller(state)
    control, control_state = answer if isinstance(answer, tuple) else (answer, state.control_state)
    control = as_array(control, "the control of `controller`", state.y.dtype, state.u.shape)
    return control, jax.tree.map(_strong, control_state)


def _first_call(controller: Controller, state: SystemState) -> Array:
    control, control_state = _call(controller, state)
    before, after = (
        jax.tree.map(lambda x: (x.shape, x.dtype), tree)
        for tree in (state.control_state, control_state)
    )
    if before != after:
        raise ValueError(
            "`initial_state.control_state` must have the structure, shapes and dtypes that "
            f"`controller` returns: {after}, got {before}."
        )
    return control


def _strong(x: ArrayLike) -> Array:
    x = jnp.asarray(x)
    return x.astype(x.dtype)


def _raise_failure(trajectory: SystemState, save_every: int) -> None:
    index = first_failure(trajectory.result)
    if index is None:
        return
    sample = index[-1]
    lane = f" of robot {index[:-1]}" if len(index) > 1 else ""
    code = RESULTS(int(np.asarray(trajectory.result)[index]))
    t = np.asarray(trajectory.t)[(*index[:-1], sample - 1)]
    steps = (
        f"Step {sample}"
        if save_every == 1
        else f"One of the steps {(sample - 1) * save_every + 1} to {sample * save_every}"
    )
    raise RuntimeError(f"{steps}{lane}, after t = {t:.6g} s, failed ({code.name}). {code.message}")
