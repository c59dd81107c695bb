import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.simulation import BDF2, BDF3, DIRK23, RESULTS, Adaptive, BackwardEuler, SystemState
from soromox.simulation.checkpointing import split
from tests.hosts import pendulum
from tests.simulation.linear_robots import INERTIA, oscillator


START = SystemState(t=0.5, y=np.array([0.7, -1.1]))


def test_first_sample_is_the_start_and_the_last_is_exactly_t1():
    motion = oscillator().rollout_to(START, t1=1.3, dt=0.1)
    assert motion.t.shape == (9,)
    np.testing.assert_array_equal(motion.y[0], START.y)
    assert motion.t[0] == 0.5
    assert motion.t[-1] == 1.3
    np.testing.assert_allclose(motion.t, np.linspace(0.5, 1.3, 9), rtol=1e-15)
    assert np.all(motion.result == RESULTS.successful)
    assert np.all(motion.residual < 1e-10)


@pytest.mark.parametrize(("num_steps", "save_every"), [(34, 2), (38, 19)])
def test_samples_do_not_depend_on_how_steps_are_grouped(num_steps, save_every):
    robot = oscillator()
    u = np.sin(np.arange(num_steps))[:, None]
    motion = robot.rollout_to(START, u, num_steps=num_steps, dt=0.1, save_every=save_every)
    y, ys = np.asarray(START.y), []
    matrix = np.array([[1.0, -0.1], [0.1 * 4.0 / INERTIA, 1 + 0.1 * 0.3 / INERTIA]])
    for k in range(num_steps):
        y = np.linalg.solve(matrix, y + np.array([0.0, 0.1 * u[k, 0] / INERTIA]))
        ys.append(y)
    np.testing.assert_allclose(motion.y[1:], ys[save_every - 1 :: save_every], atol=1e-13)
    np.testing.assert_array_equal(motion.u[1:], u[save_every - 1 :: save_every])
    np.testing.assert_allclose(motion.t, 0.5 + 0.1 * save_every * np.arange(len(motion.t)))


@pytest.mark.parametrize(
    ("length", "target"), [(1, 1.0), (16, 4.0), (100, 10.0), (997, 31.6), (5000, 70.7), (17, 4.1)]
)
def test_split_covers_all_steps(length, target):
    outer, inner = split(length, target)
    assert outer * inner >= length > (outer - 1) * inner
    assert length <= 16 or inner <= 2 * target + 1


def test_function_of_time_is_evaluated_at_stage_times():
    """`0.5 qdd = u(t)` with `u = 6 t (1 - t)`: a scheme of order 3 integrates it exactly."""
    robot = oscillator(stiffness=0.0, damping=0.0)
    u = lambda t: (6 * t * (1 - t))[None]
    start = SystemState(t=0.25, y=[0.0, 0.0])
    motion = robot.rollout_to(start, u, t1=1.0, dt=0.25, scheme=DIRK23())
    velocity = lambda t: 2 * (3 * t**2 - 2 * t**3)
    np.testing.assert_allclose(motion.qd[:, 0], velocity(motion.t) - velocity(0.25), atol=1e-14)
    np.testing.assert_allclose(motion.u[:, 0], 6 * motion.t * (1 - motion.t))


def test_controller_is_held_between_its_calls():
    """An integrating controller, called every other step, against a loop over single steps."""
    robot = oscillator()

    def controller(state):
        integral = state.control_state + 0.2 * state.q[0]
        return jnp.stack([-3.0 * integral - state.qd[0]]), integral

    start = SystemState(t=0.0, y=[0.7, -1.1], control_state=0.0)
    motion = robot.rollout_to(start, num_steps=8, dt=0.1, controller=controller, control_every=2)
    state, integral = SystemState(t=0.0, y=[0.7, -1.1]), 0.0
    for k in range(8):
        if k % 2 == 0:
            integral += 0.2 * state.q[0]
            u = np.array([-3.0 * integral - state.qd[0]])
        state = robot.implicit_step(state, u, dt=0.1)
        np.testing.assert_allclose(motion.y[k + 1], state.y, atol=1e-13)
        np.testing.assert_allclose(motion.u[k + 1], u, atol=1e-13)
    np.testing.assert_allclose(motion.control_state[-1], integral, atol=1e-13)


def test_external_force_acts_like_the_same_effort():
    robot = oscillator()
    by_force = robot.rollout_to(START, num_steps=8, dt=0.1, tau_ext=[0.4])
    by_effort = robot.rollout_to(START, [0.4], num_steps=8, dt=0.1)
    np.testing.assert_allclose(by_force.y, by_effort.y, atol=1e-14)
    assert np.abs(by_force.y[-1, 0] - robot.rollout_to(START, num_steps=8, dt=0.1).y[-1, 0]) > 1e-3


def test_a_step_is_the_body_of_a_scan():
    robot = oscillator()
    body = lambda state, _: (robot.implicit_step(state, [0.4], dt=0.1), None)
    end = jax.lax.scan(body, START, length=8)[0]
    motion = robot.rollout_to(START, [0.4], num_steps=8, dt=0.1)
    np.testing.assert_allclose(end.y, motion.y[-1], atol=1e-14)


def test_clock_and_motion_in_float32_after_an_hour():
    robot = oscillator(dtype=np.float32)
    start = SystemState(t=np.float32(0), y=np.array([0.7, -1.1], np.float32))
    motion = robot.rollout_to(start, [2.0], t1=3600.0, dt=0.05, save_every=720)
    assert motion.y.dtype == motion.t.dtype == motion.residual.dtype == np.float32
    np.testing.assert_allclose(motion.t, np.linspace(0, 3600, 101), rtol=2e-7)
    assert motion.t[-1] == 3600
    assert np.all(motion.result == RESULTS.successful)
    np.testing.assert_allclose(motion.y[-1], [0.5, 0.0], atol=1e-5)


def test_progress_bar_changes_nothing(capsys):
    robot = oscillator()
    plain = robot.rollout_to(START, num_steps=8, dt=0.1)
    shown = robot.rollout_to(START, num_steps=8, dt=0.1, progress=True)
    jax.effects_barrier()
    np.testing.assert_array_equal(plain.y, shown.y)
    assert "8/8" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"dt": 0.1}, "exactly one of `t1`"),
        ({"dt": 0.1, "t1": 1.0, "num_steps": 5}, "exactly one of `t1`"),
        ({"t1": 1.0}, "`dt`"),
        ({"t1": 1.0, "dt": 0.3}, r"`dt` must divide .* Take `dt = 0.25`"),
        ({"t1": 0.4, "dt": 0.1}, "t1 - t0"),
        ({"num_steps": 5, "dt": -0.1}, "`dt` must be positive"),
        ({"num_steps": 5, "dt": 0.1, "save_every": 2}, "`save_every` must divide"),
        ({"num_steps": 5, "dt": 0.1, "save_every": 0}, "`save_every` must be a positive integer"),
        ({"num_steps": 5, "dt": 0.1, "control_every": 0}, "`control_every` must be a positive"),
        ({"num_steps": 5, "dt": 0.1, "u": [1.0, 2.0]}, r"`u` needs shape \(1,\)"),
        ({"num_steps": 5, "dt": 0.1, "u": np.zeros((4, 1))}, r"\(5, 1\) with one row per step"),
        ({"num_steps": 5, "dt": 0.1, "tau_ext": [1.0, 2.0]}, "`tau_ext` needs shape"),
        ({"num_steps": 0, "dt": 0.1}, "`num_steps`"),
        ({"num_steps": 5, "dt": 0.1, "u": [1.0], "controller": lambda s: s.u}, "either"),
        ({"num_steps": 4, "dt": 0.1, "control_every": 2}, "`control_every` is the period"),
        ({"num_steps": 4, "dt": 0.1, "tau_ext": lambda t: [0.0, t]}, r"`tau_ext\(t\)` needs shape"),
    ],
)
def test_wrong_arguments_are_refused(keywords, message):
    with pytest.raises(ValueError, match=message):
        oscillator().rollout_to(START, **keywords)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"adaptive": Adaptive}, "adaptive"),
        ({"controller": 3}, "controller"),
        ({"u": lambda t: None}, r"`u\(t\)` must return 1 numbers, got None"),
        ({"u": lambda t: [np.sin(t)]}, r"`u\(t\)` is traced"),
        ({"tau_ext": lambda t: [1.0 if t < 0.1 else 0.0]}, r"`tau_ext\(t\)` is traced"),
    ],
)
def test_arguments_of_another_kind_are_refused(keywords, message):
    with pytest.raises(TypeError, match=message):
        oscillator().rollout_to(START, num_steps=2, dt=0.1, **keywords)


def test_a_traced_step_that_is_not_positive_fails():
    step = jax.jit(lambda dt: oscillator().implicit_step(START, dt=dt))
    for dt in (-0.01, 0.0, np.nan):
        state = step(dt)
        assert state.result == RESULTS.non_finite
        np.testing.assert_array_equal(state.y, START.y)


def test_history_belongs_to_its_scheme():
    robot = oscillator()
    state = robot.implicit_step(START, dt=0.1, scheme=BDF2())
    with pytest.raises(ValueError, match=r"`scheme_state` holds 1 points .* BDF3 needs 2"):
        robot.implicit_step(state, dt=0.1, scheme=BDF3())
    assert robot.implicit_step(state, dt=0.1).scheme_state is None
    wrong = eqx.tree_at(lambda s: s.scheme_state, state, jnp.zeros(7))
    with pytest.raises(TypeError, match=r"scheme_state|history"):
        robot.implicit_step(wrong, dt=0.1, scheme=BDF2())
    other = pendulum().implicit_step(SystemState(0.0, np.zeros(6)), dt=0.1, scheme=BDF2())
    state = eqx.tree_at(lambda s: s.scheme_state, state, other.scheme_state)
    with pytest.raises(ValueError, match="`scheme_state` is that of a robot with 3 dofs, not 1"):
        robot.implicit_step(state, dt=0.1, scheme=BDF2())


def test_wrong_states_are_refused():
    robot = oscillator()
    with pytest.raises(ValueError, match=r"`actuator_state` needs shape \(0,\), got \(7,\)"):
        robot.implicit_step(SystemState(0.0, START.y, actuator_state=np.zeros(7)), dt=0.1)
    with pytest.raises(ValueError, match=r"`state.t` must be finite"):
        robot.implicit_step(SystemState(np.nan, START.y), dt=0.1)
    with pytest.raises(ValueError, match=r"`initial_state.y` needs shape \(2,\), got \(4,\)"):
        robot.rollout_to(SystemState(t=0.0, y=np.zeros(4)), num_steps=1, dt=0.1)
    with pytest.raises(ValueError, match=r"use jax.vmap"):
        robot.implicit_step(SystemState(t=np.zeros(3), y=np.zeros((3, 2))), dt=0.1)
    with pytest.raises(ValueError, match=r"`t` needs shape \(3,\)"):
        SystemState(t=0.0, y=np.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"\[q; qd\]"):
        SystemState(t=0.0, y=np.zeros(3))
    with pytest.raises(ValueError, match="control_state` must have the structure"):
        robot.rollout_to(START, num_steps=8, dt=0.1, controller=lambda s: (s.u, s.q))


def test_traced_end_time_asks_for_num_steps():
    with pytest.raises(ValueError, match="give `num_steps`"):
        jax.jit(lambda t1: oscillator().rollout_to(START, t1=t1, dt=0.1).y)(1.0)


def test_default_scheme_is_backward_euler():
    robot = oscillator()
    default = robot.implicit_step(START, dt=0.1)
    np.testing.assert_array_equal(
        default.y, robot.implicit_step(START, dt=0.1, scheme=BackwardEuler()).y
    )
