"""Values, first and second derivatives of `exp` and the tangent maps at every kind of angle."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.lie import se2, se3, so3
from tests.lie import reference as ref


# Small, next to 0.5 (a common switch between series and closed form), next to 2 (the switch used
# here), around pi and beyond, but away from 2 pi, where the inverse tangent map is singular.
ANGLES = np.array(
    [0, 1e-300, 1e-12, 1e-8, 1e-4, 1e-2, 0.1, 0.5]
    + [np.sqrt(0.5) - 1e-15, np.sqrt(0.5) + 1e-15, 0.71, 1]
    + [2 - 1e-15, 2, 2 + 1e-15, 3, 3.14, np.pi, 4, 6, 8]
)
AXIS = np.array([0.48, -0.6, 0.64])
VELOCITY = np.array([0.3, -1.1, 0.7])

MAPS = {
    "so3.exp": (so3.exp, lambda w: ref.power_series(ref.hat(w), 0)),
    "so3.tangent": (so3.tangent, lambda w: ref.power_series(ref.hat(w), 1)),
    "so3.tangent_inverse": (
        so3.tangent_inverse,
        lambda w: ref.inverse(ref.power_series(ref.hat(w), 1)),
    ),
    "se3.exp": (se3.exp, lambda X: ref.power_series(ref.spatial_generator(X), 0)),
    "se3.tangent": (se3.tangent, lambda X: ref.power_series(ref.spatial_ad(X), 1)),
    "se3.tangent_inverse": (
        se3.tangent_inverse,
        lambda X: ref.inverse(ref.power_series(ref.spatial_ad(X), 1)),
    ),
    "se2.exp": (se2.exp, ref.planar_exp),
    "se2.tangent": (se2.tangent, lambda X: ref.power_series(ref.planar_ad(X), 1)),
    "se2.tangent_inverse": (
        se2.tangent_inverse,
        lambda X: ref.inverse(ref.power_series(ref.planar_ad(X), 1)),
    ),
}


def arguments(name):
    group = name.split(".")[0]
    if group == "se2":
        return np.stack([ANGLES, 0 * ANGLES + 0.3, 0 * ANGLES - 1.1], axis=1)
    w = ANGLES[:, None] * AXIS
    return w if group == "so3" else np.concatenate([w, 0 * w + VELOCITY], axis=1)


def expected(name):
    """Exact value, Jacobian and Hessian at every angle."""
    results = [ref.derivatives(MAPS[name][1], X) for X in arguments(name)]
    return [np.stack(r) for r in zip(*results, strict=True)]


def all_derivatives(f):
    """Value, reverse-mode Jacobian, forward-mode Jacobian, Hessian (forward over reverse)."""

    def value_and_jacobian(X):
        both = f(X), jax.jacrev(f)(X)
        return both, both

    def everything(X):
        (forward, hessian), (value, reverse) = jax.jacfwd(value_and_jacobian, has_aux=True)(X)
        return value, reverse, forward, hessian

    return everything


def errors(actual, exact):
    """Largest error at each angle in units of the largest entry there."""
    axes = tuple(range(1, exact.ndim))
    error = np.abs(np.asarray(actual, np.float64) - exact).max(axis=axes)
    return error / np.abs(exact).max(axis=axes)


def assert_accurate(name, f, derivatives, X, exact, tolerance, derivative_tolerance):
    value, jacobian, hessian = exact
    # Beyond 5 rad the rounding of |w|^2 weighs more: 2 pi is a pole of the inverse maps (their
    # entries grow 22-fold, their sensitivity with the square), and derivatives of the others are
    # there up to 10 times smaller than the terms that they are the sum of.
    far = ANGLES > 5
    inverse = name.endswith("inverse")
    tolerance = tolerance * np.where(far & inverse, 20, 1)
    derivative_tolerance = derivative_tolerance * np.where(far, 20 if inverse else 10, 1)
    plain = f(X)
    value_too, reverse, forward, second = derivatives(X)
    assert {a.dtype for a in (plain, value_too, reverse, forward, second)} == {X.dtype}
    assert np.all(errors(plain, value) <= tolerance)
    assert np.all(errors(value_too, value) <= tolerance)
    assert np.all(errors(reverse, jacobian) <= derivative_tolerance)
    assert np.all(errors(forward, jacobian) <= derivative_tolerance)
    assert np.all(errors(second, hessian) <= derivative_tolerance)


@pytest.mark.parametrize("name", MAPS)
def test_value_and_derivatives_equal_power_series(name):
    f = jax.jit(jax.vmap(MAPS[name][0]))
    # Unoptimised machine code: half the compile time, same arithmetic.
    options = {"xla_backend_optimization_level": 0}
    derivatives = jax.jit(jax.vmap(all_derivatives(MAPS[name][0])), compiler_options=options)
    X = arguments(name)
    # Values to 4.5 ulp of the largest entry (measured: 2.6 at 8 rad, else 1 to 2).
    assert_accurate(name, f, derivatives, jnp.asarray(X), expected(name), 1e-15, 3e-15)
    # float32 against the float64 just verified, at the same rounded arguments.
    X = jnp.asarray(X.astype(np.float32))
    value, _, jacobian, hessian = map(np.asarray, derivatives(X.astype(np.float64)))
    assert_accurate(name, f, derivatives, X, (value, jacobian, hessian), 5e-7, 3e-6)


@pytest.mark.parametrize("name", ["se3.exp", "se3.tangent", "se2.tangent_inverse"])
def test_vmap_equals_single(name):
    f = jax.jit(MAPS[name][0])
    X = jnp.asarray(arguments(name)[ANGLES <= 5])
    single = np.stack([f(x) for x in X])
    batch = jax.jit(jax.vmap(MAPS[name][0]))(X)
    # Compiled differently, |w|^2 may round differently: half an ulp.
    assert np.all(errors(batch, single) <= 5e-16)


@pytest.mark.parametrize("group", [so3, se3, se2], ids=["so3", "se3", "se2"])
def test_tangent_derivative_is_the_derivative_of_tangent(group):
    X = jnp.asarray(arguments(group.__name__.split(".")[-1]))
    dX = jnp.linspace(-1.0, 1.7, X.shape[1])

    @jax.vmap
    def evaluate(X):
        exact, exact_slope = jax.jvp(jax.jacfwd(group.tangent), (X,), (dX,))
        slopes = jax.jacfwd(group.tangent_derivative, argnums=(0, 1))(X, dX)
        return exact, exact_slope, group.tangent_derivative(X, dX), *slopes

    evaluate = jax.jit(evaluate, compiler_options={"xla_backend_optimization_level": 0})
    exact, exact_slope, closed_form, slope_X, slope_dX = map(np.asarray, evaluate(X))
    assert np.all(errors(closed_form, exact @ np.asarray(dX)) <= 2e-15)
    assert np.all(errors(slope_dX, exact) <= 2e-15)
    assert np.all(errors(slope_X, exact_slope) <= 5e-15)
