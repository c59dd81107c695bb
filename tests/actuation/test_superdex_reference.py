"""Displacements, moment arms and loads recorded from another engine."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.actuation import TransmissionActuator
from soromox.simulation import SystemState
from tests.actuation import superdex


@pytest.mark.parametrize(
    "name", ["a1_linear_3revolute", "b1_spatial_planar_finger", "c_spatial_mixed_linear_joint"]
)
def test_displacements_and_moment_arms(name, shared_reference):
    case = superdex.load(shared_reference, name)
    parts = [superdex.transmission(t, case["mechanism"]) for t in case["transmissions"]]
    robot = superdex.robot(case["mechanism"], tuple(TransmissionActuator(t) for t in parts))
    queries = case["superdex_queries"]
    q = jnp.array([query["q"] for query in queries])
    evaluate = lambda q: (robot.actuator_coordinates(q), robot.actuation_matrix(q).T)
    x, g = jax.jit(jax.vmap(evaluate))(q)
    np.testing.assert_allclose(x, [query["x"] for query in queries], rtol=0, atol=1e-12)
    np.testing.assert_allclose(g, [query["g"] for query in queries], rtol=0, atol=1e-12)


def test_loads_of_one_step(shared_reference):
    """Their backward Euler uses the difference of the displacement for its rate."""
    case = superdex.load(shared_reference, "d2_three_link_one_step")
    tendons = [superdex.transmission(t, case["mechanism"]) for t in case["transmissions"]]
    robot = superdex.robot(case["mechanism"])
    ends = jnp.array([[row["q0"], row["q1"]] for row in case["rows"]])
    path = lambda q: jnp.concatenate([t.coordinates(robot, q) for t in tendons])
    x = jax.jit(jax.vmap(jax.vmap(path)))(ends)
    for row, (x0, x1) in zip(case["rows"], x, strict=True):
        np.testing.assert_allclose(x1, row["x1"], atol=1e-12)
        rate = (x1 - x0) / row["dt"]
        for i, record in enumerate(row["actuators"]):
            if record is None:
                continue
            law, u = superdex.law(record)
            load = law.load(jnp.array([u]), x1[i : i + 1], rate[i : i + 1])[0]
            np.testing.assert_allclose(load, row["lambda_formula"][i], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ["e1_force_control_scalar", "f1_mckibben_scalar"])
def test_laws_on_one_slider(name, shared_reference):
    case = superdex.load(shared_reference, name)
    for row in case["rows"]:
        law, u = superdex.law(row["actuator"])
        rate = (row["q1"] - row["q0"]) / row["dt"]
        load = law.load(*(jnp.array([value]) for value in (u, row["q1"], rate)))[0]
        np.testing.assert_allclose(load, row["lambda_formula_at_q1"], rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(load, row["lambda_measured"], rtol=1e-9, atol=1e-9)


def test_gearbox_with_backlash(shared_reference):
    """Two cables of opposite sign on a gear of ratio 3: 600 steps through both ends of the gap.

    Their steps take accelerations from differences of rotation matrices, which brakes a rotor by
    about `I h v^3`; with this torque, taken from the record, their steps are ours.
    """
    case = superdex.load(shared_reference, "g1_backlash_gearbox_trajectory")
    robot = superdex.robot(case["mechanism"])
    friction = [joint["viscous"] for joint in case["mechanism"]["joints"]]
    robot = robot.update_params(joint_damping=friction)
    for record, actuator in zip(case["transmissions"], case["actuators"], strict=True):
        robot, i = robot.add_transmission(superdex.transmission(record, case["mechanism"]))
        law, target = superdex.law(actuator)
        robot = robot.attach_actuator(i, law, command=target)
    record, dt = case["trajectory"], case["trajectory"]["dt"]
    q = np.array(record["q"])
    moves = np.diff(q, axis=0, prepend=q[:1])
    last, now = moves[:-1], moves[1:]
    inertia = np.array(robot.params.center_of_mass_inertia)[:, 2, 2]
    brake = inertia * (2 * np.sin(now) - np.sin(now + last) - (now - last)) / dt**2
    torque = np.array(record["external_generalized_force_before_step"]) - brake
    start = SystemState(0.0, np.zeros(4))
    motion = robot.rollout_to(start, dt=dt, num_steps=len(torque), tau_ext=torque)
    assert np.all(motion.result == 0)
    np.testing.assert_allclose(motion.q, q, rtol=0, atol=1e-9 * np.max(np.abs(q)))
    # the static law: free within the gap, beyond it by what the cables stretch
    error = jax.jit(jax.vmap(lambda q: robot.transmission_displacement(0, q)))(motion.q)
    loads = jax.jit(jax.vmap(lambda q: robot.actuator_loads(q, None)))(motion.q)
    stretch = np.stack([error - 0.025, -error - 0.025], axis=1)
    np.testing.assert_allclose(loads, 400 * np.maximum(stretch, 0), atol=1e-10)
    largest = case["check"]["max_abs_transmission_error"]
    np.testing.assert_allclose(np.max(np.abs(error)), largest, rtol=1e-8)
