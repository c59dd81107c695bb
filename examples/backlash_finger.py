"""A finger between two antagonistic cables, turned by a motor through a gearbox with backlash.

The gear of ratio 3 is a coordinate x = q_motor - 3 q_finger. Two one-sided springs of opposite sign act on
it, each slack up to half of the gap: the gap is the backlash. The table is this static law. Then the motor swings
while the two stretched cables pull the finger back: x goes from one flank of the tooth to the other, over
the gap and what the flanks give way, which is the moment of the cables over 3 times their stiffness.
"""

import jax
import jax.numpy as jnp
import numpy as np

from soromox.actuation import (
    AffineJointTransmission,
    DisplacementControl,
    IdentityActuator,
    SpatialTendonTransmission,
    TransmissionActuator,
    Waypoint,
)
from soromox.systems import ArticulatedSoftRobot, ArticulatedSoftRobotParams, SystemState


jax.config.update("jax_enable_x64", True)

body = ArticulatedSoftRobotParams(
    joint_screw=np.tile([0.0, 0.0, 1.0, 0.0, 0.0, 0.0], (2, 1)),  # motor and finger, about z
    tip_position=[[0.0, 0.0, 0.0], [0.06, 0.0, 0.0]],  # [m]
    center_of_mass_position=[[0.0, 0.0, 0.0], [0.03, 0.0, 0.0]],
    mass=[0.05, 0.03],  # [kg]
    center_of_mass_inertia=np.array([1e-5, 9e-6])[:, None, None] * np.eye(3),  # [kg m^2]
    gravity=(0, 0, 0),
    joint_damping=[1e-3, 1e-3],  # [N m s/rad]
)
gap, ratio = 0.05, 3.0  # [rad] at the motor
flanks = [AffineJointTransmission.linear(2, (0, 1), (s, -ratio * s)) for s in (1, -1)]
tooth = DisplacementControl(stiffness=20.0, damping=0.02)  # [N m/rad], [N m s/rad]
cables = SpatialTendonTransmission(
    *[[Waypoint(-1, (-0.01, y, 0)), Waypoint(1, (0.03, y, 0))] for y in (0.008, -0.008)]
)
robot = ArticulatedSoftRobot(
    body,
    parents=(-1, -1),
    actuators=(
        *(TransmissionActuator(flank, tooth, labels=("flank",), units="rad") for flank in flanks),
        TransmissionActuator(cables, DisplacementControl(2e3), labels=("left", "right")),
        IdentityActuator(
            2, DisplacementControl(jnp.array([50.0, 0.0]), allow_compressive_force=True)
        ),
    ),
)
tight = -1e-3  # [m] both cables are stretched by 1 mm


def command(motor):
    """Targets of both flanks, both cables, and the motor."""
    return jnp.array([gap / 2, gap / 2, tight, tight, motor, 0.0])


print("x [rad]   torque of the gear on the motor [N m]")
for x in (-0.035, -0.025, 0.0, 0.025, 0.035):
    loads = robot.actuator_loads(jnp.array([x, 0.0]), command(0.0))
    print(f"{x:7.3f} {loads[1] - loads[0]:10.3f}")

dt, num_steps = 4e-3, 750
swing = 0.4 * jnp.sin(2 * jnp.pi * dt * jnp.arange(1, num_steps + 1) / 2.0)  # [rad], of 2 s
motion = robot.rollout_to(
    SystemState(t=0.0, y=jnp.zeros(4)),
    jax.vmap(command)(swing),
    num_steps=num_steps,
    dt=dt,
    throw=True,
)
x = jnp.ptp(motion.q[num_steps // 3 :] @ jnp.array([1.0, -ratio]))  # both flanks, one period
tension = robot.actuator_loads(motion.q[-1], command(swing[-1]))[2:4]
print(f"\ntensions of the cables at the end [N]: {tension[0]:.2f}, {tension[1]:.2f}")
print(f"play of the gear in motion [rad]: {x:.4f}, of which its gap {gap}")
