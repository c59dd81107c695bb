import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from soromox.simulation import BDF2, DIRK33, RESULTS, Adaptive, BackwardEuler, SystemState
from tests.simulation.linear_robots import oscillator, system_matrix


START = jnp.array([1.0, 0.0])


def last(stiffness, y, adaptive, scheme):
    robot = oscillator().update_params(joint_stiffness=jnp.reshape(stiffness, (1,)))
    state = SystemState(t=0.0, y=y)
    motion = robot.rollout_to(
        state, jnp.zeros(1), num_steps=2, dt=0.5, scheme=scheme, adaptive=adaptive
    )
    return motion.y[-1], motion


@pytest.mark.slow
def test_error_follows_the_tolerance_in_every_lane_and_derivatives_are_right():
    stiffness = jnp.array([4.0, 40.0])
    adaptive = Adaptive(rtol=1e-6, atol=1e-8, max_substeps=128)
    fixed = lambda k, y: last(k, y, adaptive, DIRK33())
    jacobian = jax.jit(jax.vmap(jax.jacrev(fixed, argnums=1, has_aux=True), in_axes=(0, None)))
    found, motion = jacobian(stiffness, START)
    assert np.all(motion.result == RESULTS.successful)
    for k, y, slope in zip(stiffness, motion.y[:, -1], found, strict=True):
        exact = scipy.linalg.expm(system_matrix(float(k)))
        largest = np.sqrt(float(k) / 0.5)  # velocity
        np.testing.assert_allclose(y, exact @ START, atol=3e-5 * largest)
        np.testing.assert_allclose(slope, exact, atol=3e-5 * largest)


def test_too_few_substeps_end_in_their_code_and_keep_the_last_good_state():
    adaptive = Adaptive(rtol=1e-8, atol=1e-8, max_substeps=2)
    _, motion = eqx.filter_jit(last)(400.0, START, adaptive, BackwardEuler())
    np.testing.assert_array_equal(motion.result, [0, *[RESULTS.too_many_substeps] * 2])
    np.testing.assert_array_equal(motion.y, [START] * 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Adaptive(rtol=0.0), "`rtol` must be positive"),
        (lambda: Adaptive(atol=np.nan), "`atol` must be"),
        (lambda: Adaptive(max_substeps=0), "`max_substeps` must be a positive integer, got 0"),
        (lambda: last(4.0, START, Adaptive(), BDF2()), "`adaptive` needs a scheme of one step"),
    ],
)
def test_refused_settings(make, message):
    with pytest.raises(ValueError, match=message):
        make()
