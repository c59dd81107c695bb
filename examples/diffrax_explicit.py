"""An adaptive explicit solver on the same robot as an implicit rollout.

`forward_dynamics` is a vector field `(t, y, u) -> [qd; qdd]`, which is what diffrax asks for. On this double
pendulum, which is not stiff, an explicit method of fifth order is a good choice, and its tight tolerance makes it
a reference: the printed error of the implicit midpoint rule falls by four when its step is halved.
"""

import diffrax
import jax
import jax.numpy as jnp

from soromox.simulation import ImplicitMidpoint
from soromox.systems import Pendulum, PendulumParams, SystemState, base_poses


jax.config.update("jax_enable_x64", True)

body = PendulumParams(
    mass=jnp.array([0.5, 0.3]),  # [kg]
    moment_inertia=jnp.array([4e-3, 2e-3]),  # [kg m^2] about the centre of mass
    length=jnp.array([0.4, 0.3]),  # [m]
    center_of_mass_length=jnp.array([0.2, 0.15]),  # [m] from the joint
    joint_damping=jnp.array([0.02, 0.02]),  # [N m s/rad]
)
robot = Pendulum(body, base_pose=base_poses.hanging(planar=True))
start = SystemState(t=0.0, y=jnp.array([0.8, -0.4, 0.0, 0.0]))  # [q; qd], [rad] and [rad/s]
torque = jnp.array([0.2, 0.0])  # [N m]

solution = diffrax.diffeqsolve(
    diffrax.ODETerm(lambda t, y, u: robot.forward_dynamics(t, y, u)),
    diffrax.Tsit5(),
    t0=0.0,
    t1=1.0,
    dt0=1e-3,
    y0=start.y,
    args=torque,
    stepsize_controller=diffrax.PIDController(rtol=1e-10, atol=1e-10),
)
assert solution.ys is not None  # diffrax types it so, for solutions that save nothing
reference = solution.ys[-1, :2]
print(f"explicit, adaptive, {solution.stats['num_steps']} steps: q(1 s) = {reference} rad")

for dt in (0.01, 0.005):
    motion = robot.rollout_to(start, torque, t1=1.0, dt=dt, scheme=ImplicitMidpoint())
    error = jnp.max(jnp.abs(motion.q[-1] - reference))
    print(f"implicit midpoint, steps of {1e3 * dt:g} ms: error {error:.1e} rad")
