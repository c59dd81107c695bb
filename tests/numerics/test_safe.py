import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.numerics import norm, unit


DIRECTION = np.array([2, -3, 6]) / 7


@jax.jit
def everything(x):
    slopes = jax.grad(norm)(x), jax.jacfwd(norm)(x)
    return norm(x), (unit(x), *slopes), (jax.hessian(norm)(x), jax.jacrev(unit)(x))


@pytest.mark.parametrize("length", [1e-300, 1e-160, 1e-8, 1.0, 1e200])
def test_norm_and_its_derivatives(length):
    value, first, second = everything(jnp.asarray(length * DIRECTION))
    np.testing.assert_allclose(value, length, rtol=1e-15)
    for slope in first:
        np.testing.assert_allclose(slope, DIRECTION, rtol=1e-15)
    across = (np.eye(3) - np.outer(DIRECTION, DIRECTION)) / length
    for curvature in second:
        np.testing.assert_allclose(curvature, across, rtol=0, atol=1e-15 / length)


def test_norm_in_float32_does_not_underflow():
    x = jnp.asarray(1e-30 * DIRECTION, jnp.float32)
    value, first, second = everything(x)
    np.testing.assert_allclose(value, 1e-30, rtol=2e-7)
    for slope in first:
        assert slope.dtype == jnp.float32
        np.testing.assert_allclose(slope, DIRECTION, rtol=2e-7)
    assert np.all(np.isfinite(second))


def test_everything_is_zero_at_the_zero_vector():
    for array in jax.tree.leaves(everything(jnp.zeros(3))):
        assert np.all(np.asarray(array) == 0)


def test_second_derivative_of_unit():
    x, dx = jnp.asarray(DIRECTION), jnp.array([0.3, 0.5, -0.2])
    plain = lambda x: x / jnp.sqrt(jnp.sum(x**2))
    second = lambda f: jax.jvp(lambda x: jax.jvp(f, (x,), (dx,))[1], (x,), (dx,))[1]
    np.testing.assert_allclose(second(unit), second(plain), rtol=0, atol=1e-15)
