"""Stiffness and damping between joints: a full matrix or its diagonal."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from soromox.numerics.checks import ArrayLike, as_array, broadcast, check_non_negative, check_psd


def joint_matrix(
    value: ArrayLike, name: str, dtype: np.dtype, num_joints: int
) -> Float[Array, "..."]:
    """A symmetric positive semi-definite (n, n) matrix, or its diagonal (n,) or one number."""
    array = as_array(value, name, dtype)
    if array.ndim < 2:
        diagonal = broadcast(array, name, dtype, num_joints)
        check_non_negative(diagonal, name)
        return diagonal
    if array.shape != (num_joints, num_joints):
        raise ValueError(
            f"`{name}` needs shape ({num_joints}, {num_joints}) or ({num_joints},), "
            f"got {array.shape}."
        )
    check_psd(array, name)
    return array


def split_coupling(matrix: Float[Array, "..."]) -> tuple[Array, Array | None]:
    """Blocks (one coordinate per body) of a joint matrix or its diagonal, and what couples joints."""
    if matrix.ndim == 1:
        return matrix[:, None, None], None
    diagonal = jnp.diagonal(matrix)
    return diagonal[:, None, None], matrix - jnp.diag(diagonal)
