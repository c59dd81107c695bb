"""Products in full precision on every device.

By default some accelerators multiply float32 matrices in TF32 or bfloat16 (10 and 7 bits of mantissa):
a pose would be right to three digits.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def matmul(a: Float[Array, "*a"], b: Float[Array, "*b"]) -> Float[Array, "*c"]:
    """`a @ b` in full precision."""
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


def apply(
    matrix: Float[Array, "*batch rows columns"], x: Float[Array, "..."]
) -> Float[Array, "..."]:
    """Each matrix times its own vector, or its own (columns, k) block, in full precision."""
    if x.ndim < matrix.ndim:
        # small matrices: a product and a sum compile in half the time of a dot
        return jnp.sum(matrix * x[..., None, :], axis=-1)
    return matmul(matrix, x)


def einsum(subscripts: str, *operands: Float[Array, "..."]) -> Float[Array, "..."]:
    """`jnp.einsum` in full precision."""
    return jnp.einsum(subscripts, *operands, precision=jax.lax.Precision.HIGHEST)
