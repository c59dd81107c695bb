"""Stumpff functions against mpmath with 60 digits."""

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

from soromox.lie.series import inverse_tangent, inverse_tangent_slope, stumpff


ORDER = 7
ANGLES = [0, 1e-300, 1e-12, 1e-8, 1e-4, 1e-2, 0.1, 0.5, 0.7071067811865475, 0.71, 1]
X = np.square(ANGLES + [1.5, 2 - 1e-15, 2, 2 + 1e-15, 3, 3.14, np.pi, 4, 6, 8])


def exact(x, k, derivative):
    """`d^derivative c_k / dx^derivative` by the series, whose terms are at most e^8 here."""
    x = mp.mpf(float(x))
    return mp.nsum(
        lambda j: (
            (-1) ** int(j)
            * mp.ff(j, derivative)
            * x ** (int(j) - derivative)
            / mp.factorial(2 * j + k)
        ),
        [derivative, 60],
    )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_stumpff_functions_and_derivatives(dtype):
    x = X.astype(dtype)
    c = lambda x: jnp.stack(stumpff(x, ORDER))
    slope = jax.jacfwd(c)
    everything = jax.vmap(lambda x: jnp.stack([c(x), slope(x), jax.jacfwd(slope)(x)]))
    computed = jax.jit(everything)(jnp.asarray(x))
    assert computed.dtype == dtype
    with mp.workdps(60):
        values = lambda x: [[float(exact(x, k, d)) for k in range(ORDER + 1)] for d in range(3)]
        reference = np.array([values(a) for a in x])
        scale = np.abs(values(0))
    error = np.abs(np.asarray(computed, np.float64) - reference) / jnp.finfo(dtype).eps
    near = x < 4
    # Series: relative to the value at zero, the largest one. The difference k c_{k+2} - c_{k+1} is
    # (k + 2) / 2 times smaller than its terms. Closed forms: absolute, because the maps multiply
    # c_k by k-th powers of the angle, so that all terms are then of order one.
    cancellation = (np.arange(ORDER + 1) + 2) / 2
    assert np.all(error[near] <= 2 * scale * cancellation ** np.arange(3)[:, None])
    assert np.all(error[~near] <= 2)


def test_inverse_tangent_coefficients():
    x = X[:-2]
    both = lambda c: (*inverse_tangent(c), *inverse_tangent_slope(c))
    y, b, dy, db = jax.jit(jax.vmap(lambda x: both(stumpff(x, 6))))(jnp.asarray(x))
    with mp.workdps(60):
        half_cot = lambda t: t / 2 * mp.cot(t / 2)
        large = np.flatnonzero(x > 1e-9)
        t = [mp.sqrt(mp.mpf(float(x[i]))) for i in large]
        y_exact = np.array([float(half_cot(a)) for a in t])
        b_exact = np.array([float((1 - half_cot(a)) / a**2) for a in t])
        dy_exact = np.array([float(mp.diff(half_cot, a) / a) for a in t])
        db_exact = np.array([float(mp.diff(lambda t: (1 - half_cot(t)) / t**2, a) / a) for a in t])
    np.testing.assert_allclose(y[large], y_exact, rtol=0, atol=4e-16)
    np.testing.assert_allclose(b[large], b_exact, rtol=0, atol=4e-16)
    np.testing.assert_allclose(dy[large], dy_exact, rtol=0, atol=4e-16)
    np.testing.assert_allclose(db[large], db_exact, rtol=0, atol=4e-16)
    small = x < 1e-9
    np.testing.assert_allclose(y[small], 1, rtol=4e-16)
    np.testing.assert_allclose(b[small], 1 / 12, rtol=1e-15)
    np.testing.assert_allclose(dy[small], -1 / 6, rtol=1e-15)
    np.testing.assert_allclose(db[small], 1 / 360, rtol=1e-14)
