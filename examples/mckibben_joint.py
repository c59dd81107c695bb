"""A universal joint between McKibben muscles: pressures, angle and stiffness.

Two muscles on opposite sides of each of the crossed hinges pull against each other. Their difference of pressure turns the
joint, their mean does not: it makes the joint stiffer, as the tension of a muscle grows with its length.
The table shows both at rest; the last column, the change of the angle under a torque of 0.1 N m, falls with the
mean pressure. The last line compares it with the linear stiffness by `jax.jacfwd`.
"""

import jax
import jax.numpy as jnp
import numpy as np

from soromox.actuation import (
    ArticulatedMcKibbenActuator,
    ArticulatedMcKibbenTransmissionParams,
)
from soromox.systems import ArticulatedSoftRobot, ArticulatedSoftRobotParams, SystemState


jax.config.update("jax_enable_x64", True)

body = ArticulatedSoftRobotParams(
    joint_screw=[[1.0, 0, 0, 0, 0, 0], [0, 1.0, 0, 0, 0, 0]],  # about x, then about y
    tip_position=[[0, 0, 0], [0, 0, 0.2]],  # [m]
    center_of_mass_position=[[0, 0, 0], [0, 0, 0.1]],
    mass=[0.02, 0.4],  # [kg]
    center_of_mass_inertia=np.array([1e-5, 2e-3])[:, None, None] * np.eye(3),  # [kg m^2]
    gravity=(0, 0, -9.81),  # [m/s^2], the link stands upright
    joint_stiffness=[1.5, 1.5],  # [N m/rad], of the hinges
    joint_damping=[0.2, 0.2],  # [N m s/rad]
)
sides = np.array([[0, 1, 0], [0, -1, 0], [1, 0, 0], [-1, 0, 0]])  # across x, then across y
muscles = ArticulatedMcKibbenTransmissionParams(
    moving_base_transform=np.eye(4)[None],
    moving_points=[0.03 * sides + [0, 0, 0.01]],  # [m]
    fixed_points=[0.03 * sides - [0, 0, 0.01]],
    reference_length=0.02,  # [m], of the points at q = 0
    length_offset=0.16,  # [m], of the muscles then
    thread_length=0.18,
    num_turns=3.0,
    joint_pair_indices=[(0, 1)],
)
actuator = ArticulatedMcKibbenActuator(muscles)
robot = ArticulatedSoftRobot(body, actuators=actuator, base_pose=[0, 0, 0, 1.0, 0, 0, 0])


def pressures(mean, difference):
    """Of the four muscles [Pa]; the first two differ."""
    return jnp.array([mean + difference / 2, mean - difference / 2, mean, mean])


def angle(mean, difference, torque=0.0):
    """Of the first hinge [rad], come to rest after 4 s."""
    motion = robot.rollout_to(
        SystemState(t=0.0, y=jnp.zeros(4)),
        pressures(mean, difference),
        num_steps=200,
        dt=0.02,
        save_every=200,
        tau_ext=jnp.array([torque, 0.0]),
        throw=True,
    )
    return motion.q[-1, 0]


print("mean [kPa]  difference [kPa]  angle [deg]  tensions [N]    by 0.1 N m [deg]")
for mean in (100e3, 200e3, 300e3):
    for difference in (0.0, 20e3, 40e3):
        turned = angle(mean, difference)
        q = jnp.array([turned, 0.0])
        force = actuator.axial_forces(robot, q, pressures(mean, difference))
        give = jnp.rad2deg(angle(mean, difference, 0.1) - turned)
        print(
            f"{mean / 1e3:10.0f} {difference / 1e3:17.0f} {jnp.rad2deg(turned):12.2f}"
            f" {force[0]:7.2f} {force[1]:6.2f} {give:19.3f}"
        )

moment = lambda q: (
    robot.inverse_dynamics(q, 0 * q, 0 * q) - robot.actuation_force(q, pressures(300e3, 0.0))
)
stiffness = jax.jit(jax.jacfwd(moment))(jnp.zeros(2))[0, 0]  # [N m/rad]
give = angle(300e3, 0.0, 1e-3)
print(
    f"stiffness at 300 kPa: {stiffness:.3f} N m/rad, times angle per torque: {1e3 * stiffness * give:.5f}"
)
