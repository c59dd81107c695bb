"""McKibben muscles across joint pairs: geometry, volumes, forces, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.actuation import (
    ArticulatedMcKibbenActuator,
    ArticulatedMcKibbenTransmission,
    ArticulatedMcKibbenTransmissionParams,
)
from soromox.systems import ArticulatedSoftRobot, ArticulatedSoftRobotParams
from tests.hosts import hand, pendulum
from tests.transmissions import TRANSMISSIONS


Q, QD = jnp.array([[0.3, -0.2, 0.1, 0.4], [0.5, 1.0, -0.7, 0.2]])


def params() -> ArticulatedMcKibbenTransmissionParams:
    return TRANSMISSIONS["muscles"]()[1].params


def actuator_and_robot() -> tuple[ArticulatedMcKibbenActuator, ArticulatedSoftRobot]:
    robot, transmission = TRANSMISSIONS["muscles"]()
    return ArticulatedMcKibbenActuator(transmission.params), robot


def test_volumes_lengths_and_forces():
    actuator, robot = actuator_and_robot()
    pressure = jnp.linspace(1e4, 8e4, 8)

    @jax.jit
    def evaluate(q):
        return {
            "V": actuator.coordinates(robot, q),
            "l": actuator.effective_lengths(robot, q),
            "dl/dq": jax.jacrev(lambda q: actuator.effective_lengths(robot, q))(q),
            "F": actuator.axial_forces(robot, q, pressure),
            "tau": actuator.force(robot, q, pressure, jnp.zeros(4)),
            "dV/dt": jax.jvp(lambda q: actuator.coordinates(robot, q), (q,), (QD,))[1],
            "ends": actuator.attachments(robot, q),
        }

    result = evaluate(Q)
    # the robot's own kinematics put the ends where the closed form of the lengths has them
    fixed, moving = result["ends"]
    distance = np.linalg.norm(moving - fixed, axis=1)
    np.testing.assert_allclose(result["l"], distance + 0.05, rtol=1e-13)
    volume = lambda l: (0.2**2 - l**2) * l / (4 * np.pi * 1.1**2)
    np.testing.assert_allclose(result["V"], volume(result["l"]), rtol=1e-13)
    slope = jax.vmap(jax.grad(volume))(result["l"])
    np.testing.assert_allclose(result["F"], -pressure * slope, rtol=1e-10)
    # the work of the pressure is that of the tensions
    work = -result["dl/dq"].T @ result["F"]
    np.testing.assert_allclose(result["tau"], work, rtol=1e-10, atol=1e-12)
    power = pressure @ result["dV/dt"]
    np.testing.assert_allclose(QD @ result["tau"], power, rtol=1e-10)
    np.testing.assert_allclose(-result["F"] @ (result["dl/dq"] @ QD), power, rtol=1e-10)


def test_labels_and_bounds():
    metadata = actuator_and_robot()[0].metadata
    assert metadata.kind == "muscle"
    assert metadata.labels[-1] == "mckibben_pressure_7"
    assert set(metadata.units) == {"Pa"}
    np.testing.assert_array_equal(metadata.lower_bounds, np.zeros(8))


def test_joint_pairs_turn_about_x_and_then_y():
    """Lengths are those of such a pair; on any other they would be wrong without notice."""
    actuator, robot = actuator_and_robot()
    screw = np.array(robot.params.joint_screw)
    swapped, sliding = screw.copy(), screw.copy()
    swapped[[2, 3]] = swapped[[3, 2]]
    sliding[3] = [0, 0, 0, 0, 1, 0]
    for screws, joint in ((swapped, 2), (sliding, 3)):
        other = robot.update_params(joint_screw=screws)
        with pytest.raises(ValueError, match=rf"Group 1 .* joint {joint} has the screw"):
            actuator.install_check(other)


def test_joint_pairs_are_topology():
    actuator, _ = actuator_and_robot()
    changed = dict(vars(params())) | {"joint_pair_indices": [(0, 1), (1, 2)]}
    with pytest.raises(ValueError, match="reconstruct"):
        actuator.update_params(transmission=ArticulatedMcKibbenTransmissionParams(**changed))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"thread_length": 0.0}, "`thread_length` must be positive"),
        ({"num_turns": np.nan}, "`num_turns` must be positive"),
        ({"length_offset": np.inf}, "`length_offset` must be finite"),
        ({"fixed_points": np.zeros((2, 3, 3))}, "`fixed_points` needs shape"),
        ({"moving_points": np.zeros((2, 3))}, "`moving_points` needs shape"),
        ({"joint_pair_indices": [(0, 1)]}, "two different joints for each of 2 groups"),
        ({"joint_pair_indices": [(0, 0), (2, 3)]}, "two different joints"),
        ({"moving_base_transform": np.zeros((2, 4, 4))}, "needs rigid motions"),
    ],
)
def test_bad_numbers_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        ArticulatedMcKibbenTransmissionParams(**(dict(vars(params())) | change))


def test_hosts_without_such_joints_are_refused():
    transmission = ArticulatedMcKibbenTransmission(params())
    with pytest.raises(TypeError, match="needs a spatial host with one-dof joints"):
        transmission.install_check(pendulum())
    with pytest.raises(ValueError, match=r"Group 1 of `joint_pair_indices` is \(2, 3\)"):
        transmission.install_check(hand())


def test_reference_arm(shared_reference):
    data = dict(np.load(shared_reference / "rods" / "umarm.npz"))
    prefix = "actuators[0].params.transmission."
    numbers = {key[len(prefix) :]: data[key] for key in data if key.startswith(prefix)}
    body = {
        name: data[f"params.{name}"]
        for name in (
            "joint_screw",
            "tip_position",
            "center_of_mass_position",
            "center_of_mass_inertia",
            "parent_to_joint_transform",
        )
    }
    # the crosses of its universal joints have no mass, which does not matter here
    mass = np.maximum(data["params.mass"], 1e-3)
    actuator = ArticulatedMcKibbenActuator(ArticulatedMcKibbenTransmissionParams(**numbers))
    robot = ArticulatedSoftRobot(
        ArticulatedSoftRobotParams(mass=mass, **body),
        actuators=actuator,
        base_pose=data["fixed_base_pose"],
    )

    @jax.jit
    @jax.vmap
    def ours(q, qd, u):
        return {
            "actuator_coordinates": actuator.coordinates(robot, q),
            "actuator_velocities": actuator.velocities(robot, q, qd),
            "actuation_matrix": actuator.transmission.moment_matrix(robot, q),
            "actuation_force": actuator.force(robot, q, u, qd),
        }

    for name, values in ours(*(jnp.asarray(data[key]) for key in ("q", "qd", "u"))).items():
        scale = np.max(np.abs(data[name]))
        np.testing.assert_allclose(values, data[name], rtol=0, atol=1e-12 * scale)
