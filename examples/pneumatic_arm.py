"""A silicone arm with three pressure chambers; one of them is inflated slowly.

Each pressure has its static equilibrium, all computed at once. The coordinate of a chamber is its volume, so
the work of the pressure is the integral of `p dV`. The last number is that work divided by the gain of elastic and
gravitational energy: 1 up to the error of the trapezoidal rule.
"""

import jax
import jax.numpy as jnp

from soromox.actuation import ThreadlikeActuator, ThreadlikeRouting
from soromox.systems import PCS, LinkSpec, base_poses


jax.config.update("jax_enable_x64", True)

silicone = LinkSpec.circular(
    length=0.05,  # [m]
    radius=0.015,  # [m]
    density=1070.0,  # [kg/m^3]
    young_modulus=2.5e5,  # [Pa]
    poisson_ratio=0.48,
)
angles = 2 * jnp.pi * jnp.arange(3) / 3  # [rad] around the backbone
offsets = 0.009 * jnp.stack([jnp.zeros(3), jnp.cos(angles), jnp.sin(angles)], axis=1)  # [m]
chambers = ThreadlikeActuator.pressure_chambers(
    ThreadlikeRouting.linear(offsets), effective_area=8e-5
)  # [m^2]
arm = PCS.from_links([silicone] * 3, actuators=chambers, base_pose=base_poses.hanging())

pressure = jnp.linspace(0, 60e3, 41)  # [Pa] in the first chamber, the others are open
still = jax.vmap(lambda p: arm.static_equilibrium(jnp.array([p, 0, 0]), steps=4))(pressure)
assert (still.result == 0).all()

tips = jax.vmap(lambda q: arm.forward_kinematics(q, arm.length))(still.q)
bend = jnp.rad2deg(jnp.arccos(-tips[:, 2, 0]))  # between the tip's axis and the vertical
volume = jax.vmap(arm.actuator_coordinates)(still.q)[:, 0]  # [m^3]
energy = jax.vmap(arm.potential_energy)(still.q)  # [J]

print("pressure [kPa]   bend [deg]   tip x, y, z [mm]        volume [ml]")
for i in range(0, 41, 5):
    x, y, z = 1e3 * tips[i, :3, 3]
    print(
        f"{pressure[i] / 1e3:8.1f} {bend[i]:15.2f}   {x:7.2f} {y:7.2f} {z:7.2f} {1e6 * volume[i]:12.3f}"
    )

work = jnp.trapezoid(pressure, volume)
print(
    f"work of the pressure {1e3 * work:.3f} mJ, {work / (energy[-1] - energy[0]):.5f} of the energy"
)
