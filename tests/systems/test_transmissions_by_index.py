"""Transmissions by index: with and without an actuator, and the state stored with them."""

import io

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.actuation import (
    AffineGeneralizedCoordinateActuator,
    AffineJointTransmission,
    DirectEffort,
    DisplacementControl,
    FirstOrderActivation,
    ForceControl,
    IdentityActuator,
    IdentityTransmission,
    LinearJoint,
    SpatialTendonTransmission,
    ThreadlikeActuator,
    ThreadlikeRouting,
    TransmissionActuator,
    Waypoint,
)
from soromox.simulation import RESULTS, SystemState
from soromox.systems import LinkSpec, PlanarPCS, SoftRobot
from tests.hosts import HOSTS, hand, pendulum, tendon_pendulum, umarm


Q, QD = jnp.array([[0.3, -0.2, 0.1], [0.5, 0.1, -0.4]])
GEAR = AffineJointTransmission.linear(3, (0, 2), (0.4, -0.3))


def geared(law=DirectEffort(), **options) -> SoftRobot:
    """A pendulum with identity actuation, and one gear driven by the law."""
    robot, index = pendulum().add_transmission(GEAR)
    assert index == 1
    return robot.attach_actuator(index, law, **options)


def test_a_bare_transmission_is_queried_and_does_nothing():
    tendon = SpatialTendonTransmission(
        [Waypoint(-1, [-0.05, 0.06, 0.0]), Waypoint(1, [0.1, 0.05, 0.0]), LinearJoint(2, 0.01)]
    )
    first = pendulum()
    robot, index = first.add_transmission(tendon)
    robot, other = robot.add_transmission(GEAR)
    assert (index, other, len(first.actuators), robot.num_actuators) == (1, 2, 1, 3)
    y = robot.transmission_displacement(index, Q)
    assert y.shape == ()
    np.testing.assert_allclose(y, tendon.coordinates(robot, Q)[0], rtol=1e-14)
    slope = jax.jacfwd(lambda q: robot.transmission_displacement(index, q))(Q)
    np.testing.assert_allclose(
        robot.transmission_displacement_jacobian(index, Q), slope, rtol=1e-12
    )
    u = jnp.array([0.1, 0.2, 0.3])
    np.testing.assert_array_equal(robot.actuation_force(Q, u), first.actuation_force(Q, u))
    # the entries of the constructor come first, and one with several coordinates gives all
    np.testing.assert_array_equal(robot.transmission_displacement(0, Q), Q)
    np.testing.assert_array_equal(robot.transmission_displacement_jacobian(0, Q), np.eye(3))


@pytest.mark.parametrize("name", ["hand", "floating_planar_pcs", "hybrid_gvs"])
def test_every_host_takes_transmissions(name):
    host = HOSTS[name]()
    robot, index = host.add_transmission(IdentityTransmission())
    robot = robot.attach_actuator(index, DisplacementControl(10.0), units="rad", kind="servo")
    n = host.num_internal_dofs
    assert robot.num_actuators == host.num_actuators + n
    assert robot.actuator_input_labels[-1] == f"servo_effort_{n - 1}"
    assert robot.num_transmission_actuator_state_variables(index) == n


def test_an_actuator_is_attached_at_its_place_and_replaced():
    bare, index = pendulum(actuators=()).add_transmission(GEAR)
    bare, second = bare.add_transmission(IdentityTransmission())
    robot = bare.attach_actuator(second, DirectEffort())
    robot = robot.attach_actuator(index, ForceControl(), labels=["pull"], bounds=(0, 5), command=2)
    assert bare.num_actuators == 0
    assert robot.actuator_input_labels[0] == "pull"
    assert robot.num_actuators == 4
    np.testing.assert_array_equal(robot.actuators[0].upper_bounds, [5])
    np.testing.assert_array_equal(robot.transmission_actuator_state_variables(index), [2])
    stiff = robot.attach_actuator(index, DisplacementControl(100.0))
    np.testing.assert_array_equal(stiff.transmission_actuator_state_variables(index), [0])
    load = stiff.actuator_loads(Q, np.zeros(4))[0]
    np.testing.assert_allclose(load, 100 * stiff.transmission_displacement(index, Q), rtol=1e-14)


def kept_actuators() -> dict[str, tuple[SoftRobot, int]]:
    link = LinkSpec.circular(
        length=0.1, radius=0.01, density=1000.0, young_modulus=1e5, poisson_ratio=0.5
    )
    paths = ThreadlikeRouting.linear([[0, 0.008, 0], [0, -0.008, 0]])
    rod = PlanarPCS.from_links([link], actuators=ThreadlikeActuator.tendons(paths))
    affine = AffineGeneralizedCoordinateActuator.from_routing([[0.1, 0.0, -0.3]])
    return {
        "threadlike": (rod, 0),
        "muscles": (umarm(), 0),
        "affine": (pendulum(actuators=(IdentityActuator(3), affine)), 1),
        "tendons": (tendon_pendulum(), 0),
        "identity": (pendulum(), 0),
    }


@pytest.mark.parametrize("name", kept_actuators())
def test_an_actuator_keeps_its_class_under_another_law(name):
    robot, index = kept_actuators()[name]
    old = robot.actuators[index]
    law = FirstOrderActivation(DisplacementControl(50.0), 0.1)
    changed = robot.attach_actuator(index, law, command=0.2, bounds=(-1, 1))
    new = changed.actuators[index]
    assert type(new) is type(old)
    assert eqx.tree_equal(new.transmission, old.transmission)
    assert (new.labels, new.units, new.kind) == (old.labels, old.units, old.kind)
    assert eqx.tree_equal(new.effort_model, law)
    np.testing.assert_array_equal(new.command, np.full(old.num_channels, 0.2))
    np.testing.assert_array_equal(new.states, np.zeros((1, old.num_channels)))
    np.testing.assert_array_equal(new.lower_bounds, np.full(old.num_channels, -1))
    assert changed.num_actuators == robot.num_actuators
    plain = robot.attach_actuator(index, law, kind="servo").actuators[index]
    assert isinstance(plain, TransmissionActuator)
    assert plain.labels[0] == "servo_effort_0"


def test_queries_of_geometry_survive_another_law():
    robot, index = kept_actuators()["threadlike"]
    robot = robot.attach_actuator(index, DisplacementControl(50.0))
    lengths = robot.actuators[index].path_lengths(robot, jnp.array([4.0, 0.0, 0.0]))
    np.testing.assert_allclose(lengths, 0.1 * np.array([1 - 0.032, 1 + 0.032]), rtol=1e-12)


def test_the_stored_command_holds_where_none_is_given():
    robot = geared(command=0.7)
    stored, given, in_state = np.eye(4)[3] * np.array([[0.7], [0.2], [0.4]])
    np.testing.assert_allclose(
        robot.actuation_force(Q, None), robot.actuation_force(Q, stored), rtol=1e-14
    )
    np.testing.assert_allclose(
        robot.forward_acceleration(Q, QD), robot.forward_acceleration(Q, QD, stored), rtol=1e-14
    )
    y = jnp.concatenate([Q, QD])
    step = lambda u, state_u: robot.implicit_step(SystemState(0.0, y, state_u), u, dt=0.01).y
    np.testing.assert_array_equal(step(None, None), step(stored, None))
    np.testing.assert_array_equal(step(None, in_state), step(in_state, None))
    np.testing.assert_array_equal(step(given, in_state), step(given, None))
    assert not np.array_equal(step(given, None), step(in_state, None))
    motion = robot.rollout_to(SystemState(0.0, y), dt=0.01, num_steps=2)
    # two programs, whose sums may round differently
    np.testing.assert_allclose(motion.y[1], step(stored, None), rtol=1e-14)
    np.testing.assert_array_equal(motion.u, np.stack([stored] * 3))


def test_the_stored_state_is_part_of_the_robot():
    robot = geared(DisplacementControl(50.0), command=0.1)
    moved = robot.with_transmission_actuator_state_variables(1, [0.3])
    np.testing.assert_array_equal(robot.transmission_actuator_state_variables(1), [0.1])
    np.testing.assert_array_equal(moved.transmission_actuator_state_variables(1), [0.3])
    # numbers can be updated, the command stays
    law = moved.actuators[1].params.effort_model.replace(stiffness=60.0)
    updated = moved.update_actuator_params(1, effort_model=law)
    np.testing.assert_array_equal(updated.transmission_actuator_state_variables(1), [0.3])
    file = io.BytesIO()
    eqx.tree_serialise_leaves(file, moved)
    file.seek(0)
    assert eqx.tree_equal(eqx.tree_deserialise_leaves(file, robot), moved)

    def speed(command):
        robot = moved.with_transmission_actuator_state_variables(1, command)
        return robot.forward_acceleration(Q, QD)[0]

    slope = jax.jit(jax.grad(speed))(jnp.array([0.3]))
    by_robot = eqx.filter_jit(eqx.filter_grad(lambda r: r.forward_acceleration(Q, QD)[0]))(moved)
    np.testing.assert_allclose(by_robot.actuators[1].state_variables, slope, rtol=1e-12)
    ends = [speed(jnp.array([0.3 + x])) for x in (1e-6, -1e-6)]
    np.testing.assert_allclose(slope[0], (ends[0] - ends[1]) / 2e-6, rtol=1e-6)


def test_a_refused_command_raises_where_it_has_a_value():
    robot = geared(ForceControl(), command=1.0)
    state = SystemState(0.0, np.zeros(6))
    bad = jnp.array([0.0, 0.0, 0.0, -1.0])
    calls = (
        lambda: robot.actuation_force(Q, bad),
        lambda: robot.actuator_efforts(Q, [0, 0, 0, np.nan], QD),
        lambda: robot.actuator_loads(Q, bad),
        lambda: robot.forward_acceleration(Q, QD, bad),
        lambda: robot.forward_dynamics(0.0, np.zeros(6), bad),
        lambda: robot.with_transmission_actuator_state_variables(1, [-1.0]),
        lambda: geared(ForceControl(), command=-1.0),
    )
    for call in calls:
        with pytest.raises(ValueError, match="must be finite and must not be negative"):
            call()
    with pytest.raises(ValueError, match="`values` must be finite"):
        robot.with_transmission_actuator_state_variables(1, [np.inf])
    np.testing.assert_array_equal(robot.transmission_actuator_state_variables(1), [1.0])
    assert robot.implicit_step(state, bad, dt=0.01).result == RESULTS.rejected_command
    with pytest.raises(Exception, match="must not be negative"):
        jax.jit(lambda u: robot.actuation_force(Q, u))(bad).block_until_ready()
    pushing = robot.attach_actuator(1, ForceControl(allow_compressive_force=True), command=-1.0)
    assert np.all(np.isfinite(pushing.actuation_force(Q, bad)))


def test_an_index_is_any_integer():
    robot, index = pendulum().add_transmission(GEAR)
    y = robot.transmission_displacement(index, Q)
    assert robot.transmission_displacement(np.int64(index), Q) == y
    rows = robot.transmission_displacement_jacobian(np.int64(index), Q)
    np.testing.assert_array_equal(rows, robot.transmission_displacement_jacobian(index, Q))
    for wrong in (1.0, "1", True):
        with pytest.raises(TypeError, match="index"):
            robot.transmission_displacement(wrong, Q)


def test_what_is_refused():
    bare, index = pendulum().add_transmission(GEAR)
    driven = bare.attach_actuator(index, DirectEffort())
    for i in (-1, 2):
        with pytest.raises(IndexError, match=rf"has 2 transmissions, 0 \.\.\. 1, got index {i}"):
            bare.transmission_displacement(i, Q)
        with pytest.raises(IndexError, match="transmissions"):
            bare.attach_actuator(i, DirectEffort())
    for call in (
        lambda: bare.num_transmission_actuator_state_variables(index),
        lambda: bare.transmission_actuator_state_variables(index),
        lambda: bare.with_transmission_actuator_state_variables(index, [0.0]),
    ):
        with pytest.raises(ValueError, match="Transmission 1 has no actuator"):
            call()
    for values in ([], [1.0, 2.0], 1.0):
        with pytest.raises(ValueError, match=r"`values` needs shape \(1,\)"):
            driven.with_transmission_actuator_state_variables(index, values)
    with pytest.raises(ValueError, match="one label"):
        bare.attach_actuator(index, DirectEffort(), labels=["a", "b"])
    with pytest.raises(ValueError, match="internal dofs"):
        hand().add_transmission(AffineJointTransmission.linear(7, (0,), (1.0,)))
