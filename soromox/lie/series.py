r"""Coefficients of the exponential and tangent maps, as functions of $x = \theta^2$.

Every map of this package is a polynomial in `ad` whose coefficients are the Stumpff functions

$$c_k(x) = \sum_{j \ge 0} \frac{(-x)^j}{(2j + k)!}$$

or ratios of them: $c_0 = \cos\theta$, $c_1 = \sin\theta / \theta$, $c_2 = (1 - \cos\theta) / \theta^2$,
$c_3 = (\theta - \sin\theta) / \theta^3$, ... They are entire, satisfy $c_k = 1/k! - x\,c_{k+2}$, and
their derivatives are again Stumpff functions, $2 c_k' = k\,c_{k+2} - c_{k+1}$. So one routine gives
values and derivatives of any order to rounding, and nothing is ever divided by a small angle.
"""

import functools
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


# Upward recursion divides rounding errors by x at each step, so the series is used as far as it is
# short: up to a turn of 2 rad. (At a switch near 0.5 the second derivatives are 100 times less exact.)
_SWITCH = 4.0


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def stumpff(x: Float[Array, ""], order: int) -> tuple[Float[Array, ""], ...]:
    """`(c_0, ..., c_order)` at `x = theta^2 >= 0`, for `order >= 2`."""
    near = _near_zero(x, order)
    far = _far_from_zero(jnp.maximum(x, _SWITCH), order)
    is_near = x < _SWITCH
    return tuple(jax.lax.select(is_near, a, b) for a, b in zip(near, far, strict=True))


@stumpff.defjvp
def _stumpff_jvp(order, primals, tangents):
    (x,), (dx,) = primals, tangents
    c = stumpff(x, order + 2)
    return c[: order + 1], tuple(0.5 * slope(c, k) * dx for k in range(order + 1))


def slope(c: tuple[Float[Array, ""], ...], k: int) -> Float[Array, ""]:
    r"""$2\,c_k'(x)$, that is $c_k$'s derivative along $\theta$ divided by $\theta$."""
    return k * c[k + 2] - c[k + 1]


def curvature(c: tuple[Float[Array, ""], ...], k: int) -> Float[Array, ""]:
    r"""$4\,c_k''(x)$."""
    return k * slope(c, k + 2) - slope(c, k + 1)


def inverse_tangent(
    c: tuple[Float[Array, ""], ...],
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    r"""`(y, b)`: $y = \frac\theta2 \cot\frac\theta2$ and $b = (1 - y) / \theta^2$, from $c_0 ... c_4$.

    Written as $y = c_1 / (2 c_2)$ and $b = (c_3 - 2 c_4) / (2 c_2)$, regular but for $\theta = 2\pi n$.
    """
    return c[1] / (2 * c[2]), (c[3] - 2 * c[4]) / (2 * c[2])


def inverse_tangent_slope(
    c: tuple[Float[Array, ""], ...],
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    r"""$(2 y'(x), 2 b'(x))$ of `inverse_tangent`, from $c_0 ... c_6$."""
    y, b = inverse_tangent(c)
    dy = (slope(c, 1) - 2 * y * slope(c, 2)) / (2 * c[2])
    db = (slope(c, 3) - 2 * slope(c, 4) - 2 * b * slope(c, 2)) / (2 * c[2])
    return dy, db


def _near_zero(x, order):
    """The two last functions by their series, the others by `c_k = 1/k! - x c_{k+2}`."""
    # Relative truncation error below 2^-56 at the switch.
    num_terms = 1
    while _SWITCH**num_terms * math.factorial(order - 1) > 2**-56 * math.factorial(
        2 * num_terms + order - 1
    ):
        num_terms += 1
    c = [x] * (order + 1)
    for k in (order, order - 1):
        total = jnp.full_like(x, 1 / math.factorial(2 * (num_terms - 1) + k))
        for j in reversed(range(num_terms - 1)):
            total = 1 / math.factorial(2 * j + k) - x * total
        c[k] = total
    for k in reversed(range(order - 1)):
        c[k] = 1 / math.factorial(k) - x * c[k + 2]
    return c


def _far_from_zero(x, order):
    """Closed forms of the first three, the others by `c_{k+2} = (1/k! - c_k) / x`."""
    theta = jnp.sqrt(x)
    sine, cosine = jnp.sin(theta / 2), jnp.cos(theta / 2)
    # Half angles keep `1 - cos` exact near 2 pi, where the tangent map loses its inverse.
    c = [1 - 2 * sine**2, 2 * sine * cosine / theta, 2 * sine**2 / x]
    for k in range(1, order - 1):
        c.append((1 / math.factorial(k) - c[k]) / x)
    return c
