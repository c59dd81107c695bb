"""A hand of four fingers with three joints each, closed by one cable per finger.

Each cable runs straight from point to point: from the palm along the inner side of the finger to its last
link, so its moment arms grow as the finger bends. All cables pull with different force, without gravity. The printed numbers are
angles and excursions at rest, and how well the last joint of the strongest finger obeys the balance
of moments `k q = |p x T|` of the straight piece of cable across it: a ratio of 1.
"""

import jax
import jax.numpy as jnp
import numpy as np

from soromox.actuation import (
    ForceControl,
    SpatialTendonTransmission,
    TransmissionActuator,
    Waypoint,
)
from soromox.systems import (
    ArticulatedSoftRobot,
    ArticulatedSoftRobotParams,
    SystemState,
    base_poses,
)


jax.config.update("jax_enable_x64", True)

lengths = np.array([0.045, 0.028, 0.022])  # [m] of the three links of a finger
scales = np.array([0.95, 1.05, 1.0, 0.8])  # index, middle, ring, little finger
num_fingers, num_joints = 4, 3
num_links = num_fingers * num_joints

length = np.outer(scales, lengths).ravel()
along = np.eye(3)[0] * length[:, None]  # links run along their x axis
mass = 0.35 * length  # [kg]
inertia = mass[:, None, None] * np.stack([np.diag([2e-5, x**2 / 12, x**2 / 12]) for x in length])
place = np.tile(np.eye(4), (num_links, 1, 1))
place[::num_joints, :3, 3] = [(0.08, y, 0.0) for y in (0.03, 0.01, -0.01, -0.03)]  # knuckles [m]

body = ArticulatedSoftRobotParams(
    joint_screw=np.tile([0.0, 1.0, 0.0, 0.0, 0.0, 0.0], (num_links, 1)),  # positive y: down
    tip_position=along,
    center_of_mass_position=along / 2,
    mass=mass,
    center_of_mass_inertia=inertia,
    gravity=(0, 0, 0),
    joint_stiffness=np.tile([0.06, 0.04, 0.03], num_fingers),  # [N m/rad]
    joint_damping=np.full(num_links, 2e-3),  # [N m s/rad]
    parent_to_joint_transform=place,
)
parents = [-1 if i % num_joints == 0 else i - 1 for i in range(num_links)]


def cable(finger):
    """From the palm over two points of each link but the last, where it ends."""
    y = place[num_joints * finger, 1, 3]
    points = [Waypoint(-1, (0.06, y, -0.008))]  # [m]
    for i in range(num_joints * finger, num_joints * (finger + 1)):
        points.append(Waypoint(i, (0.2 * length[i], 0, -0.008)))
        if i % num_joints < num_joints - 1:
            points.append(Waypoint(i, (0.8 * length[i], 0, -0.008)))
    return points


cables = SpatialTendonTransmission(*[cable(finger) for finger in range(num_fingers)])
hand = ArticulatedSoftRobot(
    body,
    parents,
    actuators=TransmissionActuator(
        cables, ForceControl(), labels=("index", "middle", "ring", "little")
    ),
    base_pose=base_poses.horizontal(),
)
tension = jnp.array([1.0, 2.0, 3.0, 4.0])  # [N]
start = SystemState(t=0.0, y=jnp.zeros(2 * num_links))
motion = hand.rollout_to(start, tension, t1=2.0, dt=0.01, save_every=20, throw=True)
q = motion.q[-1]

excursion = -1e3 * hand.actuator_coordinates(q)  # the coordinate is a length
for name, force, joints, pulled in zip(
    hand.actuator_input_labels, tension, jnp.rad2deg(q).reshape(4, 3), excursion, strict=True
):
    bent = ", ".join(f"{angle:5.1f}" for angle in joints)
    print(f"{name:7s} {force:.0f} N: joints {bent} deg, cable pulled {pulled:.2f} mm")

# all joints turn about the world's y axis; the last piece of the last cable crosses the last joint
joint = hand.forward_kinematics_tips(q)[-2, :3, 3]
before, end = jax.jit(lambda q: cables.path_points(hand, q)[-2:])(q)
pull = tension[-1] * (before - end) / jnp.linalg.norm(before - end)
moment = jnp.cross(end - joint, pull)[1]  # [N m]
print(f"last joint of the little finger, k q / moment: {0.03 * q[-1] / moment:.6f}")
