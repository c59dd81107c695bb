"""Charts of rotation vectors: keeping them away from their singularity at a full turn."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from soromox.chain.kinematics import Chain
from soromox.lie import so3
from soromox.numerics import safe


def change_chart(
    chain: Chain, q: Float[Array, " dofs"], qd: Float[Array, " dofs"]
) -> tuple[Float[Array, " dofs"], Float[Array, " dofs"]]:
    """The same pose and motion with every rotation vector at most pi long.

    Where `|r| > pi`: `r' = r (1 - 2 pi / |r|)`, `rd' = T(-r')^-1 T(-r) rd`, so that the angular
    velocity stays. Chains without spherical or free joints in space pass unchanged.
    """
    for start in chain.rotation_vectors:
        span = slice(start, start + 3)
        r, rd = q[span], qd[span]
        angle = safe.norm(r)
        beyond = angle > jnp.pi
        turned = r * (1 - 2 * jnp.pi / jnp.where(beyond, angle, 2 * jnp.pi))
        turned = jnp.where(beyond, turned, r)
        rate = so3.tangent_inverse(-turned) @ (so3.tangent(-r) @ rd)
        q = q.at[span].set(turned)
        qd = qd.at[span].set(jnp.where(beyond, rate, rd))
    return q, qd
