"""Linear systems with the exact matrix of a residual, given only its products."""

import abc
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Scalar

from soromox.simulation.tolerances import Tolerances


Linear = Callable[[Float[Array, " n"]], Float[Array, " n"]]

MAX_REFINEMENTS = 40


class _Progress(NamedTuple):
    x: Float[Array, " n"]
    size: Scalar  # of the last correction
    ratio: Scalar  # to the one before
    count: Int[Array, ""]
    done: Bool[Array, ""]
    poor: Bool[Array, ""]


class ApproximateInverse(eqx.Module):
    """An approximate inverse of a matrix. Never differentiated."""

    @abc.abstractmethod
    def solve(self, r: Float[Array, " n"]) -> Float[Array, " n"]: ...

    @abc.abstractmethod
    def solve_transposed(self, r: Float[Array, " n"]) -> Float[Array, " n"]: ...


def linear_solve(
    matvec: Linear, b: Float[Array, " n"], inverse: ApproximateInverse | None
) -> Float[Array, " n"]:
    """Solves `J x = b` exactly, given the products of `J`.

    Differentiable and transposable (`jax.lax.custom_linear_solve`). Refines with the approximate
    inverse, if there is one, while that contracts; otherwise builds the matrix and eliminates it. If that fails too
    (a singular matrix) the solution is NaN.
    """
    if inverse is None:
        return jax.lax.custom_linear_solve(matvec, b, _eliminate, _eliminate)
    return jax.lax.custom_linear_solve(
        matvec,
        b,
        solve=lambda matvec, b: _solve(matvec, b, inverse.solve),
        transpose_solve=lambda vecmat, b: _solve(vecmat, b, inverse.solve_transposed),
    )


def _solve(matvec: Linear, b: Float[Array, " n"], inverse: Linear) -> Float[Array, " n"]:
    tolerances = Tolerances.of(b.dtype)

    def refine(state: _Progress) -> _Progress:
        correction = inverse(b - matvec(state.x))
        x = state.x + correction
        size = jnp.max(jnp.abs(correction))
        ratio = size / state.size
        done = tolerances.reached(size, ratio, jnp.max(jnp.abs(x)))
        poor = ~done & ~(ratio < 0.7)
        return _Progress(x, size, ratio, state.count + 1, done, poor)

    def refining(state: _Progress) -> Bool[Array, ""]:
        return ~state.done & ~state.poor & (state.count < MAX_REFINEMENTS)

    infinite, no = jnp.asarray(jnp.inf, b.dtype), jnp.zeros((), bool)
    start = _Progress(jnp.zeros_like(b), infinite, infinite, jnp.zeros((), jnp.int32), no, no)
    state = jax.lax.while_loop(refining, refine, start)
    # a loop that runs at most once: unlike `cond` it costs nothing under `vmap` unless needed
    return jax.lax.while_loop(
        lambda carry: ~carry[1],
        lambda carry: (_eliminate(matvec, b), ~no),
        (state.x, state.done),
    )[0]


def _eliminate(matvec: Linear, b: Float[Array, " n"]) -> Float[Array, " n"]:
    matrix = jax.vmap(matvec, out_axes=1)(jnp.eye(b.shape[0], dtype=b.dtype))
    factors = jax.scipy.linalg.lu_factor(matrix)
    x = jax.scipy.linalg.lu_solve(factors, b)
    x = x + jax.scipy.linalg.lu_solve(factors, b - matrix @ x)
    return jnp.where(jnp.all(jnp.isfinite(x)), x, jnp.nan)
