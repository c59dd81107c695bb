"""Pose and twist of free and spherical joints, in and out of the coordinates of a robot."""

import functools
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from soromox.lie import so3
from soromox.numerics import matmul
from soromox.numerics.checks import ArrayLike, as_array, check_finite, check_values
from soromox.systems.gvs import GVS
from soromox.systems.soft_robot import SoftRobot


class JointState(NamedTuple):
    """A joint's outer frame relative to its inner one."""

    quaternion: Float[Array, "4"]  # [x, y, z, w]
    position: Float[Array, "3"]  # [m]
    twist: Float[Array, "6"]  # [omega; v] in the body frame


def joint_state(
    robot: SoftRobot, q: ArrayLike, qd: ArrayLike, joint: int | Literal["base"]
) -> JointState:
    """The state of one joint with a rotation vector.

    `joint` is `"base"` (a floating base in space) or the segment of a GVS whose joint is spherical
    or free. A spherical joint has position and velocity zero.
    """
    start, count = _span(robot, joint)
    return _read(_vector(robot, q, "q"), _vector(robot, qd, "qd"), start, count)


def with_joint_state(
    robot: SoftRobot,
    q: ArrayLike,
    qd: ArrayLike,
    joint: int | Literal["base"],
    *,
    quaternion: ArrayLike | None = None,
    position: ArrayLike | None = None,
    twist: ArrayLike | None = None,
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """`(q, qd)` with the state of one joint set; what is not given keeps its value.

    The quaternion is normalised here. The twist is that of the body, so it stays the same when
    only the pose is given. Raises `ValueError` for a position or velocity of a spherical joint.
    """
    old = joint_state(robot, q, qd, joint)
    start, count = _span(robot, joint)
    q, qd = _vector(robot, q, "q"), _vector(robot, qd, "qd")

    def given(value: ArrayLike | None, default: Array, name: str) -> Array:
        array = default if value is None else as_array(value, name, q.dtype, default.shape)
        check_finite(array, name)
        return array

    quaternion = given(quaternion, old.quaternion, "quaternion")
    check_values(quaternion, lambda x: x.any(), "`quaternion` must not be zero.")
    position, twist = given(position, old.position, "position"), given(twist, old.twist, "twist")
    if count == 3:
        message = "A spherical joint turns only: `position` and the velocity in `twist` must be 0."
        check_values(position, lambda x: x == 0, message)
        check_values(twist, lambda x: x[3:] == 0, message)
    return _write(q, qd, JointState(quaternion, position, twist), start, count)


@functools.partial(jax.jit, static_argnums=(2, 3))
def _read(q: Array, qd: Array, start: int, count: int) -> JointState:
    own = [jnp.pad(x[start : start + count], (0, 6 - count)) for x in (q, qd)]
    (r, p), (rd, pd) = ((x[:3], x[3:]) for x in own)
    R = so3.exp(r)
    omega = matmul(so3.tangent(-r), rd)
    return JointState(so3.to_quaternion(R), p, jnp.concatenate([omega, matmul(R.T, pd)]))


@functools.partial(jax.jit, static_argnums=(3, 4))
def _write(q: Array, qd: Array, state: JointState, start: int, count: int) -> tuple[Array, Array]:
    R = so3.from_quaternion(state.quaternion)
    r = so3.log(R)
    rd = matmul(so3.tangent_inverse(-r), state.twist[:3])
    span = slice(start, start + count)
    q = q.at[span].set(jnp.concatenate([r, state.position])[:count])
    return q, qd.at[span].set(jnp.concatenate([rd, matmul(R, state.twist[3:])])[:count])


def _span(robot: SoftRobot, joint: int | Literal["base"]) -> tuple[int, int]:
    """Where the joint's coordinates start, and how many they are."""
    if joint == "base":
        if robot.floating_base is None or robot.is_planar:
            raise ValueError("`joint='base'` needs a robot with a floating base in space.")
        return 0, 6
    if not isinstance(robot, GVS):
        raise TypeError(f"A {type(robot).__name__} has no joints with a rotation vector.")
    if not 0 <= joint < robot.num_segments:
        raise IndexError(f"The robot has {robot.num_segments} segments, got index {joint}.")
    kind = robot.structure.joints[joint]
    if not kind.has_rotation_vector:
        raise ValueError(
            f"The joint of segment {joint} is {kind.kind}: only spherical and free ones have a "
            "rotation vector."
        )
    start = robot.num_dofs - robot.num_internal_dofs + robot.structure.joint_start(joint)
    return start, kind.num_coordinates


def _vector(robot: SoftRobot, value: ArrayLike, name: str) -> Array:
    return as_array(value, name, robot.dtype, (robot.num_dofs,))
