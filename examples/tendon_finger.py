"""Moment arms of a tendon finger, fitted to a noisy motion by gradients through the simulation.

A motor pulls the tendon along a known curve while the angles of both joints are recorded with 5 mrad of noise. The
fit is a nonlinear least-squares problem: `jax.jacfwd` gives the Jacobian of the whole implicit rollout,
and Levenberg-Marquardt does the rest. The two lines printed compare the fitted with the true moment arms: they
agree to a few micrometres.
"""

import jax
import jax.numpy as jnp
import jax.random as jr
import optimistix

from soromox.actuation import ArticulatedTendonActuator
from soromox.systems import Pendulum, PendulumParams, SystemState, base_poses


jax.config.update("jax_enable_x64", True)

body = PendulumParams(
    mass=jnp.array([0.05, 0.03]),  # [kg]
    moment_inertia=jnp.array([1.1e-5, 4.3e-6]),  # [kg m^2] about the centre of mass
    length=jnp.array([0.05, 0.04]),  # [m]
    center_of_mass_length=jnp.array([0.025, 0.020]),  # [m] from the joint
    joint_stiffness=jnp.array([0.05, 0.05]),  # [N m/rad]
    joint_damping=jnp.array([1e-3, 1e-3]),  # [N m s/rad]
)
true_arms = jnp.array([[0.010, 0.007]])  # [m]
finger = Pendulum(
    body,
    actuators=ArticulatedTendonActuator.from_routing(true_arms),
    base_pose=base_poses.hanging(planar=True),
)

start = SystemState(t=0.0, y=jnp.zeros(4))
dt, num_steps = 0.01, 60  # [s]
times = dt * jnp.arange(num_steps)
tension = (4 - 3 * jnp.cos(8 * times) + jnp.sin(25 * times))[:, None]  # [N], one row a step


def angles(arms):
    """Joint angles [rad] over time for moment arms (1, 2) [m]."""
    transmission = finger.actuators[0].params.transmission.replace(routing_matrix=arms)
    robot = finger.update_actuator_params(0, transmission=transmission)
    return robot.rollout_to(start, tension, num_steps=num_steps, dt=dt).q


recorded = angles(true_arms)
recorded = recorded + 5e-3 * jr.normal(jr.key(0), recorded.shape)

solution = optimistix.least_squares(
    lambda arms, _: angles(arms) - recorded,
    optimistix.LevenbergMarquardt(rtol=1e-6, atol=1e-9),
    y0=jnp.array([[0.008, 0.008]]),
    options={"jac": "fwd"},
)
print("fitted moment arms [mm]:", 1e3 * solution.value[0])
print("true moment arms [mm]:  ", 1e3 * true_arms[0])
