"""A rigid link on a revolute joint, a soft link behind it, and one tendon that bends both.

The tendon runs 8 mm beside the backbone, around the joint and along both links; gravity acts across the
plane of motion. Where it stands still, tension times 8 mm balances the joint's spring and the bending of
the soft link. The last numbers are both angles divided by what these balances say: 1.
"""

import jax
import jax.numpy as jnp

from soromox.actuation import ThreadlikeActuator, ThreadlikeRouting
from soromox.systems import (
    GVS,
    GVSSegment,
    JointSpec,
    LinkSpec,
    StrainBasisSpec,
    SystemState,
    base_poses,
)


jax.config.update("jax_enable_x64", True)

bone = LinkSpec.circular(length=0.12, radius=0.012, density=2700.0)  # [m], [m], [kg/m^3]
flesh = LinkSpec.circular(
    length=0.15,
    radius=0.012,
    density=1100.0,
    young_modulus=1e6,  # [Pa]
    poisson_ratio=0.48,
    material_damping_coefficient=5e4,  # [Pa s]
)
joint = JointSpec.revolute("z", stiffness=0.05, damping=0.02)  # [N m/rad], [N m s/rad]
bending = StrainBasisSpec("legendre", strain_selector=["kappa_z"], basis_order=2)
offset = 0.008  # [m]
tendon = ThreadlikeRouting.linear([[0.0, offset, 0.0]])
arm = GVS.from_segments(
    [GVSSegment(bone, joint), GVSSegment(flesh, basis=bending)],
    actuators=ThreadlikeActuator.tendons(tendon),
    base_pose=base_poses.horizontal(),  # the axis of the joint points up
)

tension = jnp.array([3.0])  # [N]
start = SystemState(t=0.0, y=jnp.zeros(2 * arm.num_dofs))
motion = arm.rollout_to(start, tension, t1=6.0, dt=0.02, save_every=30, throw=True)


def angles(q):
    """Of the joint and of the soft link from end to end [rad]."""
    tip = arm.forward_kinematics(q, arm.length)
    return jnp.array([q[0], jnp.arctan2(tip[1, 0], tip[0, 0]) - q[0]])


both = jax.vmap(angles)(motion.q)
print("time [s]   joint, soft link [deg]")
for t, pair in zip(motion.t, jnp.rad2deg(both), strict=True):
    print(f"{t:8.1f}   {pair[0]:6.2f} {pair[1]:6.2f}")

moment = tension[0] * offset  # [N m]
bending_stiffness = 1e6 * jnp.pi * 0.012**4 / 4  # [N m^2]
balance = jnp.array([moment / 0.05, moment * 0.15 / bending_stiffness])
ratio = both[-1] / balance
print(f"joint / balance {ratio[0]:.5f}, soft link / balance {ratio[1]:.5f}")
