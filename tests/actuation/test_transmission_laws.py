"""Laws of every transmission: derivatives of one map, power, precision, batches."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.actuation import Transmission
from soromox.systems import SoftRobot
from tests.transmissions import TRANSMISSIONS


@eqx.filter_jit
def everything(transmission, robot, q, qd, e):
    return {
        "y": transmission.coordinates(robot, q),
        "yd": transmission.velocities(robot, q, qd),
        "A": transmission.moment_matrix(robot, q),
        "tau": transmission.force(robot, q, e),
    }


class Case:
    def __init__(self, name: str):
        self.robot, self.transmission = TRANSMISSIONS[name]()
        self.transmission.install_check(self.robot)
        self.size = self.transmission.num_coordinates(self.robot)
        rng = np.random.default_rng(3)
        self.q, self.qd = (jnp.asarray(0.4 * rng.normal(size=self.robot.num_dofs)) for _ in "ab")
        self.e = jnp.asarray(rng.normal(size=self.size))
        self.result = everything(self.transmission, self.robot, self.q, self.qd, self.e)


@pytest.fixture(scope="module", params=TRANSMISSIONS)
def case(request: pytest.FixtureRequest) -> Case:
    return Case(request.param)


def test_matrix_rate_and_force_are_derivatives_of_the_coordinates(case: Case):
    steps = 1e-6 * jnp.eye(case.q.size)
    batch = jnp.concatenate([case.q[None], case.q[None] + steps, case.q[None] - steps])
    y = jax.jit(jax.vmap(lambda q: case.transmission.coordinates(case.robot, q)))(batch)
    np.testing.assert_allclose(y[0], case.result["y"], atol=1e-14)
    A = (y[1 : 1 + case.q.size] - y[1 + case.q.size :]) / 2e-6
    np.testing.assert_allclose(case.result["A"], A, atol=1e-8)
    np.testing.assert_allclose(case.result["yd"], case.result["A"].T @ case.qd, atol=1e-13)
    np.testing.assert_allclose(case.result["tau"], case.result["A"] @ case.e, atol=1e-13)
    assert abs(case.qd @ case.result["tau"] - case.result["yd"] @ case.e) < 1e-12


def test_second_derivatives_are_finite_at_rest(case: Case):
    def force(q):
        return case.transmission.force(case.robot, q, case.e)

    change = jax.jit(lambda q, qd: jax.jvp(force, (q,), (qd,))[1])
    assert jnp.all(jnp.isfinite(change(jnp.zeros_like(case.q), case.qd)))


def as_single(tree):
    return jax.tree.map(lambda x: x.astype(jnp.float32) if eqx.is_inexact_array(x) else x, tree)


def test_single_precision_stays_single(case: Case):
    robot, transmission, q, qd = as_single((case.robot, case.transmission, case.q, case.qd))
    transmission.install_check(robot)
    single = eqx.filter_jit(
        lambda: jax.jvp(lambda q: transmission.coordinates(robot, q), (q,), (qd,))
    )()
    for value, name in zip(single, ("y", "yd"), strict=True):
        assert value.dtype == jnp.float32
        scale = 1 + np.max(np.abs(case.result[name]))
        np.testing.assert_allclose(value, case.result[name], atol=2e-6 * scale)


def test_precision_of_transmission_and_robot_must_agree():
    robot, transmission = TRANSMISSIONS["gear"]()
    with pytest.raises(TypeError, match="holds float64 numbers, but this Pendulum is float32"):
        transmission.install_check(as_single(robot))


def test_coordinates_of_wrong_rank_are_refused_at_installation():
    class Scalar(Transmission):
        orientation = "generic"

        def coordinates(self, robot, q):
            return jnp.sum(q)

    robot: SoftRobot = TRANSMISSIONS["gear"]()[0]
    with pytest.raises(TypeError, match=r"Scalar.coordinates.* must return a vector"):
        Scalar().install_check(robot)
