"""Laws with memory: their states step with the body, at the order of the scheme, and differentiate."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from soromox.actuation import (
    AffineGeneralizedCoordinateActuator,
    CapstanFriction,
    DirectEffort,
    EffortModel,
    FirstOrderActivation,
    ForceControl,
    HillMuscle,
    IdentityActuator,
    LinearJoint,
    PressureDynamics,
    SaturatedControl,
    SpatialTendonTransmission,
    StatefulLaw,
    TransmissionActuator,
)
from soromox.actuation.laws import accepts
from soromox.actuation.states import backward_euler
from soromox.simulation import (
    BDF2,
    DIRK33,
    RESULTS,
    BackwardEuler,
    SystemState,
    linearize_step,
)
from tests.hosts import pendulum
from tests.simulation.linear_robots import INERTIA, oscillator, system_matrix


TAU = 0.2
Y0 = np.array([0.3, -0.5])


def lagged(law=FirstOrderActivation(DirectEffort(), TAU)):
    """A linear system with three states."""
    return oscillator(actuators=IdentityActuator(1, law))


def full_matrix() -> np.ndarray:
    """L of `d[q, qd, a]/dt = L [q, qd, a] + [0, 0, u / tau]`."""
    full = np.zeros((3, 3))
    full[:2, :2] = system_matrix()
    full[1, 2] = 1 / INERTIA
    full[2, 2] = -1 / TAU
    return full


def test_a_backward_euler_step_is_that_of_the_whole_system():
    robot, dt, u = lagged(), 0.05, 0.8
    state = robot.implicit_step(SystemState(0.0, Y0, actuator_state=[0.1]), [u], dt=dt)
    start = np.array([*Y0, 0.1 + dt * u / TAU])
    expected = np.linalg.solve(np.eye(3) - dt * full_matrix(), start)
    assert state.result == RESULTS.successful
    np.testing.assert_allclose(state.y, expected[:2], rtol=1e-12)
    np.testing.assert_allclose(state.actuator_state, expected[2:], rtol=1e-12)


@pytest.mark.parametrize(("scheme", "order"), [(DIRK33(), 3), (BDF2(), 2)], ids=["DIRK33", "BDF2"])
def test_states_have_the_order_of_the_scheme(scheme, order):
    robot, u, T = lagged(), 0.8, 0.8
    L = full_matrix()
    fixed = -np.linalg.solve(L, [0, 0, u / TAU])
    exact = fixed + scipy.linalg.expm(T * L) @ (np.array([*Y0, 0.0]) - fixed)
    errors = []
    for steps in (32, 64):
        motion = robot.rollout_to(
            SystemState(0.0, Y0), [u], num_steps=steps, dt=T / steps, scheme=scheme
        )
        end = np.array([*motion.y[-1], motion.actuator_state[-1, 0]])
        errors.append(np.linalg.norm(end - exact))
    assert np.log2(errors[0] / errors[1]) > order - 0.2
    assert motion.actuator_state.shape == (65, 1)


@pytest.mark.slow
def test_gradients_of_a_motion_with_memory():
    def end(time_constants, first):
        robot = lagged(FirstOrderActivation(DirectEffort(), *time_constants))
        robot = robot.with_transmission_actuator_state_variables(0, jnp.stack([0.7, first]))
        return robot.rollout_to(SystemState(0.0, Y0), num_steps=4, dt=0.05).y[-1, 0]

    evaluate = jax.jit(jax.value_and_grad(end, argnums=(0, 1)))
    times, first = jnp.array([0.2, 0.3]), jnp.array(0.9)  # above the command: it falls
    by_times, by_first = evaluate(times, first)[1]
    step = 1e-5
    ends = [evaluate(times + np.array([0.0, x]), first)[0] for x in (step, -step)]
    np.testing.assert_allclose(
        by_times, [0, (ends[0] - ends[1]) / (2 * step)], rtol=1e-6, atol=1e-12
    )
    ends = [evaluate(times, first + x)[0] for x in (step, -step)]
    np.testing.assert_allclose(by_first, (ends[0] - ends[1]) / (2 * step), rtol=1e-6)


class Draining(StatefulLaw):
    """What an outsider writes: a tank that drains, `dz/dt = u - z |z|`."""

    law: EffortModel = DirectEffort()
    num_states = 1

    def state_derivative(self, state, control, coordinate, velocity):
        return control[None] - state * jnp.abs(state)

    def drive(self, state, control):
        return state[0]


def test_a_stage_of_a_nonlinear_law_is_exact_to_the_second_derivative():
    h = jnp.array(0.7)

    def ours(x):
        z, solved = backward_euler(Draining(), x[:1, None], h, x[1:], x[:1], x[:1])
        return z[0, 0], solved

    closed = lambda x: (jnp.sqrt(1 + 4 * h * (x[0] + h * x[1])) - 1) / (2 * h)
    x = jnp.array([0.4, 2.0])
    assert ours(x)[1]
    for derivative in (lambda f: f, jax.grad, jax.hessian):
        values = [jax.jit(derivative(f))(x) for f in (lambda x: ours(x)[0], closed)]
        np.testing.assert_allclose(*values, rtol=1e-12)


def test_states_are_stored_with_the_command_and_given_by_the_state():
    robot = lagged()
    assert robot.num_transmission_actuator_state_variables(0) == 2
    robot = robot.with_transmission_actuator_state_variables(0, [0.4, 0.9])
    # outside of steps they are held
    np.testing.assert_allclose(robot.actuation_force([0.0], None), [0.9])
    np.testing.assert_allclose(robot.forward_acceleration([0.0], [0.0]), [0.9 / INERTIA])
    step = lambda state: robot.implicit_step(state, dt=0.05)
    stored = step(SystemState(0.0, Y0))
    given = step(SystemState(0.0, Y0, [0.4], actuator_state=[0.9]))
    assert eqx.tree_equal(stored.y, given.y)
    assert 0.4 < stored.actuator_state[0] < 0.9
    with pytest.raises(ValueError, match=r"`actuator_state` needs shape \(1,\)"):
        step(SystemState(0.0, Y0, actuator_state=[0.1, 0.2]))
    refused = robot.implicit_step(SystemState(0.0, Y0), [np.nan], dt=0.05)
    assert refused.result == RESULTS.rejected_command
    np.testing.assert_array_equal(refused.actuator_state, [0.9])


def test_gas_in_a_chamber_is_conserved():
    """The amount of gas `(p + p_a) V` grows by the flow alone."""
    law = PressureDynamics(2e-9, 1e-9, dead_volume=1e-5)
    p, volume, rate = jnp.array([[5e4, 2e4]]), jnp.array([3e-5, 4e-5]), jnp.array([1e-5, -2e-5])
    for command, conductance in ((8e4, 2e-9), (0.0, 1e-9)):
        u = jnp.full(2, command)
        pd = law.state_derivative(p, u, volume, rate)
        atmosphere = 101325.0
        amount = pd * (1e-5 + volume)[None] + (p + atmosphere) * rate[None]
        inflow = atmosphere * conductance * (u[None] - p)
        np.testing.assert_allclose(amount, inflow, rtol=1e-12)
    # on a body: the volume is the angle here, and the step conserves the gas of a closed chamber
    closed = PressureDynamics(0.0, dead_volume=2.0, atmospheric_pressure=3.0)
    robot = oscillator(actuators=IdentityActuator(1, closed))
    start = SystemState(0.0, Y0, [0.0], actuator_state=[0.5])
    end = robot.rollout_to(start, num_steps=20, dt=0.01, scheme=DIRK33())
    amount = (end.actuator_state[:, 0] + 3) * (2 + end.q[:, 0])
    np.testing.assert_allclose(amount, amount[0], rtol=1e-7)


def test_hill_muscle_has_its_shape():
    muscle = HillMuscle(maximum_force=100.0, optimal_length=0.1)
    load = lambda a, l, v: muscle.load(
        *(jnp.array([x]) for x in (a, 0.1 * (l - 1), 0.1 * 10.0 * v))
    )[0]
    np.testing.assert_allclose(load(1.0, 1.0, 0.0), 100, rtol=1e-14)
    np.testing.assert_allclose(load(0.5, 1.0, 0.0), 50, rtol=1e-14)
    np.testing.assert_allclose(load(1.0, 1.0, -1.0), 0, atol=1e-12)
    np.testing.assert_allclose(load(1.0, 1.0, -2.0), 0, atol=1e-12)
    np.testing.assert_allclose(load(1.0, 1.0, 1e6), 140, rtol=1e-5)
    np.testing.assert_allclose(load(0.0, 1.6, 0.0), 100, rtol=1e-12)  # all passive
    slope = jax.vmap(jax.grad(muscle.force_velocity))(jnp.array([-1e-9, 0.0, 1e-9]))
    np.testing.assert_allclose(slope, 5.0, rtol=1e-7)
    assert not muscle.is_valid(jnp.array([1.1]))
    assert not muscle.is_valid(jnp.array([np.nan]))
    driven = FirstOrderActivation(muscle, 0.01, 0.04)
    robot = oscillator(actuators=IdentityActuator(1, driven))
    state = robot.implicit_step(SystemState(0.0, [0.0, 0.0]), [0.5], dt=0.001)
    np.testing.assert_allclose(state.actuator_state, [0.5 / 11], rtol=1e-10)
    assert state.qd[0] < 0  # it shortens the coordinate
    assert robot.implicit_step(state, [1.5], dt=0.001).result == RESULTS.rejected_command


def test_two_lags_in_series():
    """The second follows the first: a step in command is answered by 1 - (1 + t / tau) e^(-t / tau)."""
    law = FirstOrderActivation(FirstOrderActivation(DirectEffort(), TAU), TAU)
    robot = oscillator(actuators=IdentityActuator(1, law))
    start = SystemState(0.0, [0.0, 0.0])
    motion = robot.rollout_to(start, [1.0], t1=0.4, dt=0.002, scheme=DIRK33(), save_every=100)
    ratio = motion.t / TAU
    answers = np.stack([1 - np.exp(-ratio), 1 - (1 + ratio) * np.exp(-ratio)], axis=1)
    np.testing.assert_allclose(motion.actuator_state, answers, atol=1e-7)
    limited = SaturatedControl(law, -1.0, 0.5)
    end = robot.attach_actuator(0, limited).rollout_to(
        start, [7.0], t1=0.4, dt=0.002, scheme=DIRK33(), save_every=100
    )
    np.testing.assert_allclose(end.actuator_state, 0.5 * answers, atol=1e-7)


def test_saturation_asks_its_law_about_the_limited_command():
    robot = oscillator(actuators=IdentityActuator(1, SaturatedControl(ForceControl(), 0.0, 5.0)))
    for u, load in ((-3.1, 0.0), (2.0, 2.0), (9.7, 5.0)):
        np.testing.assert_allclose(robot.actuator_loads([0.0], [u]), [load], atol=1e-14)
    with pytest.raises(ValueError, match="finite"):
        robot.actuator_loads([0.0], [np.nan])


@pytest.mark.parametrize(
    ("u", "y", "code"),
    [
        (-2e5, 0.0, RESULTS.rejected_command),
        (1e3, -2.0, RESULTS.non_finite),
        (1e3, 0.0, RESULTS.successful),
    ],
)
def test_gas_needs_volume_and_no_vacuum(u, y, code):
    law = PressureDynamics(1e-9, dead_volume=1.0)
    robot = oscillator(actuators=IdentityActuator(1, law))
    assert robot.implicit_step(SystemState(0.0, [y, 0.0]), [u], dt=0.001).result == code


def test_gas_starts_above_vacuum():
    robot = oscillator(actuators=IdentityActuator(1, PressureDynamics(1e-9, dead_volume=1.0)))
    start = SystemState(0.0, [0.0, 0.0], actuator_state=[-2e5])
    assert robot.implicit_step(start, [0.0], dt=0.001).result == RESULTS.non_finite


@pytest.mark.parametrize(
    "law",
    [PressureDynamics(1e-9), FirstOrderActivation(PressureDynamics(1e-9), 0.1)],
    ids=["gas", "behind a lag"],
)
def test_gas_needs_a_volume_for_its_coordinate(law):
    cable = SpatialTendonTransmission([LinearJoint(0, 0.1)])
    with pytest.raises(ValueError, match=r"`PressureDynamics` is for .* generic, .* are length"):
        pendulum(actuators=TransmissionActuator(cable, law))


def test_equilibria_are_those_after_the_lag():
    """The states that last take part, and are given back as the start of a motion."""
    plain = oscillator(actuators=IdentityActuator(1, DirectEffort()))
    robot = lagged().with_transmission_actuator_state_variables(0, [0.0, 7.0])
    found = robot.static_equilibrium([0.8])
    expected = plain.static_equilibrium([0.8])
    np.testing.assert_allclose(found.q, expected.q, rtol=1e-14)
    np.testing.assert_allclose(found.actuator_state, [0.8], rtol=1e-14)
    assert expected.actuator_state is None
    slopes = [jax.jacfwd(lambda u, r=r: r.static_equilibrium(u).q)([0.8]) for r in (robot, plain)]
    np.testing.assert_allclose(*slopes, rtol=1e-12)
    still = SystemState(0.0, [*found.q, 0.0], actuator_state=found.actuator_state)
    step = robot.implicit_step(still, [0.8], dt=0.1)
    np.testing.assert_allclose(step.y, still.y, atol=1e-14)
    # a nonlinear law, from a state where it has no slope; and a closed valve, which holds its state
    draining = oscillator(actuators=IdentityActuator(1, Draining()))
    np.testing.assert_allclose(draining.static_equilibrium([4.0]).actuator_state, [2.0])
    valve = IdentityActuator(1, PressureDynamics(0.0, dead_volume=1.0))
    closed = oscillator(actuators=valve).with_transmission_actuator_state_variables(0, [0.0, 3.0])
    np.testing.assert_allclose(closed.static_equilibrium([4.0]).actuator_state, [3.0])


def test_linear_models_have_the_states_of_the_laws():
    robot = lagged().with_transmission_actuator_state_variables(0, [0.0, 0.4])
    A, B = robot.linearize(Y0[:1], Y0[1:], [0.8])
    np.testing.assert_allclose(A, full_matrix(), atol=1e-13)
    np.testing.assert_allclose(B, [[0], [0], [1 / TAU]], atol=1e-13)
    dt = 0.1
    A_d, B_d = linearize_step(robot, SystemState(0.0, Y0), [0.8], dt=dt)
    inverse = np.linalg.inv(np.eye(3) - dt * full_matrix())
    np.testing.assert_allclose(A_d, inverse, atol=1e-13)
    np.testing.assert_allclose(B_d, dt * inverse @ B, atol=1e-13)


def test_laws_with_and_without_states_stand_side_by_side():
    """Their states are told apart: a lag over two channels, none, a lag over a lag."""
    twice = FirstOrderActivation(FirstOrderActivation(DirectEffort(), 0.2), 0.1)
    routing = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, -1.0]])
    robot = pendulum(
        actuators=(
            AffineGeneralizedCoordinateActuator.from_routing(
                routing, effort_model=FirstOrderActivation(DirectEffort(), 0.3)
            ),
            IdentityActuator(3),
            AffineGeneralizedCoordinateActuator.from_routing(routing[:1], effort_model=twice),
        )
    )
    u = jnp.array([1.0, 2.0, 0.1, 0.2, 0.3, 4.0])
    found = robot.static_equilibrium(u, q0=np.full(3, 0.1))
    np.testing.assert_allclose(found.actuator_state, [1, 2, 4, 4])
    states = jnp.array([0.5, -0.5, 0.1, 0.3])
    state = SystemState(0.0, jnp.linspace(-0.2, 0.3, 6), actuator_state=states)
    step = robot.implicit_step(state, u, dt=0.1)
    ends = (states[:2] + u[:2] / 3) / (1 + 1 / 3)
    outer = (states[2] + u[5]) / 2
    inner = (states[3] + outer / 2) / 1.5
    np.testing.assert_allclose(step.actuator_state, [*ends, outer, inner], rtol=1e-12)
    A, B = robot.linearize(state.q, state.qd, u)
    assert (A.shape, B.shape) == ((10, 10), (10, 6))
    np.testing.assert_allclose(np.diag(A[6:, 6:]), [-1 / 0.3, -1 / 0.3, -10, -5])
    np.testing.assert_allclose(A[9, 8], 5)
    np.testing.assert_allclose(
        B[6:, [0, 1, 5]], [[1 / 0.3, 0, 0], [0, 1 / 0.3, 0], [0, 0, 10], [0, 0, 0]]
    )


@pytest.mark.parametrize("scheme", [BackwardEuler(), DIRK33()], ids=["BackwardEuler", "DIRK33"])
def test_a_lag_that_overshoots_what_its_law_accepts_fails(scheme):
    """In steps of ten lags DIRK33 swings beyond the command, where a cable would push."""
    robot = lagged(FirstOrderActivation(ForceControl(), 0.01))
    start = SystemState(0.0, Y0, actuator_state=[10.0])
    state = robot.implicit_step(start, [0.0], dt=0.1, scheme=scheme)
    if isinstance(scheme, BackwardEuler):
        assert state.result == RESULTS.successful
        np.testing.assert_allclose(state.actuator_state, [10 / 11], rtol=1e-12)
    else:
        assert state.result == RESULTS.rejected_command
        np.testing.assert_array_equal(state.actuator_state, [10.0])
    # a state at the edge of what is accepted, to rounding, is none of this kind
    muscle = lagged(FirstOrderActivation(HillMuscle(1.0, 1.0), 0.01))
    motion = muscle.rollout_to(
        SystemState(0.0, [0.0, 0.0], actuator_state=[0.9]), [1.0], num_steps=60, dt=0.01
    )
    assert np.all(motion.result == RESULTS.successful)
    np.testing.assert_allclose(motion.actuator_state[-1], 1, rtol=1e-12)
    with pytest.raises(ValueError, match=r"`values\[1:\]` commands what a law refuses"):
        robot.with_transmission_actuator_state_variables(0, [1.0, -5.0])
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
        muscle.with_transmission_actuator_state_variables(0, [1.0, 5.0])


@pytest.mark.parametrize("law", [None, 3.0, ForceControl])
def test_a_law_commands_a_law(law):
    for make in (
        lambda: FirstOrderActivation(law, 0.1),
        lambda: SaturatedControl(law, 0.0, 1.0),
        lambda: PressureDynamics(1e-9, law=law),
    ):
        with pytest.raises(TypeError, match="law"):
            make()


def test_saturation_and_friction():
    law = SaturatedControl(DirectEffort(), -1.0, 2.0)
    soft = SaturatedControl(DirectEffort(), -1.0, 2.0, softness=0.01)
    u = jnp.array([-5.0, 0.5, 7.0])
    zero = jnp.zeros(3)
    for limited in (law, soft):
        np.testing.assert_allclose(limited.effort(u, zero, zero), [-1, 0.5, 2], atol=1e-9)
    slope = lambda law: jax.grad(lambda u: jnp.sum(law.effort(u, zero, zero)))(u)
    np.testing.assert_array_equal(slope(law), [1, 1, 1])
    np.testing.assert_allclose(slope(soft), [0, 1, 0], atol=1e-9)
    robot = oscillator(actuators=IdentityActuator(1, law))
    np.testing.assert_allclose(robot.actuation_force([0.0], [7.0]), [2.0])

    cable = CapstanFriction(ForceControl(), 0.3, np.pi)
    pull = jnp.full(3, 10.0)
    loads = cable.load(pull, zero, jnp.array([-1.0, 0.0, 1.0]))
    np.testing.assert_allclose(loads, 10 * np.exp(0.3 * np.pi * np.array([-1, 0, 1])), rtol=1e-12)
    assert accepts(cable, pull)
    assert not accepts(cable, -pull)
    with pytest.raises(TypeError, match="RestoringLaw"):
        CapstanFriction(DirectEffort(), 0.3, 1.0)
