"""Young's modulus and material damping of a soft arm, fitted to the motion of its tip.

A bent arm is let go; a camera with noise of 0.2 mm records its tip. Gauss-Newton on the logarithms of both numbers
uses the forward derivative of the whole implicit rollout, two columns. The printed errors are the fitted
values against the true ones: hundredths of a percent, in line with the standard errors beside them.
"""

import jax
import jax.numpy as jnp
import jax.random as jr

from soromox.simulation import DIRK22
from soromox.systems import LinkSpec, PCSStructure, PlanarPCS, SystemState, base_poses


jax.config.update("jax_enable_x64", True)

true = jnp.array([8e5, 6e3])  # [Pa], [Pa s]
segment = LinkSpec.circular(
    length=0.1,  # [m]
    radius=0.008,  # [m]
    density=1100.0,  # [kg/m^3]
    young_modulus=1e6,
    poisson_ratio=0.48,
    material_damping_coefficient=1e4,
)
arm = PlanarPCS.from_links(
    [segment] * 3,
    structure=PCSStructure(strain_selector=[True, False, False]),  # bending only
    actuators=(),
    base_pose=base_poses.horizontal(planar=True),
)
curvatures = jnp.array([4.0, 3.0, 2.0])  # [1/m] as it is let go
start = SystemState(t=0.0, y=jnp.concatenate([curvatures, jnp.zeros(3)]))


def tip_path(log_parameters):
    """Position of the tip at 100 times [m]."""
    young_modulus, damping = jnp.exp(log_parameters)
    robot = arm.update_link_params(
        young_modulus=young_modulus, material_damping_coefficient=damping, poisson_ratio=0.48
    )
    motion = robot.rollout_to(start, t1=1.0, dt=0.01, scheme=DIRK22())
    return jax.vmap(lambda q: robot.forward_kinematics(q, robot.length)[1:])(motion.q[1:])


noise = 2e-4  # [m]
path = jax.jit(tip_path)
measured = path(jnp.log(true)) + noise * jr.normal(jr.key(1), (100, 2))
slopes = jax.jit(jax.jacfwd(tip_path))

x = jnp.log(jnp.array([1e6, 1.5e4]))  # a guess from a data sheet
for iteration in range(8):
    error = (path(x) - measured).ravel()
    J = slopes(x).reshape(-1, 2)
    print(
        f"{iteration}: E = {jnp.exp(x[0]):.0f} Pa, eta = {jnp.exp(x[1]):.0f} Pa s, "
        f"rms {1e3 * jnp.sqrt(jnp.mean(error**2)):.3f} mm"
    )
    step = -jnp.linalg.lstsq(J, error)[0]
    x = x + step * jnp.minimum(1, 0.5 / jnp.abs(step).max())  # at most a factor of 1.65 at once
    if jnp.abs(step).max() < 1e-6:
        break

off = 100 * (jnp.exp(x) / true - 1)
J = slopes(x).reshape(-1, 2)
sigma = 100 * noise * jnp.sqrt(jnp.diag(jnp.linalg.inv(J.T @ J)))
print(f"error of E: {off[0]:+.3f} +- {sigma[0]:.3f} %, of eta: {off[1]:+.3f} +- {sigma[1]:.3f} %")
