"""Tensions that lead the tip of a soft arm around a circle, found by gradients through the simulation.

A hanging arm has three tendons; their tensions at each of 40 steps are the unknowns, 120 in all. Reverse mode
through the implicit rollout gives the gradient of the tracking error, and L-BFGS keeps tensions between 0 and 8 N.
The last number is the root mean square distance of the tip from its target on the circle of 30 mm. It almost
vanishes, since three tensions a step can place two coordinates; the printed tensions stay far from their bound.
"""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from soromox.actuation import ThreadlikeActuator, ThreadlikeRouting
from soromox.systems import PCS, LinkSpec, PCSStructure, SystemState, base_poses


jax.config.update("jax_enable_x64", True)

segment = LinkSpec.circular(
    length=0.1,  # [m]
    radius=0.01,  # [m]
    density=1100.0,  # [kg/m^3]
    young_modulus=1e6,  # [Pa]
    poisson_ratio=0.48,
    material_damping_coefficient=5e4,  # [Pa s]
)
angles = 2 * jnp.pi * jnp.arange(3) / 3
offsets = 0.008 * jnp.stack([jnp.zeros(3), jnp.cos(angles), jnp.sin(angles)], axis=1)  # [m]
arm = PCS.from_links(
    [segment, segment],
    structure=PCSStructure(strain_selector=[0, 1, 1, 1, 0, 0]),  # bending and stretch
    actuators=ThreadlikeActuator.tendons(ThreadlikeRouting.linear(offsets)),
    base_pose=base_poses.hanging(),
)
start = SystemState(t=0.0, y=jnp.zeros(2 * arm.num_dofs))

num_steps, dt = 40, 0.05  # a circle in 2 s
t = dt * jnp.arange(1, num_steps + 1)
radius = 0.03 * jnp.minimum(t / 0.5, 1)  # [m], spiralling out for half a second
target = radius[:, None] * jnp.stack([jnp.cos(jnp.pi * t), jnp.sin(jnp.pi * t)], axis=1)


def cost(tensions):
    """Squared error [mm^2], plus a little that keeps opposite tendons from fighting; and the errors."""
    tensions = tensions.reshape(num_steps, 3)
    motion = arm.rollout_to(start, tensions, num_steps=num_steps, dt=dt)
    tips = jax.vmap(lambda q: arm.forward_kinematics(q, arm.length)[:2, 3])(motion.q[1:])
    errors = 1e3 * jnp.linalg.norm(tips - target, axis=1)  # [mm]
    return jnp.mean(errors**2) + 1e-4 * jnp.mean(tensions**2), errors


value_and_grad = jax.jit(jax.value_and_grad(cost, has_aux=True))


def value_and_gradient(x):
    """As SciPy wants it."""
    (value, _), gradient = value_and_grad(x)
    return float(value), np.asarray(gradient)


guess = np.full(3 * num_steps, 0.5)  # [N]
found = minimize(
    value_and_gradient,
    guess,
    jac=True,
    method="L-BFGS-B",
    bounds=[(0, 8)] * guess.size,
    options={"maxiter": 150},
)


def rms(tensions):
    errors = value_and_grad(tensions)[0][1]
    return jnp.sqrt(jnp.mean(errors[10:] ** 2))  # from 0.5 s on


print(f"{found.nfev} simulations with gradient, tensions up to {found.x.max():.2f} N")
print(f"rms distance from the circle: {rms(guess):.2f} mm before, {rms(found.x):.1e} mm after")
