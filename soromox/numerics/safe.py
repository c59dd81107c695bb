"""Norms and directions whose derivatives are defined at the zero vector."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


# Both are `custom_jvp` because each is the other's derivative: differentiating the square root of a
# sum of squares squares the entries twice and overflows for short vectors (1e-20 in float32).


@jax.custom_jvp
def norm(x: Float[Array, " n"]) -> Float[Array, ""]:
    """Euclidean length of `x`, without underflow or overflow of the squares.

    All derivatives at `x = 0` are defined as zero (the subgradient of least length).
    """
    scaled, scale = _scaled(x)
    return scale * jnp.sqrt(jnp.sum(scaled**2))


@norm.defjvp
def _norm_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    return norm(x), jnp.sum(unit(x) * dx)


@jax.custom_jvp
def unit(x: Float[Array, " n"]) -> Float[Array, " n"]:
    """Direction `x / |x|`; zero, with zero derivatives, at `x = 0`."""
    scaled, _ = _scaled(x)
    squared = jnp.sum(scaled**2)
    return scaled / jnp.sqrt(jnp.where(squared > 0, squared, 1.0))


@unit.defjvp
def _unit_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    direction, length = unit(x), norm(x)
    across = dx - direction * jnp.sum(direction * dx)
    inverse = jnp.where(length > 0, 1 / jnp.where(length > 0, length, 1.0), 0.0)
    return direction, across * inverse


def _scaled(x: Float[Array, " n"]) -> tuple[Float[Array, " n"], Float[Array, ""]]:
    largest = jnp.max(jnp.abs(x), initial=0.0)
    scale = jnp.where(largest > 0, largest, 1.0)
    return x / scale, scale
