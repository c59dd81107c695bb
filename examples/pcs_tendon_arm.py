"""A soft arm of two segments that one of its three tendons bends.

The arm hangs, its tension rises to 3 N within 0.3 s and stays. The motion is integrated with implicit steps of
5 ms, although the fastest modes of the rod are over a hundred times faster. At the end the arm is at
rest: the last number, the distance of its tip from the static equilibrium, is far below a micrometre.
"""

import jax
import jax.numpy as jnp

from soromox.actuation import ThreadlikeActuator, ThreadlikeRouting
from soromox.simulation import DIRK22
from soromox.systems import PCS, LinearProfile, LinkSpec, SystemState, base_poses


jax.config.update("jax_enable_x64", True)

links = [
    LinkSpec.circular(
        length=0.1,  # [m]
        radius=LinearProfile(base, tip),  # [m]
        density=1100.0,  # [kg/m^3]
        young_modulus=1e6,  # [Pa]
        poisson_ratio=0.48,
        material_damping_coefficient=1e4,  # [Pa s]
    )
    for base, tip in ((0.012, 0.010), (0.010, 0.008))
]
angles = 2 * jnp.pi * jnp.arange(3) / 3  # [rad] around the backbone
circle = jnp.stack([jnp.zeros(3), jnp.cos(angles), jnp.sin(angles)], axis=1)
# offsets of 8 mm at the base and 6 mm at the tip
tendons = ThreadlikeRouting.linear(0.008 * circle, -0.01 * circle)
arm = PCS.from_links(
    links,
    actuators=ThreadlikeActuator.tendons(tendons),
    base_pose=base_poses.hanging(),
)


def tension(t):
    """Of the three tendons [N] at a time [s]."""
    return jnp.array([3.0, 0.0, 0.0]) * jnp.clip(t / 0.3, 0, 1)


rest = SystemState(t=0.0, y=jnp.zeros(2 * arm.num_dofs))
motion = arm.rollout_to(rest, tension, t1=2.0, dt=0.005, save_every=40, scheme=DIRK22(), throw=True)
tips = jax.vmap(lambda q: arm.forward_kinematics(q, arm.length)[:3, 3])(motion.q)

print("time [s]   tip x, y, z [mm]")
for t, tip in zip(motion.t, 1e3 * tips, strict=True):
    print(f"{t:8.1f}  {tip[0]:7.2f} {tip[1]:7.2f} {tip[2]:8.2f}")

still = arm.static_equilibrium(tension(2.0), steps=4)
tip = arm.forward_kinematics(still.q, arm.length)[:3, 3]
print(f"distance from the equilibrium: {1e6 * jnp.linalg.norm(tips[-1] - tip):.1e} um")
