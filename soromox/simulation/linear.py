"""Linear models about a state: continuous, discrete, and free vibration."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from soromox.actuation import ActuatedHost, loads
from soromox.numerics.checks import ArrayLike, as_array, check_finite, concrete
from soromox.simulation import implicit
from soromox.simulation.equilibrium import Statics
from soromox.simulation.inputs import (
    checked_control,
    checked_scheme,
    checked_state,
    checked_states,
    checked_step_length,
    dtype_for,
    in_dtype,
)
from soromox.simulation.schemes import AbstractScheme
from soromox.simulation.state import RESULTS, SystemState, first_failure


def linearize(
    robot: ActuatedHost, q: ArrayLike, qd: ArrayLike, u: ArrayLike | None = None
) -> tuple[Float[Array, "states states"], Float[Array, "states channels"]]:
    """`A = df/dy`, `B = df/du` of `dy/dt = f(y, u)`, `y = [q; qd]`.

    For a robot with stateful laws `y = [q; qd; z]`, about the states z that the robot stores. Exact derivatives. Raises `ValueError` for wrong shapes, for NaN and for refused commands; in a
    traced call a refused command that would give a plausible load ends the program with an error.
    """
    robot, (q, qd, u) = _at_door(robot, q=q, qd=qd, u=u)
    return _linearize(robot, q, qd, u)


@eqx.filter_jit
def _linearize(robot: ActuatedHost, q: Array, qd: Array, u: Array) -> tuple[Array, Array]:
    mechanics, n = robot.mechanics(), len(q)
    states = loads.stored_states(robot, q.dtype)

    def rate(y: Array, u: Array) -> Array:
        q, qd, z = y[:n], y[n : 2 * n], y[2 * n :]
        tau, drifts = loads.other_force(robot, q, qd), z
        if loads.responsive_mask(robot):
            held = loads.with_states(robot, z)
            place, rates = jax.linearize(lambda q: loads.load_coordinates(robot, q), q)
            effort = loads.load_efforts(held, place, rates(qd), u)
            tau = tau + jax.linear_transpose(rates, q)(effort)[0]
            drifts = loads.state_rates(held, place, rates(qd), u)
        return jnp.concatenate([qd, mechanics.forward_acceleration(q, qd, tau), drifts])

    return jax.jacfwd(rate, argnums=(0, 1))(jnp.concatenate([q, qd, states]), u)


def linearize_step(
    robot: ActuatedHost,
    state: SystemState,
    u: ArrayLike | None = None,
    dt: ArrayLike | None = None,
    scheme: AbstractScheme | None = None,
) -> tuple[Float[Array, "states states"], Float[Array, "states channels"]]:
    """`A_d = dy'/dy`, `B_d = dy'/du` of one implicit step `y -> y'` with held control.

    The derivative of the step itself, by the implicit function theorem; multi-step schemes give
    that of their starting step. For a robot with stateful laws `y = [q; qd; z]`, about the states z
    of `state`, else those that the robot stores.

    Raises `ValueError` for wrong shapes and non-positive `dt`, and `RuntimeError` if the step
    fails; in a traced call both end the program with an error.
    """
    state = checked_state(robot, state, "state")
    dt = checked_step_length(dt, state.y.dtype)
    control = checked_control(robot, state, u)
    scheme = checked_scheme(scheme)
    robot, states = in_dtype(robot, state.y.dtype), checked_states(robot, state)
    y = jnp.concatenate([state.y, states])
    matrices, result = _linearize_step(robot, y, control, dt, scheme)
    if first_failure(result) is not None:
        code = RESULTS(int(result))
        raise RuntimeError(f"The step to linearize failed ({code.name}). {code.message}")
    if concrete(result) is None:
        failed = result != RESULTS.successful
        return eqx.error_if(matrices, failed, "The step to linearize failed.")
    return matrices


@eqx.filter_jit
def _linearize_step(
    robot: ActuatedHost, y: Array, u: Array, dt: Array, scheme: AbstractScheme
) -> tuple[tuple[Array, Array], Array]:
    mechanics, n = robot.mechanics(), robot.num_dofs

    def advance(y: Array, u: Array) -> tuple[Array, Array]:
        point = implicit.start(scheme, y[:n], y[n : 2 * n], y[2 * n :])
        new = implicit.step(robot, mechanics, scheme, point, dt, lambda node: (u, None))
        return jnp.concatenate([new.q, new.qd, new.states]), new.result

    return jax.jacfwd(advance, argnums=(0, 1), has_aux=True)(y, u)


class Modes(NamedTuple):
    """Free, undamped vibration: `M x'' + K x = 0` with the tangent stiffness K."""

    frequencies: Float[Array, " dofs"]  # [rad/s] ascending; negative: grows at that rate
    shapes: Float[Array, "dofs dofs"]  # columns; `shapes^T M shapes = 1`


def natural_modes(robot: ActuatedHost, q: ArrayLike, u: ArrayLike | None = None) -> Modes:
    """Natural frequencies and modes about the equilibrium `q` under control `u`.

    K is the symmetric part of the derivative of the static force. A negative frequency `-w` marks
    an unstable mode, growing as `exp(w t)`. Raises as `linearize` does.
    """
    robot, (q, u) = _at_door(robot, q=q, u=u)
    return _natural_modes(robot, q, u)


@eqx.filter_jit
def _natural_modes(robot: ActuatedHost, q: Array, u: Array) -> Modes:
    statics = Statics.loaded(robot, u, None, q.dtype)
    stiffness = jax.jacfwd(statics.value)(q)
    half = jnp.linalg.cholesky(statics.mechanics.inertia_matrix(q))
    solve = lambda b: jax.scipy.linalg.solve_triangular(half, b, lower=True)
    matrix = solve(solve((stiffness + stiffness.T) / 2).T)
    values, vectors = jnp.linalg.eigh((matrix + matrix.T) / 2)
    shapes = jax.scipy.linalg.solve_triangular(half, vectors, lower=True, trans="T")
    return Modes(jnp.sign(values) * jnp.sqrt(jnp.abs(values)), shapes)


def _at_door(robot: ActuatedHost, **inputs: ArrayLike | None) -> tuple[ActuatedHost, list[Array]]:
    dtype = dtype_for(robot, inputs["q"], inputs.get("qd"))
    arrays = [
        loads.control_vector(robot, value, dtype)
        if name == "u"
        else as_array(value, name, dtype, (robot.num_dofs,))
        for name, value in inputs.items()
    ]
    for name, array in zip(inputs, arrays, strict=True):
        check_finite(array, name)
    robot = in_dtype(robot, dtype)
    *place, u = arrays
    return robot, [*place, loads.checked_control(robot, u)]
