import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from soromox.actuation import (
    DisplacementControl,
    SpatialTendonTransmission,
    TransmissionActuator,
    TransmissionImpedance,
    Waypoint,
)
from soromox.simulation import (
    BDF2,
    BDF3,
    DIRK22,
    DIRK23,
    DIRK33,
    RESULTS,
    BackwardEuler,
    ImplicitMidpoint,
    SymplecticDIRK22,
    SystemState,
)
from soromox.systems import (
    ArticulatedSoftRobot,
    ArticulatedSoftRobotParams,
    Pendulum,
    PendulumParams,
)
from tests.simulation.linear_robots import oscillator, system_matrix


SCHEMES = [
    BackwardEuler(),
    ImplicitMidpoint(),
    DIRK22(),
    DIRK23(),
    DIRK33(),
    SymplecticDIRK22(),
    BDF2(),
    BDF3(),
]
name = lambda scheme: type(scheme).__name__


def stability_function(scheme, Z):
    """`R(dt L)` of a one-step scheme: rational functions from the literature, not from our tables."""
    one, inverse = np.eye(len(Z)), np.linalg.inv
    power = np.linalg.matrix_power
    match scheme:
        case BackwardEuler():
            return inverse(one - Z)
        case ImplicitMidpoint():
            return inverse(one - Z / 2) @ (one + Z / 2)
        case DIRK22():
            g = 1 - 1 / np.sqrt(2)
            return power(inverse(one - g * Z), 2) @ (one + (1 - 2 * g) * Z)
        case DIRK23():
            g = (3 + np.sqrt(3)) / 6
            top = one + (1 - 2 * g) * Z + (0.5 - 2 * g + g**2) * Z @ Z
            return power(inverse(one - g * Z), 2) @ top
        case DIRK33():
            g = 0.4358665215084590
            top = one + (1 - 3 * g) * Z + (0.5 - 3 * g + 3 * g**2) * Z @ Z
            return power(inverse(one - g * Z), 3) @ top
        case SymplecticDIRK22():
            return power(inverse(one - Z / 4) @ (one + Z / 4), 2)


def exact_steps(scheme, Z, y0, num_steps):
    ys = [y0]
    for _ in range(num_steps):
        match scheme:
            case BDF2() if len(ys) >= 2:
                new = np.linalg.solve(np.eye(2) - 2 / 3 * Z, 4 / 3 * ys[-1] - 1 / 3 * ys[-2])
            case BDF3() if len(ys) >= 3:
                past = 18 / 11 * ys[-1] - 9 / 11 * ys[-2] + 2 / 11 * ys[-3]
                new = np.linalg.solve(np.eye(2) - 6 / 11 * Z, past)
            case BDF2() | BDF3():
                new = stability_function(DIRK33(), Z) @ ys[-1]
            case _:
                new = stability_function(scheme, Z) @ ys[-1]
        ys.append(new)
    return np.array(ys)


@pytest.mark.parametrize("scheme", SCHEMES, ids=name)
def test_linear_oscillator_takes_the_closed_form_step(scheme):
    y0, dt = np.array([0.7, -1.1]), 0.13
    state = SystemState(t=0.0, y=y0)
    trajectory = oscillator().rollout_to(state, num_steps=6, dt=dt, scheme=scheme)
    expected = exact_steps(scheme, dt * system_matrix(), y0, 6)
    assert np.all(trajectory.result == RESULTS.successful)
    np.testing.assert_allclose(trajectory.y, expected, rtol=0, atol=1e-13)


def spatial_tendon_chain():
    """Two revolute joints in a plane, two tendons over corners, damping, displacement control."""
    params = ArticulatedSoftRobotParams(
        joint_screw=np.array([[0, 0, 1.0, 0, 0, 0]] * 2),
        tip_position=np.array([[0.1, 0, 0]] * 2),
        center_of_mass_position=np.array([[0.05, 0, 0]] * 2),
        mass=np.array([0.1, 0.08]),
        center_of_mass_inertia=1e-4 * np.tile(np.eye(3), (2, 1, 1)),
        joint_stiffness=np.array([0.02, 0.01]),
        joint_damping=np.array([2e-3, 1e-3]),
    )

    def tendon(side):
        points = [
            (-1, (-0.03, side, 0)),
            (0, (0.03, side, 0)),
            (0, (0.07, side, 0)),
            (1, (0.04, side, 0)),
        ]
        return SpatialTendonTransmission([Waypoint(link=i, point=p) for i, p in points])

    law = DisplacementControl(stiffness=30.0, damping=0.5, allow_compressive_force=True)
    return ArticulatedSoftRobot(
        params,
        actuators=TransmissionActuator(tendon(0.012), law),
        passive_elements=TransmissionImpedance(tendon(-0.015), stiffness=20.0, damping=0.3),
    )


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES, ids=name)
def test_order_on_a_chain_with_spatial_tendons_and_damping(scheme):
    robot = spatial_tendon_chain()
    y0, u, t1 = np.array([0.3, -0.2, 1.0, -2.0]), jnp.array([-0.004]), 0.2
    rate = jax.jit(lambda t, y: robot.forward_dynamics(t, y, u))
    exact = solve_ivp(rate, (0, t1), y0, method="DOP853", rtol=1e-11, atol=1e-12).y[:, -1]
    counts = np.array([32, 64, 128])
    state = SystemState(t=0.0, y=y0)

    def run(dt):
        return robot.rollout_to(state, u, num_steps=int(counts[-1]), dt=dt, scheme=scheme)

    runs = jax.jit(jax.vmap(run))(t1 / counts)
    assert np.all(runs.result == RESULTS.successful)
    errors = [np.linalg.norm(runs.y[i, count] - exact) for i, count in enumerate(counts)]
    slope = -np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert abs(slope - scheme.order) < 0.15, errors


@pytest.mark.slow
def test_difference_rate_is_of_first_order_in_higher_schemes():
    robot = spatial_tendon_chain()
    y0, u, t1 = np.array([0.3, -0.2, 1.0, -2.0]), jnp.array([-0.004]), 0.2
    fine = robot.rollout_to(
        SystemState(t=0.0, y=y0), u, t1=t1, dt=t1 / 4096, scheme=DIRK33(), save_every=4096
    ).y[-1]
    counts = np.array([64, 128])
    scheme = DIRK33(transmission_rate="difference")
    run = lambda dt: robot.rollout_to(
        SystemState(t=0.0, y=y0), u, num_steps=128, dt=dt, scheme=scheme
    )
    runs = jax.jit(jax.vmap(run))(t1 / counts)
    errors = [np.linalg.norm(runs.y[i, count] - fine) for i, count in enumerate(counts)]
    assert abs(np.log2(errors[0] / errors[1]) - 1) < 0.25


def swinging_chain():
    params = PendulumParams(
        mass=np.array([1.0, 0.7]),
        moment_inertia=np.array([0.02, 0.01]),
        length=np.array([0.5, 0.4]),
        center_of_mass_length=np.array([0.25, 0.2]),
        joint_stiffness=np.array([3.0, 1.0]),
    )
    return Pendulum(params, base_pose=np.array([-np.pi / 2, 0, 0]))


@pytest.mark.slow
def test_midpoint_energy_drift_is_bounded_and_of_second_order():
    robot = swinging_chain()
    state = SystemState(t=0.0, y=np.array([0.8, -0.5, 0.0, 1.0]))

    @jax.jit
    @jax.vmap
    def worst_drift(dt):
        motion = robot.rollout_to(state, num_steps=1000, dt=dt, scheme=ImplicitMidpoint())
        energy = jax.vmap(robot.total_energy)(motion.q, motion.qd)
        # both runs over the same 5 s; the first and second halves show whether it grows
        error = jnp.abs(energy - energy[0])
        return jnp.max(error[:500]), jnp.max(error), jnp.max(motion.result)

    half, whole, result = worst_drift(np.array([0.01, 0.005]))
    assert np.all(result == RESULTS.successful)
    assert np.all(whole < 1.2 * half)
    assert 3.5 < whole[0] / whole[1] < 4.5


def test_midpoint_keeps_the_energy_of_a_linear_oscillator():
    robot = oscillator(damping=0.0)
    state = SystemState(t=0.0, y=np.array([0.7, -1.1]))
    motion = robot.rollout_to(
        state, num_steps=10_000, dt=0.05, save_every=100, scheme=ImplicitMidpoint()
    )
    energy = 2.0 * motion.q[:, 0] ** 2 + 0.25 * motion.qd[:, 0] ** 2
    np.testing.assert_allclose(energy, energy[0], rtol=1e-11)


def test_multistep_restarts_after_a_change_of_step_length():
    robot, scheme, y = oscillator(), BDF2(), np.array([0.7, -1.1])
    state = SystemState(t=0.0, y=y)
    for dt in (0.1, 0.1, 0.03):
        state = robot.implicit_step(state, dt=dt, scheme=scheme)
    y2 = exact_steps(scheme, 0.1 * system_matrix(), y, 2)[-1]
    expected = stability_function(DIRK33(), 0.03 * system_matrix()) @ y2
    np.testing.assert_allclose(state.y, expected, rtol=0, atol=1e-13)


def test_unknown_rate_rule_is_refused():
    with pytest.raises(ValueError, match="transmission_rate"):
        DIRK33(transmission_rate="secant")
