import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.actuation import (
    CapstanFriction,
    DisplacementControl,
    ForceControl,
    IdentityActuator,
    SaturatedControl,
    ThreadlikeActuator,
    ThreadlikeRouting,
    TransmissionActuator,
)
from soromox.simulation import (
    RESULTS,
    BackwardEuler,
    SystemState,
    linearize,
    linearize_step,
    natural_modes,
    static_equilibrium,
)
from soromox.systems import (
    LinkSpec,
    Pendulum,
    PendulumParams,
    PlanarPCS,
    PlanarPCSStructure,
    base_poses,
)
from tests.simulation.linear_robots import INERTIA, oscillator, system_matrix


WEIGHT = 2.0 * 9.81 * 0.3  # m g l of the column below [N m]


def column(stiffness):
    """An upright rod on a hinge with a spring: buckles where `stiffness < m g l`."""
    params = PendulumParams(
        mass=np.array([2.0]),
        moment_inertia=np.array([0.05]),
        length=np.array([0.5]),
        center_of_mass_length=np.array([0.3]),
        joint_stiffness=np.full(1, stiffness),
    )
    return Pendulum(params)


def solve(stiffness, u, q0=0.0, steps=5):
    robot = column(1.0).update_params(joint_stiffness=jnp.reshape(stiffness, (1,)))
    return static_equilibrium(robot, jnp.reshape(u, (1,)), q0=jnp.reshape(q0, (1,)), steps=steps)


def test_equilibrium_and_its_derivatives_in_a_batch():
    stiffness, u = jnp.array([8.0, 7.0, 20.0]), jnp.array([0.5, -0.3, 1.5])

    def first(stiffness, u):
        found = solve(stiffness, u)
        return found.q[0], found

    derivative = jax.vmap(jax.value_and_grad(first, argnums=(0, 1), has_aux=True))
    (_, found), by_number = jax.jit(derivative)(stiffness, u)
    q = found.q[:, 0]
    assert np.all(found.result == RESULTS.successful)
    np.testing.assert_allclose(stiffness * q - WEIGHT * np.sin(q), u, atol=1e-13)
    tangent = stiffness - WEIGHT * np.cos(q)
    np.testing.assert_allclose(found.smallest_stiffness, tangent, rtol=1e-12)
    np.testing.assert_allclose(by_number[1], 1 / tangent, rtol=1e-11)
    np.testing.assert_allclose(by_number[0], -q / tangent, rtol=1e-11)


def test_a_rod_that_sags_stays_on_its_branch():
    """However many parts its weight comes in; with few, Newton's method would find coils."""
    link = LinkSpec.circular(
        length=0.4 / 3, radius=0.01, density=1000.0, young_modulus=1e5, poisson_ratio=0.4
    )
    bending = PlanarPCSStructure(5, [1, 0, 0])
    robot = PlanarPCS.from_links([link] * 3, structure=bending, base_pose=np.zeros(3), actuators=())
    coarse, fine = (robot.static_equilibrium(steps=steps) for steps in (2, 40))
    assert coarse.result == fine.result == RESULTS.successful
    np.testing.assert_allclose(coarse.q, fine.q, rtol=1e-9)
    assert -np.pi < robot.forward_kinematics(fine.q, robot.length)[0] < 0


@pytest.mark.parametrize("young_modulus", [1e4, 1e6])
def test_a_stiff_cable_on_a_soft_rod_has_one_equilibrium(young_modulus):
    """Its target grows from the length at rest: however many parts, and from afar, q is the same."""
    link = LinkSpec.circular(
        length=0.1, radius=0.01, density=1000.0, young_modulus=young_modulus, poisson_ratio=0.45
    )
    cable = ThreadlikeActuator.tendons(ThreadlikeRouting.linear([[0, 0.008, 0]])).transmission
    robot = PlanarPCS.from_links(
        [link, link],
        base_pose=base_poses.hanging(planar=True),
        actuators=TransmissionActuator(cable, DisplacementControl(1e9), labels=("cable",)),
    )
    found = [robot.static_equilibrium([0.195], steps=steps) for steps in (1, 5)]
    for equilibrium in found:
        assert equilibrium.result == RESULTS.successful
        y = robot.transmission_displacement(0, equilibrium.q)
        tension = robot.actuator_loads(equilibrium.q, [0.195])[0]
        assert tension > 0
        np.testing.assert_allclose(-y, 0.195 + tension / 1e9, rtol=1e-14)
    np.testing.assert_allclose(found[0].q, found[1].q, rtol=1e-8)
    for law in (
        SaturatedControl(DisplacementControl(1e9), 0.0, 1.0),
        CapstanFriction(DisplacementControl(1e9), 0.1, 1.0),
    ):
        wrapped = robot.attach_actuator(0, law).static_equilibrium([0.195], steps=5)
        np.testing.assert_allclose(wrapped.q, found[0].q, rtol=1e-8)


def test_a_robot_without_stiffness_is_neutral():
    """Anywhere without load; under load it has no equilibrium."""
    robot = column(0.0).update_params(gravity=jnp.zeros(2))
    found = robot.static_equilibrium([0.0], q0=[0.3])
    assert found.result == RESULTS.successful
    assert found.q[0] == 0.3
    assert found.smallest_stiffness == 0
    assert robot.static_equilibrium([1.0]).result == RESULTS.non_finite


def test_a_column_that_buckles_is_reported():
    upright = solve(3.0, 0.0)
    assert upright.result == RESULTS.unstable
    assert not upright.is_stable
    np.testing.assert_allclose(upright.q, 0, atol=1e-14)
    np.testing.assert_allclose(upright.smallest_stiffness, 3.0 - WEIGHT)
    buckled = solve(3.0, 0.0, q0=1.5)
    assert buckled.result == RESULTS.successful
    q = buckled.q[0]
    assert q > 0.5
    np.testing.assert_allclose(3.0 * q, WEIGHT * np.sin(q), rtol=1e-13)


def test_bad_loads_end_in_their_codes_without_disturbing_others():
    found = jax.vmap(solve)(jnp.array([8.0, 8.0]), jnp.array([jnp.nan, 0.5]))
    assert found.result[0] != RESULTS.successful
    assert found.result[1] == RESULTS.successful
    np.testing.assert_allclose(found.q[1], solve(8.0, 0.5).q, rtol=1e-14)


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match=r"`q0` needs shape \(1,\)"):
        static_equilibrium(column(1.0), q0=[0.0, 1.0])
    with pytest.raises(ValueError, match="`steps`"):
        static_equilibrium(column(1.0), steps=0)


def test_linear_models_of_a_linear_robot_are_its_matrices():
    robot = oscillator()
    A, B = linearize(robot, [0.3], [-0.2], [0.1])
    np.testing.assert_allclose(A, system_matrix(), atol=1e-14)
    np.testing.assert_allclose(B, [[0.0], [1 / INERTIA]], atol=1e-14)
    state = SystemState(t=0.0, y=[0.3, -0.2])
    A_d, B_d = linearize_step(robot, state, [0.1], dt=0.1, scheme=BackwardEuler())
    inverse = np.linalg.inv(np.eye(2) - 0.1 * system_matrix())
    np.testing.assert_allclose(A_d, inverse, atol=1e-13)
    np.testing.assert_allclose(B_d, 0.1 * inverse @ B, atol=1e-13)


def test_a_linear_model_of_what_is_no_step_is_refused():
    robot = oscillator(actuators=IdentityActuator(1, ForceControl()))
    state = SystemState(t=0.0, y=[0.3, -0.2])
    with pytest.raises(RuntimeError, match="rejected_command"):
        linearize_step(robot, state, [-1.0], dt=0.1)
    with pytest.raises(ValueError, match="must not be negative"):
        linearize(robot, [0.3], [-0.2], [-1.0])
    with pytest.raises(ValueError, match="`q` must be finite"):
        natural_modes(robot, [np.nan], [1.0])
    model = eqx.filter_jit(lambda u, dt: linearize_step(robot, state, u, dt=dt))
    expected = linearize_step(robot, state, [1.0], dt=0.1)[0]
    np.testing.assert_allclose(model(jnp.ones(1), 0.1)[0], expected, rtol=1e-12)
    for u, dt in ((-1.0, 0.1), (1.0, -0.1)):
        with pytest.raises(Exception, match="step to linearize failed"):
            jax.block_until_ready(model(jnp.full(1, u), jnp.asarray(dt)))
    traced = eqx.filter_jit(lambda u: linearize(robot, [0.3], [-0.2], u))
    with pytest.raises(Exception, match="must not be negative"):
        jax.block_until_ready(traced(jnp.full(1, -1.0)))


def test_modes_of_a_hanging_double_pendulum():
    """Point masses m on strings l: `w^2 = (2 -+ sqrt 2) g / l`."""
    length = np.full(2, 0.7)
    params = PendulumParams(np.ones(2), np.zeros(2), length, length)
    robot = Pendulum(params, base_pose=np.array([-np.pi / 2, 0, 0]))
    modes = natural_modes(robot, np.zeros(2))
    expected = np.sqrt((2 + np.array([-1, 1]) * np.sqrt(2)) * 9.81 / 0.7)
    np.testing.assert_allclose(modes.frequencies, expected, rtol=1e-12)
    M = robot.inertia_matrix(np.zeros(2))
    np.testing.assert_allclose(modes.shapes.T @ M @ modes.shapes, np.eye(2), atol=1e-12)
    assert natural_modes(column(1.0), [0.0]).frequencies[0] < 0


def test_a_failed_search_raises_on_request():
    with pytest.raises(RuntimeError, match=r"unstable.*negative eigenvalue"):
        static_equilibrium(column(1.0), throw=True)
