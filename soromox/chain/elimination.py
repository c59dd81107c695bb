"""Block elimination of `M(q) + blkdiag(H)` from the tips to the base, in O(bodies)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from soromox.chain.inertia import body_inertias
from soromox.chain.kinematics import Chain, Configuration, follow, gather
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
        gain = _back_substitute(pivot, A_qb)
        reduced = A_bb - A_qb.mT @ gain
        return gather(reduced, lanes), (pivot, gain)

    levels = (J, own, layout.parent_lanes)
    pivot, gain = jax.lax.scan(step, end, levels, reverse=True)[1]
    return Factor(config.X, config.S, pivot, gain)


def solve(
    chain: Chain, factor: Factor, rhs: Float[Array, "dofs *columns"]
) -> Float[Array, "dofs *columns"]:
    """Solves `(M + blkdiag H) x = rhs` for one or several right-hand sides: two sweeps."""
    layout = chain.topology.layout
    r = layout.to_local(rhs)
    end = jnp.zeros((layout.num_lanes, chain.group.DIM, *rhs.shape[1:]), rhs.dtype)

    def backward(p, level):
        X, S, gain, r, lanes = level
        rest = r - apply(S.mT, p)
        return gather(apply(X.mT, p) + apply(gain.mT, rest), lanes), rest

    levels = (factor.X, factor.S, factor.gain, r, layout.parent_lanes)
    rest = jax.lax.scan(backward, end, levels, reverse=True)[1]
    free = _back_substitute(factor.pivot, rest)

    def forward(tip, level):
        X, S, gain, free, lanes = level
        base = follow(tip, lanes)
        x = free - apply(gain, base)
        return apply(X, base) + apply(S, x), x

    levels = (factor.X, factor.S, factor.gain, free, layout.parent_lanes)
    return layout.to_global(jax.lax.scan(forward, jnp.zeros_like(end), levels)[1])


def diagonal_blocks(local: Float[Array, "levels lanes n"]) -> Float[Array, "levels lanes n n"]:
    """Diagonal matrices, one for each body."""
    return jax.vmap(jax.vmap(jnp.diag))(local)


def _factorise(D: Float[Array, "*batch n n"]) -> Float[Array, "*batch n n"]:
    return jnp.sqrt(D) if D.shape[-1] == 1 else jnp.linalg.cholesky(D)


def _back_substitute(
    pivot: Float[Array, "*batch n n"], rhs: Float[Array, "..."]
) -> Float[Array, "..."]:
    if rhs.ndim < pivot.ndim:
        return _back_substitute(pivot, rhs[..., None])[..., 0]
    if pivot.shape[-1] == 1:
        return rhs / pivot**2
    half = jax.lax.linalg.triangular_solve(pivot, rhs, left_side=True, lower=True)
    return jax.lax.linalg.triangular_solve(
        pivot, half, left_side=True, lower=True, transpose_a=True
    )
