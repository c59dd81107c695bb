"""Laws of mechanics over every kind of robot: derivatives of energies, power, skewness, inverses.

Each robot is evaluated by two compiled programs (its terms, and derivatives of its terms); the
tests compare their results.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from soromox.systems import BaseLink, SoftRobot
from tests.hosts import HOSTS


class Case(NamedTuple):
    robot: SoftRobot
    q: jax.Array
    qd: jax.Array
    qdd: jax.Array
    u: jax.Array
    terms: dict[str, Any]
    slopes: dict[str, Any]


@pytest.fixture(scope="module", params=list(HOSTS))
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    robot = HOSTS[request.param]()
    rng = np.random.default_rng(7)
    q, qd, qdd = (jnp.asarray(rng.normal(size=robot.num_dofs) * 0.5) for _ in range(3))
    u = jnp.asarray(rng.uniform(0.5, 2, robot.num_actuators))
    state = (q, qd, qdd, u)
    yield Case(robot, *state, evaluate_terms(robot, *state), evaluate_slopes(robot, *state))
    jax.clear_caches()


def arc_point(robot: SoftRobot) -> dict[str, Any]:
    """An arc length, and on a tree the body whose way it is measured on."""
    is_serial = robot.mechanics().chain.topology.is_serial
    return {"s": 0.4 * robot.length, "body": None if is_serial else 1}


@eqx.filter_jit
def evaluate_terms(robot: SoftRobot, q, qd, qdd, u) -> dict[str, Any]:
    terms = {
        name: getattr(robot, name)(q)
        for name in (
            "inertia_matrix",
            "gravitational_force",
            "elastic_force",
            "damping_matrix",
            "actuation_matrix",
        )
    }
    for name in ("coriolis_matrix", "coriolis_force", "actuator_velocities"):
        terms[name] = getattr(robot, name)(q, qd)
    terms["inverse_dynamics"] = robot.inverse_dynamics(q, qd, qdd)
    terms["actuation_force"] = robot.actuation_force(q, u, qd)
    terms["actuator_efforts"] = robot.actuator_efforts(q, u, qd)
    rest = terms["inverse_dynamics"] - terms["actuation_force"]
    y = jnp.concatenate([q, qd])
    terms["forward_dynamics"] = robot.forward_dynamics(0.0, y, u, rest)
    terms["forward_acceleration"] = robot.forward_acceleration(q, qd, u)
    terms["jacobian"] = robot.jacobian(q, **arc_point(robot))
    terms["jacobian_bodyframe"] = robot.jacobian_bodyframe(q, **arc_point(robot))
    return terms


@eqx.filter_jit
def evaluate_slopes(robot: SoftRobot, q, qd, qdd, u) -> dict[str, Any]:
    inertia_rate = jax.jvp(robot.inertia_matrix, (q,), (qd,))[1]
    kinetic = lambda q, qd: robot.kinetic_energy(q, qd)
    pose = lambda q: robot.forward_kinematics(q, **arc_point(robot))
    free = robot.forward_acceleration(q, qd, u)
    return {
        "inertia_rate": inertia_rate,
        "kinetic_hessian": jax.hessian(kinetic, 1)(q, qd),
        "kinetic_slope": jax.grad(kinetic)(q, qd),
        "gravity_slope": jax.grad(robot.gravitational_energy)(q),
        "elastic_slope": jax.grad(robot.elastic_energy)(q),
        "pose": jax.jvp(pose, (q,), (qd,)),
        "coordinates": jax.jacfwd(robot.actuator_coordinates)(q),
        "energy_rate": jax.jvp(robot.total_energy, (q, qd), (qd, free))[1],
    }


def close(a, b, tolerance):
    """Equal to `tolerance` of the largest entry."""
    scale = np.max(np.abs(np.asarray(b)), initial=0.0) or 1.0
    return np.max(np.abs(np.asarray(a) - np.asarray(b)), initial=0.0) <= tolerance * scale


def test_inertia_is_the_hessian_of_kinetic_energy(case: Case):
    M = case.terms["inertia_matrix"]
    assert close(M, case.slopes["kinetic_hessian"], 1e-12)
    assert close(M, M.T, 1e-14)
    assert np.linalg.eigvalsh(M).min() > 0


def test_coriolis_force_is_the_lagrangian_one(case: Case):
    expected = case.slopes["inertia_rate"] @ case.qd - case.slopes["kinetic_slope"]
    assert close(case.terms["coriolis_force"], expected, 1e-11)
    assert close(case.terms["coriolis_matrix"] @ case.qd, expected, 1e-11)


def test_inertia_rate_minus_twice_coriolis_is_skew(case: Case):
    skew = case.slopes["inertia_rate"] - 2 * case.terms["coriolis_matrix"]
    assert close(skew, -skew.T, 1e-12)


def test_forces_are_gradients_of_energies(case: Case):
    assert close(case.terms["gravitational_force"], case.slopes["gravity_slope"], 1e-12)
    assert close(case.terms["elastic_force"], case.slopes["elastic_slope"], 1e-12)


def test_inverse_and_forward_dynamics_invert_each_other(case: Case):
    given = jnp.concatenate([case.qd, case.qdd])
    assert close(case.terms["forward_dynamics"], given, 1e-10)


def test_inverse_dynamics_is_the_sum_of_its_terms(case: Case):
    terms = case.terms
    total = terms["inertia_matrix"] @ case.qdd + terms["coriolis_matrix"] @ case.qd
    total += terms["gravitational_force"] + terms["elastic_force"]
    total += terms["damping_matrix"] @ case.qd
    assert close(terms["inverse_dynamics"], total, 1e-12)


def test_jacobian_is_the_derivative_of_the_pose(case: Case):
    pose, rate = case.slopes["pose"]
    twist = case.terms["jacobian"] @ case.qd
    if case.robot.is_planar:
        assert close(rate, twist, 1e-12)
        return
    spin = rate[:3, :3] @ pose[:3, :3].T
    omega = jnp.stack([spin[2, 1], spin[0, 2], spin[1, 0]])
    assert close(jnp.concatenate([omega, rate[:3, 3]]), twist, 1e-12)
    body_twist = case.terms["jacobian_bodyframe"] @ case.qd
    turned = jnp.concatenate([pose[:3, :3] @ part for part in (body_twist[:3], body_twist[3:])])
    assert close(turned, twist, 1e-13)


def test_actuation_conserves_power(case: Case):
    force, effort = case.terms["actuation_force"], case.terms["actuator_efforts"]
    A = case.terms["actuation_matrix"]
    assert np.isclose(case.qd @ force, case.terms["actuator_velocities"] @ effort, rtol=1e-12)
    assert close(A, case.slopes["coordinates"].T, 1e-12)
    assert close(A @ effort, force, 1e-12)


def test_a_floating_robot_held_at_a_pose_is_the_fixed_one(case: Case):
    robot = case.robot
    if robot.floating_base is not None:
        pytest.skip("the base floats already")
    pose, planar = robot.base_pose, robot.is_planar
    base = BaseLink(1.0, 0.5) if planar else BaseLink(1.0, np.eye(3))
    free = eqx.tree_at(
        lambda robot: (robot.base_pose, robot.floating_base),
        robot,
        (None, base),
        is_leaf=lambda x: x is None,
    )
    held = pose if planar else np.append(Rotation.from_quat(pose[:4]).as_rotvec(), pose[4:])
    still = jnp.zeros_like(held)

    @eqx.filter_jit
    def inverse_dynamics(free, q, qd, qdd):
        return free.inverse_dynamics(
            jnp.concatenate([held, q]), *(jnp.concatenate([still, x]) for x in (qd, qdd))
        )

    force = inverse_dynamics(free, case.q, case.qd, case.qdd)
    assert force.size == robot.num_dofs + still.size
    assert close(force[still.size :], case.terms["inverse_dynamics"], 1e-12)


def test_energy_balance_of_the_motion(case: Case):
    """dE/dt = actuation power - dissipation."""
    terms, qd = case.terms, case.qd
    power = qd @ terms["actuation_force"] - qd @ terms["damping_matrix"] @ qd
    inertial = qd @ terms["inertia_matrix"] @ terms["forward_acceleration"]
    assert abs(case.slopes["energy_rate"] - power) < 1e-11 * (abs(power) + abs(inertial))


def test_rest_is_finite_with_derivatives(case: Case):
    """Acceleration and its gradient with respect to state and robot, straight and at rest."""
    robot = case.robot
    zero = jnp.zeros(robot.num_dofs)

    @eqx.filter_jit
    def slope(robot, q, qd, u):
        size = lambda args: jnp.sum(args[0].forward_acceleration(*args[1:]) ** 2)
        return eqx.filter_value_and_grad(size)((robot, q, qd, u))

    for leaf in jax.tree.leaves(slope(robot, zero, zero, jnp.zeros(robot.num_actuators))):
        assert jnp.all(jnp.isfinite(leaf))


def test_single_precision_and_batches_agree(case: Case):
    q, qd, u = (x.astype(jnp.float32) for x in (case.q, case.qd, case.u))
    many = jax.jit(jax.vmap(lambda q: case.robot.forward_acceleration(q, qd, u)))
    accelerations = many(jnp.stack([-q, q]))
    assert accelerations.dtype == jnp.float32
    assert close(accelerations[1], case.terms["forward_acceleration"], 1e-3)
