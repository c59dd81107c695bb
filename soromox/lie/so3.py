r"""Rotations of space: 3x3 matrices $R$, rotation vectors $w$, unit quaternions $[x, y, z, w]$.

$W = \hat w$ is the matrix of $w \times$. The tangent map is $T(w) = \sum_k W^k / (k+1)!$, so that
$\exp(w)^{-1}\, d\exp(w) = T(-w)\,dw$ (angular velocity in the body's axes). With
$W^2 = w w^T - |w|^2 I$ every map here is $\alpha I + \hat u + S$ with a symmetric matrix $S$.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from soromox.lie.series import curvature, inverse_tangent, slope, stumpff
from soromox.numerics.products import matmul


# hat of the three unit vectors
_GENERATORS = np.array(
    [
        [[0, 0, 0], [0, 0, -1], [0, 1, 0]],
        [[0, 0, 1], [0, 0, 0], [-1, 0, 0]],
        [[0, -1, 0], [1, 0, 0], [0, 0, 0]],
    ]
)


def hat(w: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """Antisymmetric matrix of the cross product: `hat(w) @ a = w x a`."""
    x, y, z = (w[k] * _GENERATORS[k].astype(w.dtype) for k in range(3))
    return x + y + z


def vee(matrix: Float[Array, "3 3"]) -> Float[Array, "3"]:
    """Inverse of `hat`; of a general matrix, the vector of its antisymmetric part."""
    m = matrix - matrix.T
    return 0.5 * jnp.stack([m[2, 1], m[0, 2], m[1, 0]])


def cross(a: Float[Array, "3"], b: Float[Array, "3"]) -> Float[Array, "3"]:
    """`a x b`."""
    return jnp.roll(a * jnp.roll(b, -1) - jnp.roll(a, -1) * b, -1)


def exp(w: Float[Array, "3"]) -> Float[Array, "3 3"]:
    r"""Rotation by $|w|$ about $w$: $\sum_k W^k / k! = c_0 I + c_1 W + c_2 w w^T$."""
    return exp_from(stumpff(matmul(w, w), 2), w)


@jax.custom_jvp
def log(R: Float[Array, "3 3"]) -> Float[Array, "3"]:
    r"""Rotation vector $w$ of $R$ with $|w| \le \pi$: inverse of `exp`, exact to rounding.

    At $|w| = \pi$ both $w$ and $-w$ are right, and rounding chooses. The derivative is
    $dw = T(-w)^{-1} (R^T dR)^\vee$, that of the branch in use and finite everywhere; the part of
    `dR` that leaves the rotations is ignored.
    """
    q = to_quaternion(R)
    q = jnp.where(q[3] < 0, -q, q)
    sine = jnp.sqrt(matmul(q[:3], q[:3]))
    safe = jnp.where(sine > 0, sine, 1.0)
    # `sine` underflows for turns below 1e-154 (1e-19 in float32); the ratio is 1 there.
    return 2 * jnp.where(sine > 0, jnp.arctan2(sine, q[3]) / safe, 1.0) * q[:3]


@log.defjvp
def _log_jvp(primals, tangents):
    # Differentiating the value's branches would give slopes that depend on the branch.
    (R,), (dR,) = primals, tangents
    w = log(R)
    return w, matmul(tangent_inverse(-w), vee(matmul(R.T, dR)))


def tangent(w: Float[Array, "3"]) -> Float[Array, "3 3"]:
    r"""$T(w) = \sum_k W^k / (k+1)! = c_1 I + c_2 W + c_3 w w^T$."""
    return tangent_from(stumpff(matmul(w, w), 3), w)


def tangent_inverse(w: Float[Array, "3"]) -> Float[Array, "3 3"]:
    r"""$T(w)^{-1} = y I - W / 2 + b\,w w^T$, $y = \frac\theta2 \cot\frac\theta2$, $b = (1 - y) / \theta^2$.

    Singular where $\theta = |w|$ is a multiple of $2 \pi$ but not zero.
    """
    y, b = inverse_tangent(stumpff(matmul(w, w), 4))
    return combine(y, -0.5 * w, b * jnp.outer(w, w))


def tangent_derivative(w: Float[Array, "3"], dw: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """Derivative of `tangent` at `w` along `dw`."""
    return tangent_derivative_from(stumpff(matmul(w, w), 5), w, dw)


def from_quaternion(q: Float[Array, "4"]) -> Float[Array, "3 3"]:
    """Rotation matrix of the quaternion `[x, y, z, w]`, scalar last, normalised here."""
    v, s = q[:3], q[3]
    scale = 1 / matmul(q, q)
    return combine(scale * (s * s - matmul(v, v)), 2 * scale * s * v, 2 * scale * jnp.outer(v, v))


@jax.custom_jvp
def to_quaternion(R: Float[Array, "3 3"]) -> Float[Array, "4"]:
    r"""Unit quaternion `[x, y, z, w]` of $R$, its largest component positive.

    The derivative is $\frac12 q \otimes [(R^T dR)^\vee; 0]$, see `log`.
    """
    # 4 q q^T is linear in R; its longest column gives q without cancellation.
    x, y, z = jnp.diagonal(R)
    a, b = R + R.T, R - R.T
    # fmt: off
    outer = jnp.stack([
        1 + x - y - z, a[0, 1], a[0, 2], b[2, 1],
        a[0, 1], 1 - x + y - z, a[1, 2], b[0, 2],
        a[0, 2], a[1, 2], 1 - x - y + z, b[1, 0],
        b[2, 1], b[0, 2], b[1, 0], 1 + x + y + z,
    ]).reshape(4, 4)
    # fmt: on
    column = outer[jnp.argmax(jnp.diagonal(outer))]
    return column / jnp.sqrt(matmul(column, column))


@to_quaternion.defjvp
def _to_quaternion_jvp(primals, tangents):
    (R,), (dR,) = primals, tangents
    q = to_quaternion(R)
    v, s = q[:3], q[3]
    omega = vee(matmul(R.T, dR))
    dv, ds = s * omega + cross(v, omega), -matmul(v, omega)
    return q, 0.5 * jnp.concatenate([dv, ds[None]])


# The maps from Stumpff functions that a caller has already (se3 needs several at one angle).


def exp_from(c: tuple[Float[Array, ""], ...], w: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """`exp` from $c_0 ... c_2$ at $|w|^2$."""
    return combine(c[0], c[1] * w, c[2] * jnp.outer(w, w))


def tangent_from(c: tuple[Float[Array, ""], ...], w: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """`tangent` from $c_0 ... c_3$."""
    return combine(c[1], c[2] * w, c[3] * jnp.outer(w, w))


def tangent_derivative_from(
    c: tuple[Float[Array, ""], ...], w: Float[Array, "3"], a: Float[Array, "3"]
) -> Float[Array, "3 3"]:
    """`tangent_derivative` along `a` from $c_0 ... c_5$."""
    p = matmul(w, a)
    return combine(
        p * slope(c, 1),
        p * slope(c, 2) * w + c[2] * a,
        p * slope(c, 3) * jnp.outer(w, w) + c[3] * symmetric_outer(w, a),
    )


def tangent_second_derivative_from(
    c: tuple[Float[Array, ""], ...],
    w: Float[Array, "3"],
    a: Float[Array, "3"],
    b: Float[Array, "3"],
) -> Float[Array, "3 3"]:
    """Second derivative of `tangent` along `a` and `b` from $c_0 ... c_7$."""
    p, q, r = matmul(w, a), matmul(w, b), matmul(a, b)
    k1, k2, k3 = (r * slope(c, k) + p * q * curvature(c, k) for k in (1, 2, 3))
    along = p * b + q * a
    return combine(
        k1,
        k2 * w + slope(c, 2) * along,
        k3 * jnp.outer(w, w)
        + slope(c, 3) * symmetric_outer(w, along)
        + c[3] * symmetric_outer(a, b),
    )


def combine(
    scalar: Float[Array, ""], vector: Float[Array, "3"], symmetric: Float[Array, "3 3"]
) -> Float[Array, "3 3"]:
    """`scalar I + hat(vector) + symmetric`."""
    # stacked: the tangent map has no time for multiples of zero
    x, y, z = vector
    o = jnp.zeros_like(x)
    skew = jnp.stack([o, -z, y, z, o, -x, -y, x, o]).reshape(3, 3)
    return scalar * jnp.eye(3, dtype=vector.dtype) + skew + symmetric


def symmetric_outer(a: Float[Array, "3"], b: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """`a b^T + b a^T`."""
    outer = jnp.outer(a, b)
    return outer + outer.T
