import numpy as np
import pytest

from soromox.numerics import gauss_legendre


@pytest.mark.parametrize("num_points", [1, 2, 3, 5, 8, 16])
def test_gauss_legendre_integrates_polynomials_exactly(num_points):
    nodes, weights = gauss_legendre(num_points)
    assert nodes.dtype == weights.dtype == np.float64
    assert np.all(np.diff(nodes) > 0)
    assert np.all((nodes > 0) & (nodes < 1))
    for degree in range(2 * num_points):
        # Powers multiply the rounding of the nodes: a few ulp times the degree.
        np.testing.assert_allclose(weights @ nodes**degree, 1 / (degree + 1), rtol=1e-14)
    one_too_many = weights @ nodes ** (2 * num_points) - 1 / (2 * num_points + 1)
    assert abs(one_too_many) > 1e-20


def test_gauss_legendre_needs_a_point():
    with pytest.raises(
        ValueError, match="`num_points` of a Gauss-Legendre rule must be at least 1"
    ):
        gauss_legendre(0)
