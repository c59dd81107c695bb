"""Quadrature rules on the unit interval."""

import numpy as np
from jaxtyping import Float


def gauss_legendre(
    num_points: int,
) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
    r"""Nodes and weights of the Gauss-Legendre rule on [0, 1], ascending, in float64.

    $\int_0^1 f(X)\,dX \approx \sum_k w_k f(X_k)$, exact for polynomials up to degree
    `2 num_points - 1`. They are NumPy arrays (constants of a traced program); cast them to the
    dtype of the data they multiply.
    """
    if num_points < 1:
        raise ValueError(
            f"`num_points` of a Gauss-Legendre rule must be at least 1, got {num_points}."
        )
    nodes, weights = np.polynomial.legendre.leggauss(num_points)
    return (1 + nodes) / 2, weights / 2
