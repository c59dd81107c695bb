"""Sums over actuators and passive elements: order, slices, powers, and the view of the stepper."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.actuation import (
    AffineJointTransmission,
    ArticulatedTendonActuator,
    ArticulatedTendonImpedance,
    BareTransmission,
    DisplacementControl,
    IdentityActuator,
    LinearJoint,
    PassiveElement,
    SpatialTendonTransmission,
    TransmissionActuator,
    TransmissionImpedance,
    loads,
)
from soromox.systems import SoftRobot
from tests.hosts import ROUTING, pendulum


class Quartic(PassiveElement):
    """What an outsider writes: `U = k sum q^4 / 4`, `R = sum |qd|^3 / 3`."""

    stiffness: jax.Array

    def energy(self, robot, q):
        return self.stiffness * jnp.sum(q**4) / 4

    def dissipation(self, robot, q, qd):
        return jnp.sum(jnp.abs(qd) ** 3) / 3


@pytest.fixture(scope="module")
def robot() -> SoftRobot:
    tendon = SpatialTendonTransmission([LinearJoint(0, 0.02)], [LinearJoint(1, -0.01)])
    springs = ArticulatedTendonImpedance.from_routing(
        ROUTING, stiffness=[80.0, 60.0], damping=[1.5, 1.0], coordinate_offset=[0.018, 0.025]
    )
    return pendulum(
        actuators=(
            ArticulatedTendonActuator.from_routing(ROUTING),
            BareTransmission(AffineJointTransmission.linear(3, (0,), (1.0,))),
            TransmissionActuator(tendon, DisplacementControl(2e3, 5.0), labels=["a", "b"]),
            IdentityActuator(3),
        ),
        passive_elements=(springs, Quartic(jnp.array(0.7)), TransmissionImpedance(tendon, 10.0)),
    )


Q, QD = jnp.array([0.3, -0.2, 0.1]), jnp.array([0.5, 0.4, -0.3])
U = jnp.array([1.0, 2.0, -0.01, 0.02, 0.1, 0.2, 0.3])


@eqx.filter_jit
def evaluate(robot, q, u, qd):
    """Every sum, and the parts it should consist of, in one program."""
    y, yd = jax.jvp(lambda q: loads.load_coordinates(robot, q), (q,), (qd,))
    slices = loads.channel_slices(robot)
    return {
        "y": loads.actuator_coordinates(robot, q),
        "yd": loads.actuator_velocities(robot, q, qd),
        "A": loads.actuation_matrix(robot, q),
        "e": loads.actuator_efforts(robot, q, u, qd),
        "tau": loads.actuation_force(robot, q, u, qd),
        "tau at rest": loads.actuation_force(robot, q, u),
        "tau at zero velocity": loads.actuation_force(robot, q, u, jnp.zeros(3)),
        "tau without control": loads.actuation_force(robot, q, None),
        "tau at zero control": loads.actuation_force(robot, q, jnp.zeros(7)),
        "efforts": [
            actuator.efforts(robot, q, u[part], qd)
            for actuator, part in zip(robot.actuators, slices, strict=True)
        ],
        "forces": [
            actuator.force(robot, q, u[part], qd)
            for actuator, part in zip(robot.actuators, slices, strict=True)
        ],
        "coordinates": [actuator.coordinates(robot, q) for actuator in robot.actuators],
        "load y": y,
        "load e": loads.load_efforts(robot, y, yd, u),
        "load A": jax.jacrev(lambda q: loads.load_coordinates(robot, q))(q).T,
        "other": loads.other_force(robot, q, qd),
        "elastic": loads.passive_elastic_force(robot, q),
        "energy gradient": jax.grad(lambda q: loads.passive_elastic_energy(robot, q))(q),
        "damping": loads.passive_damping_force(robot, q, qd),
        "damping matrix": loads.passive_damping_matrix(robot, q, qd),
        "damping slope": jax.jacfwd(lambda v: loads.passive_damping_force(robot, q, v))(qd),
        "stiffness": jax.jacfwd(
            # taut, so that the clamped law responds
            lambda y: loads.load_efforts(robot, y, jnp.zeros_like(y), u.at[2:4].set(-1.0))
        )(y),
    }


@pytest.fixture(scope="module")
def result(robot) -> dict:
    return evaluate(robot, Q, U, QD)


def test_channels_come_in_the_order_of_the_actuators(robot, result):
    slices = (slice(0, 2), slice(2, 2), slice(2, 4), slice(4, 7))
    assert loads.channel_slices(robot) == slices
    assert loads.num_channels(robot) == 7
    y = result["coordinates"]
    np.testing.assert_array_equal(result["y"], np.concatenate([y[0], y[2], y[3]]))
    np.testing.assert_array_equal(result["e"], np.concatenate(result["efforts"]))
    expected = np.zeros((3, 7))
    expected[:, :2], expected[0, 2], expected[1, 3], expected[:, 4:] = (
        ROUTING.T,
        0.02,
        -0.01,
        np.eye(3),
    )
    np.testing.assert_allclose(result["A"], expected, rtol=1e-14)


def test_force_is_matrix_times_effort_and_conserves_power(result):
    np.testing.assert_allclose(result["tau"], result["A"] @ result["e"], rtol=1e-13)
    np.testing.assert_allclose(QD @ result["tau"], result["yd"] @ result["e"], rtol=1e-12)
    np.testing.assert_allclose(result["tau"], sum(result["forces"]), rtol=1e-13)
    np.testing.assert_array_equal(result["forces"][1], [0, 0, 0])  # nothing drives it


def test_without_velocity_or_control_both_are_zero(result):
    np.testing.assert_array_equal(result["tau at rest"], result["tau at zero velocity"])
    np.testing.assert_array_equal(result["tau without control"], result["tau at zero control"])


def test_a_robot_without_parts_has_zero_forces():
    bare = pendulum(actuators=())
    assert loads.actuator_coordinates(bare, Q).shape == (0,)
    assert loads.actuation_matrix(bare, Q).shape == (3, 0)
    np.testing.assert_array_equal(loads.actuation_force(bare, Q, None, QD), [0, 0, 0])
    np.testing.assert_array_equal(loads.passive_elastic_force(bare, Q), [0, 0, 0])
    assert loads.passive_elastic_energy(bare, Q) == 0
    assert loads.load_efforts(bare, jnp.zeros(0), jnp.zeros(0), None).shape == (0,)


def test_passive_forces_are_gradients(result):
    np.testing.assert_allclose(result["elastic"], result["energy gradient"], rtol=1e-13)
    springs, drag = ROUTING.T @ np.diag([1.5, 1.0]) @ ROUTING, np.diag(2 * np.abs(QD))
    np.testing.assert_allclose(result["damping matrix"], springs + drag, rtol=1e-13)
    np.testing.assert_allclose(result["damping matrix"], result["damping slope"], rtol=1e-13)


def test_loads_and_other_forces_add_up_to_everything(result):
    everything = result["tau"] - result["elastic"] - result["damping"]
    loads_and_others = result["load A"] @ result["load e"] + result["other"]
    np.testing.assert_allclose(loads_and_others, everything, rtol=1e-12)


def test_the_mask_marks_the_efforts_that_respond(robot, result):
    stiffness = np.asarray(result["stiffness"])
    assert loads.responsive_mask(robot) == tuple(bool(row.any()) for row in stiffness)
    np.testing.assert_array_equal(stiffness, np.diag(np.diagonal(stiffness)))


def test_element_of_an_outsider_can_be_updated(robot):
    element = robot.passive_elements[1]
    stiffer = element.update_params(stiffness=2.0)
    assert stiffer.energy(robot, jnp.ones(3)) == pytest.approx(1.5)
    assert eqx.tree_equal(stiffer.with_params(element.params), element)
    with pytest.raises(ValueError, match="`Quartic` has no parameter `mass`; it has: stiffness"):
        element.update_params(mass=1.0)


def test_an_energy_that_is_no_scalar_is_refused():
    class Vector(PassiveElement):
        stiffness: jax.Array

        def energy(self, robot, q):
            return q  # one energy for each coordinate

        def dissipation(self, robot, q, qd):
            return jnp.sum(qd)

    with pytest.raises(TypeError, match=r"Vector.energy` must return a scalar, got shape \(3,\)"):
        pendulum(passive_elements=(Vector(jnp.array(1.0)),))


def test_wrong_control_length_is_refused(robot):
    with pytest.raises(ValueError, match=r"`u` needs shape \(7,\), got \(6,\)"):
        eqx.filter_jit(loads.actuation_force)(robot, Q, U[:6], QD)
