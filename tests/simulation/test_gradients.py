import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.actuation import EffortModel, IdentityTransmission, TransmissionActuator
from soromox.simulation import RESULTS, BackwardEuler, ImplicitMidpoint, SystemState
from tests.simulation.linear_robots import INERTIA, oscillator
from tests.simulation.test_schemes import spatial_tendon_chain


def euler_motion(y0, u, stiffness, dt, num_steps):
    """Backward Euler for `INERTIA qdd + 0.3 qd + stiffness q = u`; accepts complex numbers."""
    L = np.array([[0.0, 1.0], [-stiffness / INERTIA, -0.3 / INERTIA]])
    b = np.array([0.0, u / INERTIA])
    step = np.linalg.inv(np.eye(2) - dt * L)
    y = y0
    for _ in range(num_steps):
        y = step @ (y + dt * b)
    return y


def final_state(y0, u, stiffness, dt, num_steps, save_every=None):
    robot = oscillator().update_params(joint_stiffness=stiffness[None])
    state = SystemState(t=0.0, y=y0)
    motion = robot.rollout_to(
        state, u[None], num_steps=num_steps, dt=dt, save_every=save_every or num_steps
    )
    return motion.y[-1]


POINT = (jnp.array([0.7, -1.1]), jnp.array(0.4), jnp.array(4.0), jnp.array(2e-3))
COTANGENT = np.array([1.3, 0.6])


def complex_step(num_steps):
    """Exact derivatives of `COTANGENT . y` with respect to each number of POINT."""
    derivatives = []
    for place in range(5):
        numbers = np.array([0.7, -1.1, 0.4, 4.0, 2e-3], dtype=complex)
        numbers[place] += 1e-30j
        y = euler_motion(numbers[:2], *numbers[2:], num_steps)
        derivatives.append((COTANGENT @ y).imag / 1e-30)
    return np.array(derivatives)


@pytest.mark.parametrize(
    ("num_steps", "save_every"),
    [
        pytest.param(10, 10, marks=pytest.mark.slow),
        pytest.param(997, 1, marks=pytest.mark.slow),  # prime: the last chunk is not full
        pytest.param(1994, 997, marks=pytest.mark.slow),
        (10_000, 10),
    ],
)
def test_gradient_of_a_linear_rollout_is_exact(num_steps, save_every):
    def value(*numbers):
        return COTANGENT @ final_state(*numbers, num_steps, save_every)

    gradient = jax.jit(jax.grad(value, argnums=(0, 1, 2, 3)))(*POINT)
    gradient = np.concatenate([np.ravel(x) for x in gradient])
    np.testing.assert_allclose(gradient, complex_step(num_steps), rtol=1e-9)


def one_step(numbers):
    y0, u, stiffness, dt = numbers[:2], numbers[2], numbers[3], numbers[4]
    robot = oscillator().update_params(joint_stiffness=stiffness[None])
    return robot.implicit_step(SystemState(t=0.0, y=y0), u[None], dt=dt).y


def exact_step(numbers):
    y0, u, stiffness, dt = numbers[:2], numbers[2], numbers[3], numbers[4]
    push = u - 0.3 * y0[1] - stiffness * (y0[0] + dt * y0[1])
    qd = y0[1] + dt * push / (INERTIA + dt * 0.3 + dt**2 * stiffness)
    return jnp.stack([y0[0] + dt * qd, qd])


def total(step):
    return lambda numbers: jnp.sum(step(numbers) ** 2 * jnp.array([1.0, 0.5]))


ALONG = jnp.array([0.1, 0.2, -0.3, 0.4, 0.5])
TRANSFORMATIONS = {
    "grad(vmap)": lambda f: jax.grad(lambda batch: jnp.sum(jax.vmap(total(f))(batch))),
    "jacfwd": lambda f: jax.vmap(jax.jacfwd(f)),
    "jvp": lambda f: jax.vmap(lambda x: jax.jvp(f, (x,), (ALONG,))[1]),
    "vmap(grad)": lambda f: jax.vmap(jax.grad(total(f))),
    "hessian": lambda f: jax.vmap(jax.hessian(total(f))),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("grad(vmap)", "jacfwd") else pytest.mark.slow)
        for name in TRANSFORMATIONS
    ],
)
def test_derivatives_of_one_step_have_their_closed_form(name):
    """With respect to state, control, parameter and dt, on one dof."""
    transform = TRANSFORMATIONS[name]
    batch = jnp.outer(jnp.array([1.0, 1.2, 0.9]), jnp.array([0.7, -1.1, 0.4, 4.0, 0.05]))
    found, expected = jax.jit(transform(one_step))(batch), transform(exact_step)(batch)
    scale = np.max(np.abs(expected))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10 * scale)


@pytest.mark.slow
def test_gradient_through_a_tendon_driven_chain_equals_differences():
    robot = spatial_tendon_chain()
    state = SystemState(t=0.0, y=np.array([0.3, -0.2, 1.0, -2.0]))
    arrays, static = eqx.partition(robot, eqx.is_inexact_array)

    @jax.jit
    def value(arrays, u):
        motion = eqx.combine(arrays, static).rollout_to(
            state, u, num_steps=50, dt=4e-3, scheme=ImplicitMidpoint()
        )
        return jnp.sum(motion.y[-1] ** 2), motion.result.max()

    u = jnp.array([-0.004])
    (gradient, slope), result = jax.jit(jax.grad(value, argnums=(0, 1), has_aux=True))(arrays, u)
    assert result == RESULTS.successful
    # one random direction over all parameters at once, relative to their sizes; bounds are infinite
    rng = np.random.default_rng(0)
    direction = jax.tree.map(
        lambda x: jnp.where(jnp.isfinite(x), x, 0) * rng.normal(size=x.shape), arrays
    )
    shifted = lambda h: jax.tree.map(lambda x, d: x + h * d, arrays, direction)
    h = 1e-5
    difference = (value(shifted(h), u)[0] - value(shifted(-h), u)[0]) / (2 * h)
    products = jax.tree.map(lambda g, d: jnp.sum(g * d), gradient, direction)
    np.testing.assert_allclose(sum(jax.tree.leaves(products)), difference, rtol=1e-6)
    difference = (value(arrays, u + 1e-7)[0] - value(arrays, u - 1e-7)[0]) / 2e-7
    np.testing.assert_allclose(slope[0], difference, rtol=1e-6)


@pytest.mark.slow
def test_memory_of_a_long_gradient_grows_like_the_square_root():
    def temporary_bytes(num_steps):
        value = lambda u: jnp.sum(final_state(POINT[0], u, POINT[2], POINT[3], num_steps))
        compiled = jax.jit(jax.grad(value)).lower(POINT[1]).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    short, long = temporary_bytes(1000), temporary_bytes(40_000)
    assert long < 3 * short, (short, long)


def test_new_values_are_not_traced_again():
    traces = []

    class Counting(EffortModel):
        gain: jax.Array

        def effort(self, control, coordinate, velocity):
            traces.append(None)
            return self.gain * control

    actuator = TransmissionActuator(IdentityTransmission(), Counting(jnp.array(2.0)))
    robot = oscillator(actuators=actuator)
    state = SystemState(t=0.0, y=np.array([0.1, 0.0]))
    first = robot.implicit_step(state, np.array([0.3]), dt=0.01)
    count = len(traces)
    assert count > 0
    robot.implicit_step(first, [0.4], dt=0.02)
    other = robot.update_params(joint_stiffness=[5.0])
    other.implicit_step(SystemState(t=1.0, y=[0.2, 0.1]), jnp.array([1.0]), dt=np.float64(0.01))
    eqx.tree_at(lambda r: r.actuators[0].effort_model.gain, robot, jnp.array(3.0)).implicit_step(
        first, np.array([1]), dt=1, scheme=BackwardEuler()
    )
    assert len(traces) == count
