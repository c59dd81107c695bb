"""Quadrature rules on the unit interval."""

import numpy as np
from jaxtyping import Float

from soromox.numerics.checks import whole_number


def gauss_legendre(
    num_points: int,
) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
    r"""Nodes and weights of the Gauss-Legendre rule on [0, 1], ascending, in float64.

    $\int_0^1 f(X)\,dX \approx \sum_k w_k f(X_k)$, exact for polynomials up to degree
    `2 num_points - 1`. They are NumPy arrays (constants of a traced program); cast them to the
    dtype of the data they multiply.
    """
    need = "`num_points` of a Gauss-Legendre rule must be at least 1"
    nodes, weights = np.polynomial.legendre.leggauss(whole_number(num_points, need))
    return (1 + nodes) / 2, weights / 2
