"""Articulated robots against recorded results of another package and against MuJoCo."""

from pathlib import Path

import diffrax
import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.actuation import (
    ArticulatedTendonActuator,
    ArticulatedTendonImpedance,
    IdentityActuator,
)
from soromox.systems import (
    ArticulatedSoftRobot,
    ArticulatedSoftRobotParams,
    Pendulum,
    PendulumParams,
    SoftRobot,
)
from tests.rods import disagreements, params_of


def recorded_springs(data: dict) -> ArticulatedTendonImpedance:
    numbers = params_of(data, "passive_elements[0].params.")
    return ArticulatedTendonImpedance.from_routing(
        numbers["transmission.routing_matrix"],
        stiffness=numbers["stiffness"],
        damping=numbers["damping"],
        reference_configuration=numbers["transmission.reference_configuration"],
        coordinate_offset=numbers["transmission.coordinate_offset"],
    )


def recorded_tendons(data: dict) -> ArticulatedTendonActuator:
    numbers = params_of(data, "actuators[0].params.transmission.")
    return ArticulatedTendonActuator.from_routing(
        numbers["routing_matrix"], coordinate_offset=numbers["coordinate_offset"]
    )


def pendulum3(data: dict) -> Pendulum:
    return Pendulum(
        PendulumParams(**params_of(data, "params.")),
        actuators=recorded_tendons(data),
        passive_elements=recorded_springs(data),
    )


def articulated4_tendon(data: dict) -> ArticulatedSoftRobot:
    return ArticulatedSoftRobot(
        ArticulatedSoftRobotParams(**params_of(data, "params.")),
        actuators=(recorded_tendons(data), IdentityActuator(4)),
        passive_elements=recorded_springs(data),
        base_pose=data["fixed_base_pose"],
    )


@eqx.filter_jit
def explicit_rollout(robot: SoftRobot, y0, u, times):
    """The motion by an adaptive explicit solver on `forward_dynamics`."""
    term = diffrax.ODETerm(lambda t, y, u: robot.forward_dynamics(t, y, u))
    return diffrax.diffeqsolve(
        term,
        diffrax.Tsit5(),
        times[0],
        times[-1],
        1e-3,
        y0,
        u,
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(rtol=1e-9, atol=1e-11),
        max_steps=100_000,
    ).ys


@pytest.mark.parametrize("build", [pendulum3, articulated4_tendon], ids=lambda f: f.__name__)
def test_recorded_quantities_and_motion(shared_reference: Path, build):
    data = dict(np.load(shared_reference / "rods" / f"{build.__name__}.npz"))
    robot = build(data)
    assert disagreements(robot, data) == {}
    given = (jnp.asarray(data[f"rollout_{name}"]) for name in ("y0", "u", "t"))
    motion = explicit_rollout(robot, *given)
    scale = np.max(np.abs(data["rollout_y"]))
    np.testing.assert_allclose(motion, data["rollout_y"], atol=1e-6 * scale, rtol=0)


FINGERS, JOINTS = 4, 4
AXES = ([0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.1, 1.0, 0.2])


def hand_numbers() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    half = rng.normal(size=(FINGERS, JOINTS, 3, 3)) * 1e-3
    return {
        "mass": rng.uniform(0.01, 0.05, (FINGERS, JOINTS)),
        "com": rng.normal(size=(FINGERS, JOINTS, 3)) * 0.01 + [0.02, 0.0, 0.0],
        "inertia": half @ half.transpose(0, 1, 3, 2) + 1e-5 * np.eye(3),
        "position": rng.normal(size=(FINGERS, JOINTS, 3)) * 0.01 + [0.04, 0.0, 0.0],
        "angle": rng.uniform(-1, 1, (FINGERS, JOINTS)),  # of the body frame about x
    }


def mujoco_hand(numbers: dict[str, np.ndarray]) -> str:
    def text(values) -> str:
        return " ".join(f"{value:.17g}" for value in np.ravel(values))

    def body(finger: int, joint: int) -> str:
        if joint == JOINTS:
            return ""
        inertia = numbers["inertia"][finger, joint]
        full = inertia[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
        half = numbers["angle"][finger, joint] / 2
        return (
            f'<body pos="{text(numbers["position"][finger, joint])}" '
            f'quat="{text([np.cos(half), np.sin(half), 0, 0])}">'
            f'<joint type="hinge" axis="{text(AXES[joint])}"/>'
            f'<inertial pos="{text(numbers["com"][finger, joint])}" '
            f'mass="{text(numbers["mass"][finger, joint])}" fullinertia="{text(full)}"/>'
            f"{body(finger, joint + 1)}</body>"
        )

    fingers = "".join(body(finger, 0) for finger in range(FINGERS))
    return (
        '<mujoco><compiler balanceinertia="false"/><option gravity="1 -2 -9.81"/>'
        f"<worldbody>{fingers}</worldbody></mujoco>"
    )


def our_hand(numbers: dict[str, np.ndarray]) -> ArticulatedSoftRobot:
    count = FINGERS * JOINTS
    flat = {name: values.reshape(count, *values.shape[2:]) for name, values in numbers.items()}
    axes = np.tile(AXES, (FINGERS, 1))
    screws = np.zeros((count, 6))
    screws[:, :3] = axes / np.linalg.norm(axes, axis=1, keepdims=True)
    frames = np.tile(np.eye(4), (count, 1, 1))
    cos, sin = np.cos(flat["angle"]), np.sin(flat["angle"])
    frames[:, 1, 1], frames[:, 1, 2], frames[:, 2, 1], frames[:, 2, 2] = cos, -sin, sin, cos
    frames[:, :3, 3] = flat["position"]
    params = ArticulatedSoftRobotParams(
        joint_screw=screws,
        tip_position=np.zeros((count, 3)),  # the next frame is given from the joint
        center_of_mass_position=flat["com"],
        mass=flat["mass"],
        center_of_mass_inertia=flat["inertia"],
        gravity=[1.0, -2.0, -9.81],
        parent_to_joint_transform=frames,
    )
    parents = [
        finger * JOINTS + joint - 1 if joint else -1
        for finger in range(FINGERS)
        for joint in range(JOINTS)
    ]
    return ArticulatedSoftRobot(params, parents, base_pose=[0, 0, 0, 1.0, 0, 0, 0])


def test_four_finger_hand_against_mujoco():
    mujoco = pytest.importorskip("mujoco")
    numbers = hand_numbers()
    robot = our_hand(numbers)
    model = mujoco.MjModel.from_xml_string(mujoco_hand(numbers))
    state = mujoco.MjData(model)
    rng = np.random.default_rng(4)
    dense = np.zeros((model.nv, model.nv))

    @eqx.filter_jit
    def ours(robot, q, qd, u):
        bias = robot.coriolis_force(q, qd) + robot.gravitational_force(q)
        return robot.inertia_matrix(q), bias, robot.forward_acceleration(q, qd, u)

    for _ in range(3):
        q, qd, u = rng.normal(size=(3, model.nv)) * np.array([[1.0], [2.0], [1e-3]])
        state.qpos[:], state.qvel[:], state.qfrc_applied[:] = q, qd, u
        mujoco.mj_forward(model, state)
        mujoco.mj_fullM(model, state, dense)
        theirs = (dense, state.qfrc_bias, state.qacc)
        for a, b in zip(ours(robot, q, qd, u), theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-9 * np.max(np.abs(b)))
