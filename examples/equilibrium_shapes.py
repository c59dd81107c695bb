"""Shapes of a cylindrical and of a tapered arm under one tendon, from slack to tight, without gravity.

Both arms have the same length and base; the tendon runs at three quarters of the radius. The cylinder bends
into circular arcs; the taper, ever softer towards its tip, rolls up like the arm of an octopus. The picture is
`equilibrium_shapes.png`. The printed numbers are the angles of the tips divided by the integral of `T d / (E I)`: 1,
for the taper up to the strain that is constant in each of its twelve segments.
"""

import itertools

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from soromox.actuation import ThreadlikeActuator, ThreadlikeRouting
from soromox.systems import LinearProfile, LinkSpec, PCSStructure, PlanarPCS, base_poses


jax.config.update("jax_enable_x64", True)

num_segments, length, base = 12, 0.3, 0.012  # -, [m], [m]


def arm(tip):
    """An arm whose radius goes from `base` to `tip` [m]."""
    radii = np.linspace(base, tip, num_segments + 1)
    links = [
        LinkSpec.circular(
            length=length / num_segments,
            radius=LinearProfile(*pair),
            density=1100.0,  # [kg/m^3]
            young_modulus=1e6,  # [Pa]
            poisson_ratio=0.48,
        )
        for pair in itertools.pairwise(radii)
    ]
    path = ThreadlikeRouting.linear([[0, 0.75 * base, 0]], [[0, 0.75 * (tip - base) / length, 0]])
    return PlanarPCS.from_links(
        links,
        gravity=(0, 0),
        structure=PCSStructure(strain_selector=[True, False, False]),
        actuators=ThreadlikeActuator.tendons(path),
        base_pose=base_poses.upright(planar=True),
    )


tensions = jnp.linspace(0, 8, 9)  # [N]
s = jnp.linspace(0, length, 200)  # [m]
figure, panels = plt.subplots(
    1, 2, figsize=(7, 5.2), layout="constrained", sharey=True, sharex=True
)
for axes, name, tip in zip(panels, ("cylinder", "taper"), (base, 0.005), strict=True):
    robot = arm(tip)
    still = jax.vmap(lambda u, robot=robot: robot.static_equilibrium(u))(tensions[:, None])
    assert (still.result == 0).all()
    shapes = jax.vmap(lambda q, robot=robot: robot.forward_kinematics_batched(q, s))(still.q)
    for tension, shape in zip(tensions, 1e3 * shapes[:, :, 1:], strict=True):
        axes.plot(*shape.T, color=plt.cm.viridis(0.95 * tension / tensions[-1]), lw=2.2)
    axes.plot(0, 0, "s", color="black", ms=9)
    axes.set(title=f"{name}, radius {1e3 * tip:.0f} mm at the tip", aspect="equal")
    axes.set_xlabel("x [mm]")
    axes.grid(alpha=0.3)

    turn = shapes[-1, -1, 0] - shapes[0, -1, 0]  # [rad]
    radius = base + (tip - base) * s / length
    balance = jnp.trapezoid(tensions[-1] * 0.75 * radius / (1e6 * jnp.pi * radius**4 / 4), s)
    print(f"{name:9s} turns by {jnp.rad2deg(turn):5.1f} deg, {turn / balance:.4f} of the integral")
panels[0].set_ylabel("y [mm]")
colors = ScalarMappable(Normalize(0, float(tensions[-1])), plt.cm.viridis)
figure.colorbar(colors, ax=panels, label="tension [N]", shrink=0.8)
figure.savefig("equilibrium_shapes.png", dpi=150)
