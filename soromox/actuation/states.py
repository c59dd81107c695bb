"""The states of one stateful law at the end of an implicit stage, or at rest."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Scalar

from soromox.actuation.laws import StatefulLaw, state_rates


_ITERATIONS = 12


def backward_euler(
    law: StatefulLaw,
    start: Float[Array, "states channels"],
    h: Scalar,
    u: Float[Array, " channels"],
    y: Float[Array, " channels"],
    yd: Float[Array, " channels"],
) -> tuple[Float[Array, "states channels"], Bool[Array, ""]]:
    """`z = start + h dz/dt(z, u, y, yd)` by Newton's method, and whether it is solved.

    With `h = inf` these are the states that last, `dz/dt = 0`; one that nothing moves stays. `y` and `yd` are those at the end of the stage: the states are eliminated from its equations,
    and what remains is an effort that depends on coordinate and rate. Exact to the second
    derivative: the last two steps, from the solution, are differentiated and no others.
    """

    given = (law, start, h, u, y, yd)
    frozen = jax.tree.map(
        lambda x: jax.lax.stop_gradient(x) if eqx.is_inexact_array(x) else x, given
    )
    z = jax.lax.fori_loop(0, _ITERATIONS, lambda _, z: _corrected(z, *frozen), frozen[1])
    last = _corrected(z, *given)
    z = _corrected(last, *given)
    size = jnp.max(jnp.abs(z) + jnp.abs(start), axis=1, keepdims=True)
    return z, jnp.all(jnp.abs(z - last) <= 1e4 * jnp.finfo(z.dtype).eps * size)


def _residual(
    z: Array, law: StatefulLaw, start: Array, h: Array, u: Array, y: Array, yd: Array
) -> Array:
    return (z - start) / h - state_rates(law, z, u, y, yd)


def _corrected(z: Array, *given: Any) -> Array:
    """One step of Newton's method."""

    def column(e: Array) -> Array:
        # the channels do not depend on one another: one column of all their blocks at a time
        tangent = jnp.broadcast_to(e[:, None], z.shape)
        return jax.jvp(lambda z: _residual(z, *given), (z,), (tangent,))[1]

    identity = jnp.eye(len(z), dtype=z.dtype)
    J = jax.vmap(column)(identity).T  # (channels, states, states)
    # a rate on which no state has influence: its own second is as good as any
    J = jnp.where(jnp.all(J == 0, axis=-1, keepdims=True), identity, J)
    r = _residual(z, *given).T
    if len(z) == 1:
        return z - (r / J[..., 0]).T
    return z - jnp.linalg.solve(J, r[..., None])[..., 0].T
