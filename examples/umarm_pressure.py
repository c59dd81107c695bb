"""An arm of two universal joints, moved by eight McKibben muscles under changing pressure.

The parameters are written to a file and read back by `from_cached_parameters`, as those of a measured arm would
be. One muscle of each joint is inflated within half a second and the arm bends up to rest. Printed are the
way of the tip and an energy balance: the work of the pressures, `p dV` over the motion, is what the springs and the
height of the links store and the dampers lose. The ratio tends to 1 with smaller steps.
"""

import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from soromox.systems import McKibbenActuatedUMArm, SystemState


jax.config.update("jax_enable_x64", True)

ring = np.array([[1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0]])
up, identity = np.array([0.0, 0.0, 0.02]), np.tile(np.eye(4), (2, 1, 1))
links = {
    "joint_screw": np.tile([[1.0, 0, 0, 0, 0, 0], [0, 1.0, 0, 0, 0, 0]], (2, 1)),
    "tip_position": np.tile([[0, 0, 0], [0, 0, 0.3]], (2, 1)),  # [m]
    "center_of_mass_position": np.tile([[0, 0, 0], [0, 0, 0.15]], (2, 1)),
    "mass": np.array([0.01, 0.3] * 2),  # [kg]
    "center_of_mass_inertia": np.array([1e-5, 2e-3] * 2)[:, None, None] * np.eye(3),
    "gravity": np.array([0.0, 0.0, -9.81]),
    "joint_stiffness": np.full(4, 4.0),  # [N m/rad]
    "joint_damping": np.full(4, 0.3),  # [N m s/rad]
    "joint_rest_configuration": np.zeros(4),
    "joint_armature": np.zeros(4),
    "parent_to_joint_transform": np.tile(np.eye(4), (4, 1, 1)),
    "radius": np.full(4, 0.03),
}
links["parent_to_joint_transform"][0] = np.diag(
    [1.0, -1.0, -1.0, 1.0]
)  # z of the first joint is down
muscles = {
    "moving_base_transform": identity,
    "moving_points": np.tile(0.04 * ring + up, (2, 1, 1)),  # [m]
    "fixed_points": np.tile(0.04 * ring - up, (2, 1, 1)),
    "reference_length": np.full((2, 4), 0.04),
    "length_offset": np.full((2, 4), 0.16),
    "thread_length": np.full((2, 4), 0.18),
    "num_turns": np.full((2, 4), 2.0),
    "joint_pair_indices": np.array([(0, 1), (2, 3)]),
}
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "arm.npz"
    np.savez(file, **links, **{f"mckibben_{name}": value for name, value in muscles.items()})
    arm = McKibbenActuatedUMArm.from_cached_parameters(file)

dt, num_steps = 5e-3, 400  # [s]
rise = jnp.minimum(2 * dt * jnp.arange(num_steps), 1.0)
high = 2e5 * jnp.array([1.0, 0, 0, 0, 0, 1.0, 0, 0])  # [Pa], one muscle of each joint
pressure = rise[:, None] * high
start = SystemState(t=0.0, y=jnp.zeros(8))
motion = arm.rollout_to(start, pressure, num_steps=num_steps, dt=dt, throw=True)

tip = jax.jit(jax.vmap(lambda q: arm.forward_kinematics_tips(q)[-1, :3, 3]))(motion.q)
volume = jax.jit(jax.vmap(arm.actuator_coordinates))(motion.q)
print("tip before [m]:", np.round(tip[0], 4))
print("tip after [m]: ", np.round(tip[-1], 4))
print("angles [deg]:  ", np.round(jnp.rad2deg(motion.q[-1]), 2))

work = jnp.sum(pressure * jnp.diff(volume, axis=0))
lost = dt * jnp.sum(links["joint_damping"] * motion.qd[1:] ** 2)
ends = [arm.total_energy(motion.q[i], motion.qd[i]) for i in (0, -1)]
stored = ends[1] - ends[0]
print(f"work of the pressures {work:.4f} J, stored {stored:.4f} J, lost {lost:.4f} J")
print(f"(stored + lost) / work: {(stored + lost) / work:.4f}")
