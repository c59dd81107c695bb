"""One finger driven in three ways: an elastic rod, a cable over waypoints, a cable of fixed moment arms.

All three have the same stiffness and the same law, a spring towards a commanded change of length. The rod goes
straight from the palm to the tip and can push; the cables can only pull. At q = 0 both cables have the same
moment arms; when the finger bends, those of the cable over waypoints grow and those of the other do not. The last
number is the angle of the fixed cable divided by that of its linear balance of moments: 1.
"""

import jax
import jax.numpy as jnp

from soromox.actuation import (
    ArticulatedTendonTransmission,
    ArticulatedTendonTransmissionParams,
    DisplacementControl,
    SpatialTendonTransmission,
    TransmissionActuator,
    Waypoint,
)
from soromox.systems import Pendulum, PendulumParams


jax.config.update("jax_enable_x64", True)

joint_stiffness = jnp.array([0.05, 0.03])  # [N m/rad]
body = PendulumParams(
    mass=jnp.array([0.05, 0.03]),  # [kg]
    moment_inertia=jnp.array([1e-5, 4e-6]),  # [kg m^2]
    length=jnp.array([0.05, 0.04]),  # [m]
    center_of_mass_length=jnp.array([0.025, 0.02]),  # [m]
    gravity=(0, 0),
    joint_stiffness=joint_stiffness,
)
palm, tip = Waypoint(-1, (-0.01, 0.01, 0)), Waypoint(1, (0.035, 0.01, 0))  # [m]
inside = [Waypoint(0, (0.01, 0.01, 0)), Waypoint(0, (0.04, 0.01, 0)), Waypoint(1, (0.01, 0.01, 0))]
arms = jnp.array([0.01, 0.01])  # [m] of the cables at q = 0
stiffness = 500.0  # [N/m]

cable = DisplacementControl(stiffness)
rod = DisplacementControl(stiffness, allow_compressive_force=True)
fixed = ArticulatedTendonTransmission(ArticulatedTendonTransmissionParams(arms[None]))
drives = {
    "rod": TransmissionActuator(SpatialTendonTransmission([palm, tip]), rod),
    "waypoints": TransmissionActuator(SpatialTendonTransmission([palm, *inside, tip]), cable),
    "fixed": TransmissionActuator(fixed, cable),
}
fingers = {name: Pendulum(body, actuators=drive) for name, drive in drives.items()}

print("moment arms at the first joint [mm], both joints at the angle")
print("angle [deg]" + "".join(f"{name:>11s}" for name in fingers))
for angle in (0.0, 30.0, 60.0):
    q = jnp.deg2rad(jnp.full(2, angle))
    values = [abs(1e3 * finger.actuation_matrix(q)[0, 0]) for finger in fingers.values()]
    print(f"{angle:11.0f}" + "".join(f"{value:11.2f}" for value in values))

print("\nsum of the angles [deg] and tension [N] for a commanded change of length")
print("change [mm]" + "".join(f"{name:>17s}" for name in fingers))
q = dict.fromkeys(fingers, jnp.zeros(2))
for change in (2e-3, 0.0, -2e-3, -4e-3, -6e-3, -8e-3, -10e-3):
    u = jnp.array([change])
    row = f"{1e3 * change:11.0f}"
    for name, finger in fingers.items():
        still = finger.static_equilibrium(u, q0=q[name])  # from the one before
        assert still.result == 0
        q[name] = still.q
        angle, tension = jnp.rad2deg(still.q.sum()), finger.actuator_loads(still.q, u)[0]
        row += f"{angle:9.2f} {tension + 0.0:7.2f}"
    print(row)

# K q = arms T with T = k (0.01 - arms q)
compliance = jnp.sum(arms**2 / joint_stiffness)
expected = jnp.sum(arms / joint_stiffness) * stiffness * 0.01 / (1 + stiffness * compliance)
print(f"\nfixed cable, angle / linear balance: {q['fixed'].sum() / expected:.6f}")
