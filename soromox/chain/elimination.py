"""Block elimination of `M(q) + blkdiag(H)` from the tips to the base, in O(bodies)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from soromox.chain.inertia import body_inertias
from soromox.chain.kinematics import Chain, Configuration, follow, gather, sweep
from soromox.numerics import apply


class Factor(NamedTuple):
    """`M(q) + blkdiag(H)`, eliminated; solve with `solve`."""

    X: Float[Array, "levels lanes d d"]
    S: Float[Array, "levels lanes d n"]
    pivot: Float[Array, "levels lanes n n"]  # Cholesky factors of the diagonal blocks
    gain: Float[Array, "levels lanes n d"]  # D^-1 A_qb


def eliminate(chain: Chain, config: Configuration, H: Float[Array, "levels lanes n n"]) -> Factor:
    """Eliminates `M(q) + blkdiag(H)`; `H` holds one symmetric block per body (armature included).

    A block that is not positive definite gives NaN, which the caller sees in the solution.
    """
    layout = chain.topology.layout
    d = chain.group.DIM
    own = body_inertias(chain, config)
    # padded coordinates get a unit pivot
    padding = jnp.where(layout.present, 0, 1).astype(H.dtype)
    own = own.at[..., d:, d:].add(H + diagonal_blocks(padding))
    J = jnp.concatenate([config.X, config.S], axis=-1)
    end = jnp.zeros((layout.num_lanes, d, d), own.dtype)

    def step(inertia, level):
        J, own, lanes = level
        A = own + J.mT @ inertia @ J
        A_bb, A_qb, D = A[..., :d, :d], A[..., d:, :d], A[..., d:, d:]
        pivot = _factorise(D)
        half = _lower_solve(pivot, A_qb)
        return gather(A_bb - half.mT @ half, lanes), (pivot, half)

    levels = (J, own, layout.parent_lanes)
    pivot, half = sweep(step, end, levels, reverse=True)
    # the second half of the solve is not needed on the way: all bodies at once
    return Factor(config.X, config.S, pivot, _upper_solve(pivot, half))


def solve(
    chain: Chain, factor: Factor, rhs: Float[Array, "dofs *columns"]
) -> Float[Array, "dofs *columns"]:
    """Solves `(M + blkdiag H) x = rhs` for one or several right-hand sides: two sweeps."""
    layout = chain.topology.layout
    zero = jnp.zeros(
        (layout.num_levels, layout.num_lanes, chain.group.DIM, *rhs.shape[1:]), rhs.dtype
    )
    return layout.to_global(solve_bodies(chain, factor, zero, layout.to_local(rhs)))


def solve_bodies(
    chain: Chain,
    factor: Factor,
    wrench: Float[Array, "levels lanes d *columns"],
    force: Float[Array, "levels lanes n *columns"],
) -> Float[Array, "levels lanes n *columns"]:
    """Accelerations under loads given body by body: `force` on the coordinates of each and
    `wrench`, which its base takes (see `body_loads`)."""
    layout = chain.topology.layout
    end = jnp.zeros(wrench.shape[1:], wrench.dtype)

    def backward(p, level):
        X, S, gain, own, force, lanes = level
        rest = force - apply(S.mT, p)
        return gather(own + apply(X.mT, p) + apply(gain.mT, rest), lanes), rest

    levels = (factor.X, factor.S, factor.gain, wrench, force, layout.parent_lanes)
    rest = sweep(backward, end, levels, reverse=True)
    free = _upper_solve(factor.pivot, _lower_solve(factor.pivot, rest))

    def forward(tip, level):
        X, S, gain, free, lanes = level
        base = follow(tip, lanes)
        x = free - apply(gain, base)
        return apply(X, base) + apply(S, x), x

    levels = (factor.X, factor.S, factor.gain, free, layout.parent_lanes)
    return sweep(forward, jnp.zeros_like(end), levels)


def diagonal_blocks(local: Float[Array, "levels lanes n"]) -> Float[Array, "levels lanes n n"]:
    """Diagonal matrices, one for each body."""
    return jax.vmap(jax.vmap(jnp.diag))(local)


def _factorise(D: Float[Array, "*batch n n"]) -> Float[Array, "*batch n n"]:
    return jnp.sqrt(D) if D.shape[-1] == 1 else jnp.linalg.cholesky(D)


def _lower_solve(
    pivot: Float[Array, "*batch n n"], rhs: Float[Array, "..."]
) -> Float[Array, "..."]:
    """`L^-1 rhs` with the Cholesky factors `L`."""
    return _triangular_solve(pivot, rhs, transpose=False)


def _upper_solve(
    pivot: Float[Array, "*batch n n"], rhs: Float[Array, "..."]
) -> Float[Array, "..."]:
    """`L^-T rhs`."""
    return _triangular_solve(pivot, rhs, transpose=True)


def _triangular_solve(pivot: Array, rhs: Array, transpose: bool) -> Array:
    if rhs.ndim < pivot.ndim:
        return _triangular_solve(pivot, rhs[..., None], transpose)[..., 0]
    if pivot.shape[-1] == 1:
        return rhs / pivot
    return jax.lax.linalg.triangular_solve(
        pivot, rhs, left_side=True, lower=True, transpose_a=transpose
    )
