"""The search for a root of a stage, apart from any robot."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

from soromox.simulation.linear_solve import ApproximateInverse
from soromox.simulation.root import Measure, Residual, find_root
from soromox.simulation.state import RESULTS


A = jnp.array([[2.0, -1.5, 0.5], [1.0, 3.0, -2.0], [-0.5, 1.5, 4.0]])


class Coupled(Residual):
    """`A x + x^3 / 10 = b`, in coordinates `x / weights`."""

    weights: Float[Array, " n"]
    b: Float[Array, " n"]

    def value(self, x: Float[Array, " n"]) -> Float[Array, " n"]:
        x = self.weights * x
        return (A @ x + x**3 / 10 - self.b) / self.weights


class Identity(ApproximateInverse):
    def solve(self, r: Float[Array, " n"]) -> Float[Array, " n"]:
        return r

    def solve_transposed(self, r: Float[Array, " n"]) -> Float[Array, " n"]:
        return r


@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (1e-3, 1.0, 30.0)], ids=str)
def test_newton_converges_quadratically_whatever_the_units(weights):
    """The approximate inverse is useless here, so that the chord iteration gives up at once."""
    problem = Coupled(jnp.array(weights), jnp.array([1.0, -2.0, 0.5]))
    measure = Measure(problem.weights, jnp.ones(()))
    x, diagnostics = jax.jit(find_root)(problem, jnp.zeros(3), measure, Identity())
    assert diagnostics.result == RESULTS.successful
    assert diagnostics.trials <= 8
    np.testing.assert_allclose(problem.value(x) * problem.weights, 0, atol=1e-12)
