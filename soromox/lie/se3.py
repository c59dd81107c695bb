r"""Rigid motions of space: 4x4 poses $g = [[R, p], [0, 1]]$, twists $X = [\omega; v]$, wrenches $F = [m; f]$.

`ad(X) = [[hat w, 0], [hat v, hat w]]`, so every polynomial in it is block lower-triangular with equal
diagonal blocks, and the lower block is the derivative of the diagonal one along $v$. The tangent map
is $T(X) = \sum_k \mathrm{ad}_X^k / (k+1)!$, so that $\exp(X)^{-1}\, d\exp(X) = T(-X)\,dX$ (body frame).
"""

import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from soromox.lie import so3
from soromox.lie.series import inverse_tangent, inverse_tangent_slope, stumpff
from soromox.numerics.products import matmul


DIM = 6
POINT_DIM = 3


def identity(dtype: DTypeLike | None = None) -> Float[Array, "4 4"]:
    """The pose that moves nothing."""
    return jnp.eye(4, dtype=dtype)


def from_rotation_translation(R: Float[Array, "3 3"], p: Float[Array, "3"]) -> Float[Array, "4 4"]:
    """The pose `[[R, p], [0, 1]]`."""
    last = jnp.array([[0, 0, 0, 1]], dtype=R.dtype)
    return jnp.concatenate([jnp.concatenate([R, p[:, None]], axis=1), last])


def rotation(g: Float[Array, "4 4"]) -> Float[Array, "3 3"]:
    """Rotation matrix of the pose."""
    return g[:3, :3]


def translation(g: Float[Array, "4 4"]) -> Float[Array, "3"]:
    """Origin of the inner frame, in the outer axes."""
    return g[:3, 3]


def compose(g: Float[Array, "4 4"], h: Float[Array, "4 4"]) -> Float[Array, "4 4"]:
    """The product `g h`: `h` is given in the frame of `g`."""
    return matmul(g, h)


def inverse(g: Float[Array, "4 4"]) -> Float[Array, "4 4"]:
    """`[[R^T, -R^T p], [0, 1]]`."""
    R_inverse = rotation(g).T
    return from_rotation_translation(R_inverse, -matmul(R_inverse, translation(g)))


def act(g: Float[Array, "4 4"], point: Float[Array, "3"]) -> Float[Array, "3"]:
    """`R point + p`: a point of the inner frame, in the outer one."""
    return matmul(rotation(g), point) + translation(g)


def exp(X: Float[Array, "6"]) -> Float[Array, "4 4"]:
    """`[[exp(w), T(w) v], [0, 1]]`: the motion of the constant body twist `X` over unit time."""
    w, v = X[:3], X[3:]
    c = stumpff(matmul(w, w), 3)
    return from_rotation_translation(
        so3.exp_from(c, w),
        c[1] * v + c[2] * so3.cross(w, v) + c[3] * matmul(w, v) * w,
    )


def log(g: Float[Array, "4 4"]) -> Float[Array, "6"]:
    """Twist `[w; T(w)^-1 p]` with `|w| <= pi`: inverse of `exp`, see `so3.log`."""
    w, p = so3.log(rotation(g)), translation(g)
    y, b = inverse_tangent(stumpff(matmul(w, w), 4))
    return jnp.concatenate([w, y * p - 0.5 * so3.cross(w, p) + b * matmul(w, p) * w])


def Ad(g: Float[Array, "4 4"]) -> Float[Array, "6 6"]:
    """`[[R, 0], [hat(p) R, R]]`: twists of the inner frame to the outer frame and its origin."""
    R = rotation(g)
    return _block(R, matmul(so3.hat(translation(g)), R))


def Ad_inverse(g: Float[Array, "4 4"]) -> Float[Array, "6 6"]:
    """`Ad(g^-1) = [[R^T, 0], [-R^T hat(p), R^T]]`."""
    R = rotation(g)
    return _block(R.T, matmul(so3.hat(translation(g)), R).T)


def ad(X: Float[Array, "6"]) -> Float[Array, "6 6"]:
    """Matrix of the Lie bracket: `[[hat w, 0], [hat v, hat w]]`."""
    return _block(so3.hat(X[:3]), so3.hat(X[3:]))


def bracket(X: Float[Array, "6"], Y: Float[Array, "6"]) -> Float[Array, "6"]:
    """`ad(X) @ Y = [w x a; v x a + w x b]` with `Y = [a; b]`."""
    w, v, a, b = X[:3], X[3:], Y[:3], Y[3:]
    return jnp.concatenate([so3.cross(w, a), so3.cross(v, a) + so3.cross(w, b)])


def cobracket(X: Float[Array, "6"], F: Float[Array, "6"]) -> Float[Array, "6"]:
    """`ad(X)^T @ F = [m x w + f x v; f x w]` with `F = [m; f]`."""
    w, v, m, f = X[:3], X[3:], F[:3], F[3:]
    return jnp.concatenate([so3.cross(m, w) + so3.cross(f, v), so3.cross(f, w)])


def momentum_matrix(F: Float[Array, "6"]) -> Float[Array, "6 6"]:
    """`[[hat m, hat f], [hat f, 0]]`, antisymmetric: `momentum_matrix(F) @ X = ad(X)^T @ F`."""
    m, f = so3.hat(F[:3]), so3.hat(F[3:])
    return _assemble(m, f, f, jnp.zeros_like(f))


def tangent(X: Float[Array, "6"]) -> Float[Array, "6 6"]:
    r"""$T(X) = \sum_k \mathrm{ad}_X^k / (k+1)!$: `[[T(w), 0], [dT(w)[v], T(w)]]`."""
    w, v = X[:3], X[3:]
    c = stumpff(matmul(w, w), 5)
    return _block(so3.tangent_from(c, w), so3.tangent_derivative_from(c, w, v))


def tangent_inverse(X: Float[Array, "6"]) -> Float[Array, "6 6"]:
    """`T(X)^-1`, singular where `|w|` is a multiple of 2 pi but not zero."""
    w, v = X[:3], X[3:]
    c = stumpff(matmul(w, w), 6)
    y, b = inverse_tangent(c)
    dy, db = inverse_tangent_slope(c)
    p = matmul(w, v)
    ww = jnp.outer(w, w)
    return _block(
        so3.combine(y, -0.5 * w, b * ww),
        so3.combine(p * dy, -0.5 * v, p * db * ww + b * so3.symmetric_outer(w, v)),
    )


def tangent_derivative(X: Float[Array, "6"], dX: Float[Array, "6"]) -> Float[Array, "6 6"]:
    """Derivative of `tangent` at `X` along `dX`."""
    w, v, dw, dv = X[:3], X[3:], dX[:3], dX[3:]
    c = stumpff(matmul(w, w), 7)
    return _block(
        so3.tangent_derivative_from(c, w, dw),
        so3.tangent_second_derivative_from(c, w, v, dw) + so3.tangent_derivative_from(c, w, dv),
    )


def rotate(g: Float[Array, "4 4"], X: Float[Array, "6 *columns"]) -> Float[Array, "6 *columns"]:
    """`blkdiag(R, R) @ X`: twists, wrenches or Jacobian columns in the outer axes, same origin."""
    R = rotation(g)
    return jnp.concatenate([matmul(R, X[:3]), matmul(R, X[3:])])


def rotate_inverse(
    g: Float[Array, "4 4"], X: Float[Array, "6 *columns"]
) -> Float[Array, "6 *columns"]:
    """`blkdiag(R, R)^T @ X`: from the outer axes back to the inner ones, same origin."""
    R = rotation(g).T
    return jnp.concatenate([matmul(R, X[:3]), matmul(R, X[3:])])


def pose_from_vector(vector: Float[Array, "7"]) -> Float[Array, "4 4"]:
    """Pose of `[qx, qy, qz, qw, x, y, z]`; the quaternion is normalised here."""
    return from_rotation_translation(so3.from_quaternion(vector[:4]), vector[4:])


def pose_to_vector(g: Float[Array, "4 4"]) -> Float[Array, "7"]:
    """`[qx, qy, qz, qw, x, y, z]`, see `so3.to_quaternion` for the quaternion's sign."""
    return jnp.concatenate([so3.to_quaternion(rotation(g)), translation(g)])


def _assemble(upper_left, upper_right, lower_left, lower_right):
    return jnp.concatenate(
        [
            jnp.concatenate([upper_left, upper_right], axis=1),
            jnp.concatenate([lower_left, lower_right], axis=1),
        ]
    )


def _block(diagonal, lower):
    return _assemble(diagonal, jnp.zeros_like(diagonal), lower, diagonal)
