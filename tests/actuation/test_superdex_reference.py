"""Displacements, moment arms and loads recorded from another engine."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.actuation import EffortModel, ForceControl, McKibbenMuscle, TransmissionActuator
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


@pytest.mark.parametrize("name", ["e1_force_control_scalar", "f1_mckibben_scalar"])
def test_steps_of_one_slider(name, shared_reference):
    """Nothing but the actuator acts: their step is ours."""
    case = superdex.load(shared_reference, name)
    rows = case["rows"]
    laws, controls = zip(*(superdex.law(row["actuator"]) for row in rows), strict=True)
    # one law for all rows: to allow a push does not change a pull
    laws = [ForceControl(True) if isinstance(law, ForceControl) else law for law in laws]
    numbers = jax.tree.map(lambda *leaves: jnp.stack(leaves), *laws)
    transmission = superdex.transmission(case["transmissions"][0], case["mechanism"])
    robot = superdex.robot(case["mechanism"], (TransmissionActuator(transmission, laws[0]),))
    column = lambda key: jnp.array([[row[key]] for row in rows])

    @jax.jit
    @jax.vmap
    def step(law, u, q0, v0, dt):
        driven = eqx.tree_at(
            lambda robot: jax.tree.leaves(robot.actuators[0].effort_model),
            robot,
            jax.tree.leaves(law),
        )
        state = SystemState(0.0, jnp.concatenate([q0, v0]))
        new = driven.implicit_step(state, u[None], dt=dt[0])
        return new.q, new.result

    q1, result = step(numbers, jnp.array(controls), column("q0"), column("v0"), column("dt"))
    assert np.all(result == 0)
    np.testing.assert_allclose(q1, column("q1"), rtol=1e-9, atol=1e-12)


def inertial_forces(robot, mechanism, q0, v0, q1, dt):
    """Those of their step of a chain in the plane, and those of ours.

    Theirs differences the places of the centres of mass and the rotation matrices. What it starts
    from is the place at the velocity of the start, and the rotation by the arcsine of its angle.
    """
    links = mechanism["links"]
    mass = jnp.array([link["mass"] for link in links])
    inertia = jnp.array([link["inertia_com_ixx_ixy_ixz_iyy_iyz_izz"][5] for link in links])
    centers = jnp.array([link["center_of_mass"] for link in links]) + superdex.link_shifts(
        mechanism
    )
    place = lambda q: (robot.link_points(q, tuple(range(len(links))), centers), jnp.cumsum(q))
    (start, angle), (drift, turn) = jax.jvp(place, (q0,), (v0,))
    (end, new_angle), pull = jax.vjp(place, q1)
    forces = mass[:, None] * (end - start - dt * drift) / dt**2
    moments = inertia * jnp.sin(new_angle - angle - jnp.arcsin(dt * turn)) / dt**2
    (theirs,) = pull((forces, moments))
    v1 = (q1 - q0) / dt
    ours = robot.inertia_matrix(q1) @ ((v1 - v0) / dt) + robot.coriolis_force(q1, v1)
    return theirs, ours


def without_load(law: EffortModel) -> EffortModel:
    """The law with numbers that make its load zero at command zero."""
    if isinstance(law, McKibbenMuscle):
        return eqx.tree_at(lambda law: law.deflated_stiffness, law, jnp.array(0.0))
    return jax.tree.map(jnp.zeros_like, law)


@pytest.mark.slow
def test_steps_of_three_links(shared_reference):
    """Their steps are ours but for the inertial force, which they take from differences of poses.

    With what the two forces differ by as an external force, our step ends where theirs does.
    """
    case = superdex.load(shared_reference, "d2_three_link_one_step")
    mechanism, rows = case["mechanism"], case["rows"]
    tendons = [superdex.transmission(t, mechanism) for t in case["transmissions"]]
    # each tendon carries every kind of law on record for it; those that a row has not give no load
    kinds = [{}, {}]
    for row in rows:
        for known, record in zip(kinds, row["actuators"], strict=True):
            if record is not None:
                law, _ = superdex.law(record)
                known[jax.tree.structure(law)] = law
    robot = superdex.robot(
        mechanism,
        tuple(
            TransmissionActuator(t, law)
            for t, known in zip(tendons, kinds, strict=True)
            for law in known.values()
        ),
    )

    def numbers_and_commands(row):
        laws, u = [], []
        for known, record in zip(kinds, row["actuators"], strict=True):
            law, command = (None, 0.0) if record is None else superdex.law(record)
            for kind, other in known.items():
                present = jax.tree.structure(law) == kind
                laws.append(law if present else without_load(other))
                u.append(command if present else 0.0)
        return jax.tree.leaves(laws), jnp.array(u)

    numbers, u = jax.tree.map(lambda *x: jnp.stack(x), *map(numbers_and_commands, rows))

    @jax.jit
    @jax.vmap
    def step(numbers, u, gravity, q0, v0, q1):
        driven = eqx.tree_at(
            lambda robot: jax.tree.leaves([a.effort_model for a in robot.actuators]),
            robot.update_params(gravity=gravity),
            numbers,
        )
        theirs, ours = inertial_forces(driven, mechanism, q0, v0, q1, 1e-3)
        state = SystemState(0.0, jnp.concatenate([q0, v0]))
        new = driven.implicit_step(state, u, dt=1e-3, tau_ext=ours - theirs)
        return new.q, new.result

    given = [jnp.array([row[key] for row in rows], float) for key in ("gravity", "q0", "v0", "q1")]
    q1, result = step(numbers, u, *given)
    assert np.all(result == 0)
    np.testing.assert_allclose(q1, given[-1], rtol=0, atol=1e-11)
