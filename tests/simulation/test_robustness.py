import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.actuation import (
    AffineGeneralizedCoordinateTransmission,
    DisplacementControl,
    EffortModel,
    ForceControl,
    IdentityTransmission,
    PassiveElement,
    Transmission,
    TransmissionActuator,
)
from soromox.simulation import RESULTS, SystemState
from soromox.systems import Pendulum, PendulumParams
from tests.simulation.linear_robots import INERTIA, oscillator
from tests.simulation.test_schemes import spatial_tendon_chain


class DryFriction(EffortModel):
    """`e = -strength sign(y)`: at a kick through zero the implicit equation has no solution."""

    strength: jax.Array

    def effort(self, control, coordinate, velocity):
        return control - self.strength * jnp.where(coordinate > 0, 1.0, -1.0)


def test_one_failing_robot_leaves_the_others_alone():
    law = DryFriction(jnp.array(5.0))
    robot = oscillator(actuators=TransmissionActuator(IdentityTransmission(), law))

    def final(strength, u):
        lane = eqx.tree_at(lambda r: r.actuators[0].effort_model.strength, robot, strength)
        motion = lane.rollout_to(SystemState(t=0.0, y=[0.01, 0.0]), u, num_steps=10, dt=0.05)
        return motion.y, motion.result, motion.residual

    strengths = jnp.array([0.0, 5.0, 0.0])
    y, result, _ = jax.jit(jax.vmap(final, (0, None)))(strengths, jnp.array([0.2]))
    expected = [RESULTS.successful, RESULTS.not_converged, RESULTS.successful]
    np.testing.assert_array_equal(result[:, -1], expected)
    np.testing.assert_array_equal(y[0], y[2])
    assert not np.array_equal(y[0, -1], y[0, 0])
    # the robot that failed keeps its last good state
    failed = int(np.argmax(result[1] != RESULTS.successful))
    assert failed > 0
    np.testing.assert_array_equal(
        y[1, failed:], np.broadcast_to(y[1, failed - 1], y[1, failed:].shape)
    )


def test_gradient_of_a_batch_with_a_failing_robot_is_that_of_the_others():
    law = DryFriction(jnp.array(5.0))
    robot = oscillator(actuators=TransmissionActuator(IdentityTransmission(), law))

    def final(strength, u):
        lane = eqx.tree_at(lambda r: r.actuators[0].effort_model.strength, robot, strength)
        start = SystemState(t=0.0, y=[1e-3, 0.0])
        return lane.implicit_step(start, u[None], dt=0.05).y[1]

    total = lambda u: jnp.sum(jax.vmap(final, (0, None))(jnp.array([0.0, 5.0, 0.0]), u))
    expected = 2 * 0.05 / (INERTIA + 0.05 * 0.3 + 0.05**2 * 4.0)
    np.testing.assert_allclose(jax.jit(jax.grad(total))(jnp.array(0.2)), expected, rtol=1e-12)


def cable(stiffness, damping=0.0, allow_compressive_force=False):
    routing = AffineGeneralizedCoordinateTransmission.linear(1, (0,), (1.0,))
    law = DisplacementControl(stiffness, damping, allow_compressive_force)
    return oscillator(stiffness=0.0, damping=0.0, actuators=TransmissionActuator(routing, law))


def test_step_across_slack_and_taut_has_the_closed_form():
    """`0.5 qdd = -k max(0, q - u)`, in both directions, and its derivative."""
    robot, dt = cable(1.0), 0.01

    def step(stiffness, y0):
        set_to = lambda r: r.actuators[0].effort_model.stiffness
        stiff = eqx.tree_at(set_to, robot, jnp.broadcast_to(stiffness, set_to(robot).shape))
        new = stiff.implicit_step(SystemState(t=0.0, y=y0), jnp.array([0.0]), dt=dt)
        return new.y, new

    def exact(stiffness, y0):
        q_slack = y0[0] + dt * y0[1]
        qd = (y0[1] - dt * stiffness * y0[0] / INERTIA) / (1 + dt**2 * stiffness / INERTIA)
        qd = jnp.where(q_slack > 0, qd, y0[1])
        return jnp.stack([y0[0] + dt * qd, qd])

    # slack to taut, taut to slack by speed, slack throughout, taut throughout; soft and stiff
    starts = jnp.array([[-1e-3, 1.0], [1e-3, -200.0], [-1e-3, 0.05], [1e-3, 1.0]] * 2)
    stiffness = jnp.array([1e2] * 4 + [1e9] * 4)
    both = jax.vmap(jax.jacfwd(step, argnums=1, has_aux=True))
    jacobian, new = jax.jit(both)(stiffness, starts)
    assert np.all(new.result == RESULTS.successful)
    scale = np.max(np.abs(starts), axis=1, keepdims=True)
    assert np.max(np.abs(new.y - jax.vmap(exact)(stiffness, starts)) / scale) < 1e-12
    expected = jax.vmap(jax.jacfwd(exact, argnums=1))(stiffness, starts)
    np.testing.assert_allclose(jacobian, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev], ids=["forward", "reverse"])
def test_stiff_cables_on_light_links_have_exact_derivatives(mode):
    """`I qdd + 0.3 qd + 4 q = -max(0, k (q - x) + c qd)`: slack and taut, `h^2 k / I` up to 1e12."""
    rng, count = np.random.default_rng(0), 400
    y0 = rng.normal(size=(count, 2)) * [0.01, 2.0]
    x = 0.01 * rng.normal(size=(count, 1))
    k, c, inertia, dt = (
        10.0 ** rng.uniform(*span, count) for span in ((0, 9), (-2, 6), (-6, 0), (-3, -1.3))
    )
    k[:40], c[:40] = 1e9, 0.01  # the stiffest, almost undamped
    line = AffineGeneralizedCoordinateTransmission.linear(1, (0,), (1.0,))
    robot = oscillator(actuators=TransmissionActuator(line, DisplacementControl(1.0, 1.0)))

    def step(y0, x, k, c, inertia, dt):
        law = DisplacementControl(k, c)
        body = robot.update_params(moment_inertia=inertia[None])
        new = body.update_actuator_params(0, effort_model=law).implicit_step(
            SystemState(0.0, y0), x, dt=dt
        )
        return new.y, (new.y, new.result)

    def exact(y0, x, k, c, inertia, dt):
        def velocity(k, c):
            pull = 4 * y0[0] + k * (y0[0] - x[0])
            return (inertia * y0[1] - dt * pull) / (inertia + dt * (0.3 + c) + dt**2 * (4 + k))

        v = velocity(0.0, 0.0)
        is_slack = k * (y0[0] + dt * v - x[0]) + c * v <= 0
        v = jnp.where(is_slack, v, velocity(k, c))
        return jnp.stack([y0[0] + dt * v, v])

    inputs, every = (y0, x, k, c, inertia, dt), tuple(range(6))
    found, (y, result) = jax.jit(jax.vmap(mode(step, argnums=every, has_aux=True)))(*inputs)
    assert np.all(result == RESULTS.successful)
    size = np.abs(y0[:, 1]) + np.abs(y0[:, 0] / dt)
    assert np.max(np.abs(y - jax.vmap(exact)(*inputs)) / size[:, None]) < 1e-12
    # those by numbers are multiples of q - x and qd, which are known to the rounding of their terms
    floors = (0, 0, *(size / number for number in (k, c, inertia, dt)))
    closed_forms = jax.vmap(jax.jacfwd(exact, every))(*inputs)
    for ours, closed, floor in zip(found, closed_forms, floors, strict=True):
        ours, closed = (np.reshape(a, (count, -1)) for a in (ours, closed))
        largest = np.max(np.abs(closed), axis=1)
        off = np.max(np.abs(ours - closed), axis=1)
        assert np.all(off <= 1e-9 * (largest + floor))


def test_stiff_and_damped_displacement_control_holds_its_target():
    robot = cable(1e9, damping=1e5, allow_compressive_force=True)
    for dt in (1e-3, 5e-2):
        state = robot.implicit_step(SystemState(t=0.0, y=[0.02, 3.0]), [0.02], dt=dt)
        assert state.result == RESULTS.successful
        force = (1e9 * (state.q - 0.02) + 1e5 * state.qd)[0]
        np.testing.assert_allclose(force, INERTIA * (3.0 - state.qd[0]) / dt, rtol=1e-6)


def test_start_at_the_solution_and_zero_motion():
    robot = oscillator()
    state = robot.implicit_step(SystemState(t=0.0, y=[0.0, 0.0]), dt=0.01)
    assert state.result == RESULTS.successful
    assert np.all(state.y == 0)
    held = robot.implicit_step(SystemState(t=0.0, y=[0.25, 0.0]), [1.0], dt=0.01)
    assert held.result == RESULTS.successful
    np.testing.assert_allclose(held.y, [0.25, 0.0], atol=1e-15)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_a_robot_without_a_state_leaves_gradients_of_the_others_alone(bad):
    """A zero cotangent must not meet the derivative of a step from NaN."""
    chain = spatial_tendon_chain()
    y0 = np.linspace(-0.3, 0.2, 2 * chain.num_dofs)

    def first(u, y):
        state = chain.implicit_step(SystemState(0.0, y), u, dt=0.01)
        return state.q[0], state.result

    def total(u, ys):
        q, result = jax.vmap(first, (None, 0))(u, ys)
        return jnp.sum(jnp.where(result == RESULTS.successful, q, 0)), result

    u = -0.01 * np.ones(chain.num_actuators)
    both = jax.jit(jax.grad(total, has_aux=True))
    gradient, result = both(u, np.stack([y0, np.full_like(y0, bad)]))
    np.testing.assert_array_equal(result, [RESULTS.successful, RESULTS.non_finite])
    twice, _ = both(u, np.stack([y0, y0]))
    np.testing.assert_allclose(gradient, twice / 2, rtol=1e-10)
    assert np.all(gradient != 0)


def test_refused_command_and_nan_end_in_their_codes():
    pull = TransmissionActuator(IdentityTransmission(), ForceControl())
    robot = oscillator(actuators=pull)
    start = SystemState(t=0.5, y=[0.3, 0.1])
    refused = robot.implicit_step(start, [-1.0], dt=0.01)
    assert refused.result == RESULTS.rejected_command
    assert refused.t == start.t
    np.testing.assert_array_equal(refused.y, start.y)
    lost = robot.implicit_step(SystemState(t=0.0, y=[np.nan, 0.0]), [1.0], dt=0.01)
    assert lost.result == RESULTS.non_finite
    u = np.array([[1.0], [1.0], [-1.0], [1.0]])
    with pytest.raises(RuntimeError, match=r"Step 3, after t = 0.52 s, failed \(rejected_command"):
        robot.rollout_to(start, u, t1=0.54, dt=0.01, throw=True)


def test_long_rollout_of_a_robot_without_actuators():
    start = SystemState(t=0.0, y=[0.01, 0.0])
    undriven = oscillator(actuators=()).rollout_to(start, num_steps=24, dt=0.05)
    driven = oscillator().rollout_to(start, num_steps=24, dt=0.05)
    np.testing.assert_array_equal(undriven.y, driven.y)


class Servo(EffortModel):
    def effort(self, control, coordinate, velocity):
        return 3 * (control - coordinate) - 2 * velocity


class Crossed(Transmission):
    orientation = "generic"

    def coordinates(self, robot, q):
        return jnp.stack([2 * q[0] ** 2 + q[1], q[2] * q[0]])


class Rubber(PassiveElement):
    def energy(self, robot, q):
        return jnp.sum(q**2)

    def dissipation(self, robot, q, qd):
        return 0.005 * jnp.sum(qd**2)


def test_strong_parts_of_an_outsider_on_a_light_finger_are_stepped():
    """Their stiffness and damping are far above those of the inertia, as in `h D > M`."""
    light = PendulumParams(
        mass=[0.03, 0.022, 0.015],
        moment_inertia=[5e-6, 2e-6, 1e-6],
        length=[0.045, 0.03, 0.025],
        center_of_mass_length=[0.022, 0.015, 0.012],
    )
    servo = TransmissionActuator(Crossed(), Servo(), labels=("a", "b"))
    robot = Pendulum(light, actuators=servo, passive_elements=Rubber())
    state = robot.implicit_step(SystemState(t=0.0, y=np.zeros(6)), [0.1, 0.2], dt=0.01)
    assert state.result == RESULTS.successful
