"""Steps and equilibria of rods that are soft or nearly rigid, held by cables that are too."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from soromox.actuation import (
    DisplacementControl,
    PassiveElement,
    ThreadlikeActuator,
    ThreadlikeRouting,
    ThreadlikeTransmission,
    TransmissionActuator,
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
from soromox.simulation.root import find_root
from soromox.simulation.stage import Stage
from soromox.simulation.stage_inverse import approximate
from soromox.systems import LinkSpec, PlanarPCS, PlanarPCSStructure, base_poses


RADIUS, LENGTH = 0.01, 0.2  # [m]
AREA, SECOND_MOMENT = np.pi * RADIUS**2, np.pi * RADIUS**4 / 4


def rod(segments=1, **keywords) -> PlanarPCS:
    link = LinkSpec.circular(
        length=LENGTH / segments,
        radius=RADIUS,
        density=1000.0,
        young_modulus=1e6,
        poisson_ratio=0.5,
        material_damping_coefficient=2e4,
    )
    return PlanarPCS.from_links([link] * segments, **keywords)


ONE_PATH = ThreadlikeRouting.linear([[0.0, 0.008, 0.0]], [[0.0, 0.0, 0.0]])


SCHEMES = [
    BackwardEuler(),
    BDF2(),
    BDF3(),
    DIRK22(),
    DIRK23(),
    DIRK33(),
    ImplicitMidpoint(),
    SymplecticDIRK22(),
]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: type(scheme).__name__)
def test_order_on_a_soft_arm(scheme):
    """A planar segment that a tendon bends, against an adaptive solver of high order."""
    robot = rod(
        actuators=ThreadlikeActuator.tendons(ONE_PATH), base_pose=base_poses.hanging(planar=True)
    ).update_link_params(young_modulus=3e4, material_damping_coefficient=500.0)
    u, t1 = jnp.array([0.1]), 0.1
    y0 = np.array([2.0, 0.0, 0.0, 5.0, 0.0, 0.0])
    rate = jax.jit(lambda t, y: robot.forward_dynamics(t, y, u))
    times = t1 * np.arange(1, 5) / 4  # one error alone may change its sign
    exact = solve_ivp(rate, (0, t1), y0, method="DOP853", rtol=1e-13, atol=1e-15, t_eval=times).y.T
    counts = np.array([256, 512, 1024])
    state = SystemState(t=0.0, y=y0)
    run = lambda dt: robot.rollout_to(state, u, num_steps=int(counts[-1]), dt=dt, scheme=scheme)
    runs = jax.jit(jax.vmap(run))(t1 / counts)
    assert np.all(runs.result == RESULTS.successful)
    scale = np.array([1, 0.1, 0.1, 100, 10, 10])  # of the entries of y
    places = [n * np.arange(1, 5) // 4 for n in counts]
    found = np.asarray(runs.y)
    errors = [np.linalg.norm((found[i, at] - exact) / scale) for i, at in enumerate(places)]
    slope = -np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert abs(slope - scheme.order) < 0.15, errors


@pytest.mark.slow
@pytest.mark.slow
def test_midpoint_keeps_the_energy_of_a_rod_over_many_steps():
    """A rod without damping that swings, bends and stretches: bounded, with no trend."""
    link = LinkSpec.circular(
        length=LENGTH, radius=RADIUS, density=1000.0, young_modulus=1e6, poisson_ratio=0.5
    )
    robot = PlanarPCS.from_links([link], base_pose=base_poses.hanging(planar=True))
    start = SystemState(t=0.0, y=np.array([6.0, 0.02, -0.01, 10.0, 0.0, 0.0]))

    @jax.jit
    def errors(dt):
        motion = robot.rollout_to(
            start, num_steps=10_000, dt=dt, save_every=10, scheme=ImplicitMidpoint()
        )
        energy = jax.vmap(robot.total_energy)(motion.q, motion.qd)
        return energy - energy[0], energy[0], jnp.max(motion.result)

    sizes = []
    for dt in (2e-4, 1e-4):
        error, energy, result = errors(dt)
        assert result == RESULTS.successful
        first, second = np.abs(error[1:501]), np.abs(error[501:])
        sizes.append(np.max(first))
        assert np.max(second) < 1.2 * np.max(first)
        np.testing.assert_allclose(np.mean(second), np.mean(first), rtol=0.2)
    assert sizes[0] < 1e-3 * abs(energy)
    assert 3.0 < sizes[0] / sizes[1] < 5.0


def test_steady_states_from_soft_to_stiff_do_not_depend_on_the_step():
    """Young's modulus over five decades, cables up to 1e9 N/m with damping, steps of 1 to 50 ms."""
    law = DisplacementControl(stiffness=1.0, damping=1.0)
    cable = TransmissionActuator(ThreadlikeTransmission(ONE_PATH), law)
    robot = rod(actuators=cable, base_pose=base_poses.hanging(planar=True))
    target = jnp.array([LENGTH - 2e-3])  # of the path's length [m]
    moduli, cables = jnp.array([1e6, 1e8, 1e11]), jnp.array([1e3, 1e9])
    lengths = jnp.array([1e-3, 1e-2, 5e-2])

    def settle(modulus, cable, dt):
        stiff = robot.update_link_params(
            young_modulus=modulus,
            shear_modulus=modulus / 3,
            material_damping_coefficient=0.02 * modulus,
        )
        numbers = lambda r: (
            r.actuators[0].effort_model.stiffness,
            r.actuators[0].effort_model.damping,
        )
        one = lambda x: jnp.broadcast_to(x, numbers(stiff)[0].shape)
        stiff = eqx.tree_at(numbers, stiff, (one(cable), one(1e-2 * cable)))
        start = SystemState(t=0.0, y=jnp.zeros(6))
        motion = stiff.rollout_to(start, target, num_steps=800, dt=dt, save_every=800)
        still = stiff.static_equilibrium(target, q0=motion.q[-1])
        loads = stiff.actuator_loads(motion.q[-1], target)
        y = stiff.actuator_coordinates(motion.q[-1])
        return motion.q[-1], motion.result[-1], still.q, still.result, loads, y

    over = lambda f, *axes: jax.vmap(f, in_axes=axes)
    grid = over(over(over(settle, None, None, 0), None, 0, None), 0, None, None)
    found = jax.jit(grid)(moduli, cables, lengths)
    q, result, still, still_result, loads, y = map(np.asarray, found)
    assert np.all(result == RESULTS.successful)
    assert np.all(still_result == RESULTS.successful)
    size = np.max(np.abs(still), axis=-1, keepdims=True)
    assert np.max(np.abs(still - still[:, :, :1]) / size) < 1e-8
    # after 8 and 40 s the motion has come to rest there; 0.8 s in steps of 1 ms are too short
    assert np.max((np.abs(q - still) / size)[:, :, 1:]) < 1e-8
    # the cable is short of its target by load / stiffness: nothing in the limit of a rigid one
    short = -y - np.asarray(target)
    np.testing.assert_allclose(loads, np.asarray(cables)[:, None, None] * short, rtol=1e-6)


def test_structured_step_equals_dense_newton():
    robot = rod(2, actuators=ThreadlikeActuator.tendons(ONE_PATH))
    n = robot.num_dofs
    q = jnp.linspace(0.1, 0.5, n) * jnp.tile(jnp.array([10.0, 0.1, 0.1]), 2)

    @jax.jit
    def both(q, v):
        stage = Stage(
            robot, robot.mechanics(), jnp.array(0.01), q, v, None, jnp.zeros(0), jnp.ones(1), None
        )
        inverse, measure = approximate(stage)
        structured, found = find_root(stage, jnp.zeros(n), measure, inverse)
        newton = lambda _, a: a - jnp.linalg.solve(jax.jacfwd(stage.value)(a), stage.value(a))
        dense = jax.lax.fori_loop(0, 12, newton, jnp.zeros(n))
        return stage.motion(structured), stage.motion(dense), found.code

    structured, dense, code = both(q, 5 * q)
    assert code == RESULTS.successful
    for a, b in zip(structured, dense, strict=True):
        assert np.max(np.abs(a - b)) < 1e-10 * np.max(np.abs(b))


class DeadLoad(PassiveElement):
    """A weight on the tip, whichever way the rod bends."""

    lift: jax.Array  # upwards [N]

    def energy(self, robot, q):
        return -self.lift * robot.forward_kinematics(q, robot.length)[2]

    def dissipation(self, robot, q, qd):
        return jnp.zeros(())


@pytest.mark.slow
def test_a_rod_buckles_under_the_load_of_euler():
    robot = rod(
        4,
        structure=PlanarPCSStructure(strain_selector=[True, False, False]),
        passive_elements=DeadLoad(jnp.array(0.0)),
        gravity=[0.0, 0.0],
    )
    critical = np.pi**2 * 1e6 * SECOND_MOMENT / (4 * LENGTH**2)

    def load(part):
        loaded = eqx.tree_at(lambda r: r.passive_elements[0].lift, robot, -part * critical)
        return loaded.static_equilibrium(q0=jnp.zeros(4))

    found = jax.jit(jax.vmap(load))(jnp.array([0.98, 1.04]))
    assert list(found.result) == [RESULTS.successful, RESULTS.unstable]
    np.testing.assert_allclose(found.q, 0, atol=1e-12)
    # the eigenvalue is linear in the load; arcs in place of a sine are stiffer by 1 / (12 N^2)
    a, b = found.smallest_stiffness
    zero = 0.98 + 0.06 * a / (a - b)
    np.testing.assert_allclose(zero, 1 + (np.pi / 2 / 4) ** 2 / 12, atol=3e-4)
