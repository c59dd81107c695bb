r"""Rigid motions of the plane: poses `[theta, x, y]`, twists $X = [\omega; v_x; v_y]$, wrenches $F = [m; f_x; f_y]$.

The same functions as `se3`, restricted to the plane z = 0. The angle is never wrapped: composing
adds angles, and `log` takes the angle as it is. The tangent map is
$T(X) = \sum_k \mathrm{ad}_X^k / (k+1)!$, so that $\exp(X)^{-1}\, d\exp(X) = T(-X)\,dX$ (body frame).
"""

import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from soromox.lie.series import inverse_tangent, slope, stumpff


DIM = 3
POINT_DIM = 2


def identity(dtype: DTypeLike | None = None) -> Float[Array, "3"]:
    """The pose that moves nothing."""
    return jnp.zeros(3, dtype=dtype)


def from_rotation_translation(R: Float[Array, "2 2"], p: Float[Array, "2"]) -> Float[Array, "3"]:
    """The pose with this rotation, its angle in [-pi, pi], and translation."""
    return jnp.stack([jnp.arctan2(R[1, 0], R[0, 0]), p[0], p[1]])


def rotation(g: Float[Array, "3"]) -> Float[Array, "2 2"]:
    """Rotation matrix of the pose."""
    cosine, sine = jnp.cos(g[0]), jnp.sin(g[0])
    return _matrix([[cosine, -sine], [sine, cosine]])


def translation(g: Float[Array, "3"]) -> Float[Array, "2"]:
    """Origin of the inner frame, in the outer axes."""
    return g[1:]


def compose(g: Float[Array, "3"], h: Float[Array, "3"]) -> Float[Array, "3"]:
    """The product `g h`: `h` is given in the frame of `g`."""
    return g + rotate(g, h)


def inverse(g: Float[Array, "3"]) -> Float[Array, "3"]:
    """`[-theta, -R^T p]`."""
    return -rotate_inverse(g, g)


def act(g: Float[Array, "3"], point: Float[Array, "2"]) -> Float[Array, "2"]:
    """`R point + p`: a point of the inner frame, in the outer one."""
    x, y = _turn(jnp.cos(g[0]), jnp.sin(g[0]), point[0], point[1])
    return translation(g) + jnp.stack([x, y])


def exp(X: Float[Array, "3"]) -> Float[Array, "3"]:
    """The motion of the constant body twist `X` over unit time."""
    w, vx, vy = X
    c = stumpff(w * w, 2)
    x, y = _turn(c[1], w * c[2], vx, vy)
    return jnp.stack([w, x, y])


def log(g: Float[Array, "3"]) -> Float[Array, "3"]:
    """Twist with `exp(X) = g`; singular where `theta` is a multiple of 2 pi but not zero."""
    w, px, py = g
    y, _ = inverse_tangent(stumpff(w * w, 4))
    vx, vy = _turn(y, -0.5 * w, px, py)
    return jnp.stack([w, vx, vy])


def Ad(g: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """`[[1, 0], [-J p, R]]`, `J` the quarter turn: inner twists to the outer frame and its origin."""
    return _block(1.0, g[2], -g[1], jnp.cos(g[0]), jnp.sin(g[0]))


def Ad_inverse(g: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """`Ad(g^-1) = [[1, 0], [R^T J p, R^T]]`."""
    cosine, sine = jnp.cos(g[0]), jnp.sin(g[0])
    x, y = _turn(cosine, -sine, -g[2], g[1])
    return _block(1.0, x, y, cosine, -sine)


def ad(X: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """Matrix of the Lie bracket: `[[0, 0, 0], [v_y, 0, -w], [-v_x, w, 0]]`."""
    w, vx, vy = X
    return _block(0.0, vy, -vx, jnp.zeros_like(w), w)


def bracket(X: Float[Array, "3"], Y: Float[Array, "3"]) -> Float[Array, "3"]:
    """`ad(X) @ Y`."""
    w, vx, vy = X
    a, bx, by = Y
    return jnp.stack([jnp.zeros_like(w), a * vy - w * by, w * bx - a * vx])


def cobracket(X: Float[Array, "3"], F: Float[Array, "3"]) -> Float[Array, "3"]:
    """`ad(X)^T @ F`."""
    w, vx, vy = X
    _, fx, fy = F
    return jnp.stack([vy * fx - vx * fy, w * fy, -w * fx])


def momentum_matrix(F: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """`[[0, -f_y, f_x], [f_y, 0, 0], [-f_x, 0, 0]]`: `momentum_matrix(F) @ X = ad(X)^T @ F`.

    It is antisymmetric; the moment does not enter, because turning about z commutes with itself.
    """
    _, fx, fy = F
    o = jnp.zeros_like(fx)
    return _matrix([[o, -fy, fx], [fy, o, o], [-fx, o, o]])


def tangent(X: Float[Array, "3"]) -> Float[Array, "3 3"]:
    r"""$T(X) = \sum_k \mathrm{ad}_X^k / (k+1)!$
    $= [[1, 0], [(\omega c_3 - c_2 J) v, c_1 I + \omega c_2 J]]$ with `J` the quarter turn."""
    w, vx, vy = X
    c = stumpff(w * w, 3)
    x, y = _turn(w * c[3], -c[2], vx, vy)
    return _block(1.0, x, y, c[1], w * c[2])


def tangent_inverse(X: Float[Array, "3"]) -> Float[Array, "3 3"]:
    r"""$T(X)^{-1} = [[1, 0], [(\omega b + J / 2) v, y I - \omega J / 2]]$, see `so3.tangent_inverse`.

    Singular where `w` is a multiple of 2 pi but not zero.
    """
    w, vx, vy = X
    y, b = inverse_tangent(stumpff(w * w, 4))
    lower_x, lower_y = _turn(w * b, 0.5, vx, vy)
    return _block(1.0, lower_x, lower_y, y, -0.5 * w)


def tangent_derivative(X: Float[Array, "3"], dX: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """Derivative of `tangent` at `X` along `dX`."""
    w, vx, vy = X
    dw, dvx, dvy = dX
    c = stumpff(w * w, 4)
    # Slopes in w of c_1, c_2 and of w c_2, w c_3 (by c_k = 1/k! - x c_{k+2}).
    dc1, dc2 = w * slope(c, 1), w * slope(c, 2)
    dwc2, dwc3 = c[1] - c[2], c[2] - 2 * c[3]
    x, y = _turn(dw * dwc3, -dw * dc2, vx, vy)
    dx, dy = _turn(w * c[3], -c[2], dvx, dvy)
    return _block(0.0, x + dx, y + dy, dw * dc1, dw * dwc2)


def rotate(g: Float[Array, "3"], X: Float[Array, "3 *columns"]) -> Float[Array, "3 *columns"]:
    """`blkdiag(1, R) @ X`: twists, wrenches or Jacobian columns in the outer axes, same origin."""
    x, y = _turn(jnp.cos(g[0]), jnp.sin(g[0]), X[1], X[2])
    return jnp.stack([X[0], x, y])


def rotate_inverse(
    g: Float[Array, "3"], X: Float[Array, "3 *columns"]
) -> Float[Array, "3 *columns"]:
    """`blkdiag(1, R)^T @ X`: from the outer axes back to the inner ones, same origin."""
    x, y = _turn(jnp.cos(g[0]), -jnp.sin(g[0]), X[1], X[2])
    return jnp.stack([X[0], x, y])


def pose_from_vector(vector: Float[Array, "3"]) -> Float[Array, "3"]:
    """Pose of `[theta, x, y]`: itself."""
    return vector


def pose_to_vector(g: Float[Array, "3"]) -> Float[Array, "3"]:
    """`[theta, x, y]`: the pose itself."""
    return g


def _turn(a, b, x, y):
    """`(a I + b J) [x; y]`: complex multiplication by `a + ib`."""
    return a * x - b * y, b * x + a * y


def _matrix(rows):
    return jnp.stack([jnp.stack(row) for row in rows])


def _block(corner, x, y, a, b):
    """`[[corner, 0], [[x; y], a I + b J]]`."""
    o = jnp.zeros_like(a)
    return _matrix([[jnp.full_like(a, corner), o, o], [x, a, -b], [y, b, a]])
