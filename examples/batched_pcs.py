"""Two hundred soft arms of scattered stiffness, moved in one batch.

Young's modulus of each arm is drawn around 1 MPa with a spread of 10 percent; all feel the same tension.
`jax.vmap` over a function of the modulus moves all of them in one compiled program. The first numbers are
mean and spread of the tip, the last is the difference between one arm of the batch and the same arm alone: rounding.
"""

import time

import jax
import jax.numpy as jnp
import jax.random as jr

from soromox.actuation import ThreadlikeActuator, ThreadlikeRouting
from soromox.systems import LinkSpec, PlanarPCS, SystemState, base_poses


jax.config.update("jax_enable_x64", True)

segment = LinkSpec.circular(
    length=0.1,  # [m]
    radius=0.01,  # [m]
    density=1100.0,  # [kg/m^3]
    young_modulus=1e6,  # [Pa]
    poisson_ratio=0.48,
    material_damping_coefficient=2e4,  # [Pa s]
)
tendon = ThreadlikeActuator.tendons(ThreadlikeRouting.linear([[0.0, 0.008, 0.0]]))  # [m]
arm = PlanarPCS.from_links(
    [segment, segment], actuators=tendon, base_pose=base_poses.hanging(planar=True)
)
start = SystemState(t=0.0, y=jnp.zeros(2 * arm.num_dofs))
tension = jnp.array([3.0])  # [N]


def tip_after_motion(young_modulus):
    """`[theta, x, y]` of the tip after 0.5 s [rad, m]."""
    robot = arm.update_link_params(young_modulus=young_modulus)
    motion = robot.rollout_to(start, tension, t1=0.5, dt=0.01, save_every=50)
    return robot.forward_kinematics(motion.q[-1], robot.length), motion.result[-1]


young_moduli = 1e6 * (1 + 0.1 * jr.normal(jr.key(0), (200,)))  # [Pa]
batch = jax.jit(jax.vmap(tip_after_motion))
tips, results = jax.block_until_ready(batch(young_moduli))
assert (results == 0).all()
begin = time.perf_counter()
jax.block_until_ready(batch(young_moduli))
print(f"200 motions of 50 steps: {1e3 * (time.perf_counter() - begin):.0f} ms once compiled")

angle = jnp.rad2deg(tips[:, 0]) + 90  # against the vertical
print(f"bend of the tip: {angle.mean():.2f} deg, spread {angle.std():.2f} deg")
softest = jnp.argmin(young_moduli)
alone, _ = tip_after_motion(young_moduli[softest])
print(f"softest arm, {young_moduli[softest] / 1e6:.2f} MPa: {angle[softest]:.2f} deg")
print(f"batch against alone: {jnp.abs(tips[softest] - alone).max():.1e}")
