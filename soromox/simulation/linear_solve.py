"""Linear systems with the exact matrix of a residual, given only its products."""

import abc
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from soromox.numerics import matmul
from soromox.simulation.tolerances import Tolerances


Linear = Callable[[Float[Array, " n"]], Float[Array, " n"]]

MAX_DIRECTIONS = 64


class ApproximateInverse(eqx.Module):
    """An approximate inverse of a matrix. Never differentiated."""

    @abc.abstractmethod
    def solve(self, r: Float[Array, " n"]) -> Float[Array, " n"]: ...

    @abc.abstractmethod
    def solve_transposed(self, r: Float[Array, " n"]) -> Float[Array, " n"]: ...


def linear_solve(
    matvec: Linear, b: Float[Array, " n"], inverse: ApproximateInverse
) -> Float[Array, " n"]:
    """Solves `J x = b` to rounding, given the products of `J`; NaN where that fails.

    Differentiable and transposable (`jax.lax.custom_linear_solve`).
    """
    return jax.lax.custom_linear_solve(
        matvec,
        b,
        solve=lambda matvec, b: _solve(matvec, b, inverse.solve),
        transpose_solve=lambda vecmat, b: _solve(vecmat, b, inverse.solve_transposed),
    )


class _Progress(NamedTuple):
    x: Float[Array, " n"]
    r: Float[Array, " n"]  # `P (b - J x)`, by recursion
    directions: Float[Array, "directions n"]
    images: Float[Array, "directions n"]  # `P J` of them, orthonormal
    count: Int[Array, ""]
    checking: Bool[Array, ""]  # whether the next product is that of `x`
    done: Bool[Array, ""]


def _solve(matvec: Linear, b: Float[Array, " n"], inverse: Linear) -> Float[Array, " n"]:
    """Generalized conjugate residuals (Eisenstat, Elman & Schultz 1983, doi:10.1137/0720023).

    For `P J x = P b`; n directions at most are needed, few if P is good. When the recursion claims
    convergence the residual is computed anew, and the iteration restarts from it if it has to.
    """
    tolerances = Tolerances.of(b.dtype)
    n = b.shape[0]
    count = min(n, MAX_DIRECTIONS)
    target = inverse(b)
    largest = lambda x: jnp.max(jnp.abs(x))

    def body(state: _Progress) -> _Progress:
        z = jnp.where(state.checking, state.x, state.r)
        product = matvec(z)
        # P may lose digits of what is large: the residual is small before it gets there
        image = inverse(jnp.where(state.checking, b - product, product))
        backward = jnp.all(jnp.abs(b - product) <= 2 * tolerances.fine * jnp.abs(b))

        # a new direction, orthogonal to those before (twice is enough)
        q, p = image, z
        for _ in range(2):
            overlap = matmul(state.images, q)
            q, p = q - matmul(overlap, state.images), p - matmul(overlap, state.directions)
        length = jnp.sqrt(q @ q)
        scaled = 1 / jnp.where(length > 0, length, 1)
        q, p = q * scaled, p * scaled
        amount = q @ state.r
        slot = (jnp.arange(count, dtype=jnp.int32) == state.count % count)[:, None]
        x, r = state.x + amount * p, state.r - amount * q
        moved = state._replace(
            x=x,
            r=r,
            directions=jnp.where(slot, p[None], state.directions),
            images=jnp.where(slot, q[None], state.images),
            count=state.count + 1,
            checking=(largest(r) <= tolerances.fine * largest(x)) | (length == 0),
        )
        true = image
        checked = state._replace(
            x=state.x + true,
            r=true,
            directions=jnp.zeros_like(state.directions),
            images=jnp.zeros_like(state.images),
            count=state.count + 1,
            checking=jnp.zeros((), bool),
            done=(largest(true) <= tolerances.loose * largest(state.x)) | backward,
        )
        # restart from the residual of `x`, not of the refined one
        checked = checked._replace(x=jnp.where(checked.done, checked.x, state.x))
        return jax.tree.map(lambda a, b: jnp.where(state.checking, a, b), checked, moved)

    empty = jnp.zeros((count, n), b.dtype)
    no = jnp.zeros((), bool)
    start = _Progress(
        jnp.zeros_like(b), target, empty, empty, jnp.zeros((), jnp.int32), no, largest(b) == 0
    )
    state = jax.lax.while_loop(
        lambda s: ~s.done & (s.count < 4 * n + 20) & jnp.isfinite(largest(s.r)), body, start
    )
    return jnp.where(state.done, state.x, jnp.nan)
