import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from soromox.lie import so3


AXES = np.array([[0.48, -0.6, 0.64], [1, 0, 0], [0, -1, 0], [0, 0.6, 0.8]])
ANGLES = [0, 1e-300, 1e-30, 1e-12, 1e-8, 1e-4, 0.1, 1, 2, 3, 3.14]
NEAR_PI = [np.pi - 1e-3, np.pi - 1e-6, np.pi - 1e-9, np.pi - 1e-12]


def vectors(angles, dtype="float64"):
    w = np.asarray(angles)[:, None, None] * AXES
    return jnp.asarray(w.reshape(-1, 3).astype(dtype))


def relative(error, w):
    size = np.linalg.norm(np.asarray(w), axis=-1, keepdims=True)
    return np.max(np.abs(np.asarray(error)) / np.where(size > 1e-100, size, 1e-300))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-15), ("float32", 5e-7)])
def test_log_inverts_exp(dtype, tolerance):
    # Relative to the vector itself, also where the rotation differs from 1 in the 300th digit.
    w = vectors(ANGLES if dtype == "float64" else [a for a in ANGLES if a != 1e-300], dtype)
    result = jax.jit(jax.vmap(lambda w: so3.log(so3.exp(w))))(w)
    assert result.dtype == dtype
    assert relative(result - w, np.float64(w)) <= tolerance


def test_log_near_pi():
    w = vectors(NEAR_PI)
    assert relative(jax.jit(jax.vmap(lambda w: so3.log(so3.exp(w))))(w) - w, w) <= 1e-15


@pytest.mark.parametrize("axis", AXES)
def test_log_at_pi(axis):
    # exp(pi axis) = 2 a a^T - 1 exactly; the sign of the axis is free.
    R = 2 * np.outer(axis, axis) - np.eye(3)
    w = np.asarray(jax.jit(so3.log)(R))
    error = min(np.abs(w - np.pi * axis).max(), np.abs(w + np.pi * axis).max())
    assert error <= 1e-15 * np.pi
    slopes = jax.jit(jax.jacfwd(so3.log))(R)
    assert np.all(np.isfinite(slopes))


def test_log_beyond_pi_returns_the_short_way():
    w = vectors([4.0, 6.0])
    size = np.linalg.norm(w, axis=1, keepdims=True)
    short = w * (1 - 2 * np.pi / size)
    assert relative(jax.jit(jax.vmap(lambda w: so3.log(so3.exp(w))))(w) - short, w) <= 1e-15


def test_derivatives_of_log_after_exp_are_those_of_the_identity():
    w = vectors(ANGLES + NEAR_PI)
    round_trip = lambda w: so3.log(so3.exp(w))

    @jax.jit
    @jax.vmap
    def evaluate(w):
        hessian = jax.jacfwd(jax.jacrev(round_trip))
        return jax.jacfwd(round_trip)(w), jax.jacrev(round_trip)(w), hessian(w)

    forward, reverse, second = evaluate(w)
    np.testing.assert_allclose(forward, np.broadcast_to(np.eye(3), forward.shape), atol=2e-15)
    np.testing.assert_allclose(reverse, np.broadcast_to(np.eye(3), reverse.shape), atol=2e-15)
    np.testing.assert_allclose(second, np.zeros(second.shape), atol=5e-15)


def test_tangent_map_is_the_derivative_of_exp():
    w, dw = jnp.array([0.4, -1.1, 0.8]), jnp.array([0.3, 0.5, -0.2])
    R, dR = jax.jvp(so3.exp, (w,), (dw,))
    np.testing.assert_allclose(R.T @ dR, so3.hat(so3.tangent(-w) @ dw), atol=1e-15)


def test_hat_and_vee():
    w, a = jnp.array([0.4, -1.1, 0.8]), jnp.array([0.3, 0.5, -0.2])
    np.testing.assert_allclose(so3.hat(w) @ a, np.cross(w, a), atol=1e-16)
    np.testing.assert_allclose(so3.cross(w, a), np.cross(w, a), atol=1e-16)
    np.testing.assert_array_equal(so3.vee(so3.hat(w)), w)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_quaternions_agree_with_scipy(dtype, getkey):
    q = jax.random.normal(getkey(), (50, 4), dtype)
    R = jax.jit(jax.vmap(so3.from_quaternion))(q)
    tolerance = 4 * jnp.finfo(dtype).eps
    assert R.dtype == dtype
    np.testing.assert_allclose(R, Rotation.from_quat(np.float64(q)).as_matrix(), atol=tolerance)
    back = jax.jit(jax.vmap(so3.to_quaternion))(R)
    assert back.dtype == dtype
    exact = np.float64(q) / np.linalg.norm(np.float64(q), axis=1, keepdims=True)
    exact *= np.sign(np.take_along_axis(exact, np.abs(exact).argmax(axis=1)[:, None], axis=1))
    np.testing.assert_allclose(back, exact, atol=tolerance)


def test_quaternion_derivatives():
    # Angles in every quarter, so that each of the four components is the largest one once.
    w = jnp.asarray(np.concatenate([vectors([0, 1e-8, 1]), 3.1 * np.eye(3)]))
    direct = jax.jacfwd(so3.exp)
    round_trip = jax.jacrev(lambda w: so3.from_quaternion(so3.to_quaternion(so3.exp(w))))
    actual, expected = jax.jit(jax.vmap(lambda w: (round_trip(w), direct(w))))(w)
    np.testing.assert_allclose(actual, expected, atol=2e-15)
