"""Bases against formulas written independently, and what a spec accepts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial import chebyshev, legendre

from soromox.systems import StrainBasisSpec
from soromox.systems.strain_bases import StrainBasis


X = np.linspace(0, 1, 9)


def fourier(X, p):
    waves = [f(2 * np.pi * k * X) for k in range(1, p + 1) for f in (np.cos, np.sin)]
    return np.stack([np.ones_like(X), *waves], axis=1)


def gaussian(X, p):
    # half width at half maximum: half the distance of neighbouring centres
    centres = np.arange(p + 1) / p
    return 0.5 ** (((X[:, None] - centres) / (0.5 / p)) ** 2)


def inverse_multiquadric(X, p):
    centres = np.arange(p + 1) / p
    return 1 / np.sqrt(1 + 3 * ((X[:, None] - centres) / (0.5 / p)) ** 2)


FORMULAS = {
    "monomial": lambda X, p: np.vander(X, p + 1, increasing=True),
    "legendre": lambda X, p: legendre.legvander(2 * X - 1, p),
    "chebyshev": lambda X, p: chebyshev.chebvander(2 * X - 1, p),
    "fourier": fourier,
    "gaussian": gaussian,
    "imq": inverse_multiquadric,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_functions_are_the_documented_ones(name):
    for order in (1, 2, 5):
        B = StrainBasis(name, (None, order, None))(X)
        np.testing.assert_allclose(B[:, 1], FORMULAS[name](X, order), rtol=1e-13, atol=1e-13)
        assert not B[:, [0, 2]].any()
    np.testing.assert_array_equal(StrainBasis(name, (None, 0, None))(X)[:, 1], np.ones((9, 1)))


@pytest.mark.parametrize("name", FORMULAS)
def test_traced_arguments_give_the_same_matrix(name):
    basis = StrainBasis(name, (2, None, 0, 3, None, 1))
    assert basis(X).shape == (9, 6, basis.num_functions)
    traced = jax.jit(jax.vmap(basis))(jnp.asarray(X))
    np.testing.assert_allclose(traced, basis(X), rtol=1e-14, atol=1e-14)
    assert basis(jnp.float32(0.3)).dtype == jnp.float32


def test_components_come_row_by_row():
    basis = StrainBasisSpec("monomial", ["sigma_x", "kappa_y"], [9, 2, 9, 1, 9, 9]).basis
    expected = np.zeros((6, 5))
    expected[1, :3], expected[3, 3:] = [1, 0.5, 0.25], [1, 0.5]
    np.testing.assert_allclose(basis(np.array([0.5]))[0], expected)


@pytest.mark.parametrize(
    "selector",
    [
        (0, 1, 0, 1, 0, 0),
        [False, True, False, True, False, False],
        np.array([0, 1, 0, 1, 0, 0]),
        np.array([0, 1, 0, 1, 0, 0], dtype=bool),
        np.array([0.0, 1.0, 0.0, 1.0, 0.0, 0.0]),
        ("kappa_y", "sigma_x"),
        np.array(["sigma_x", "kappa_y"]),
    ],
    ids=repr,
)
def test_selectors_are_masks_or_names(selector):
    spec = StrainBasisSpec("legendre", selector, np.array([1, 2, 3, 0, 1, 1]))
    assert spec.basis == StrainBasis("legendre", (None, 2, None, 0, None, None))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"type": "bspline"}, "`type` must be one of monomial, .* got 'bspline'"),
        ({"strain_selector": ["kappa"]}, "names must be among kappa_x, .* got 'kappa'"),
        ({"strain_selector": ["kappa_y", "kappa_y"]}, "names a strain twice"),
        ({"strain_selector": [1, 0, 1]}, "six booleans or component names"),
        ({"strain_selector": [2, 0, 0, 0, 0, 0]}, "must be True or False"),
        ({"strain_selector": [np.nan, 0, 0, 0, 0, 0]}, "must be True or False"),
        ({"basis_order": -1}, "whole and non-negative"),
        ({"basis_order": 1.5}, "whole and non-negative"),
        ({"basis_order": np.nan}, "whole and non-negative"),
        ({"basis_order": [1, 2]}, "one order or one per strain component"),
    ],
)
def test_bad_specs_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        StrainBasisSpec(**arguments)
