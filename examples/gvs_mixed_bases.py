"""A cantilever of two links whose strains are spanned by different functions.

Bending of the first link is a Legendre polynomial of order 2, which holds the exact curvature of a rod under
its own weight; the second link has four Gaussian bumps; torsion and stretch are constant along
a link. The last number is the deflection of the tip divided by Euler and Bernoulli's `w L^4 / (8 E I)`, 1 up to
the error of the Gaussians, some 1e-4.
"""

import jax
import jax.numpy as jnp

from soromox.systems import GVS, GVSSegment, LinkSpec, StrainBasisSpec, base_poses


jax.config.update("jax_enable_x64", True)

radius, density, young_modulus = 0.005, 1200.0, 1e9  # [m], [kg/m^3], [Pa]
link = LinkSpec.circular(
    length=0.15,  # [m]
    radius=radius,
    density=density,
    young_modulus=young_modulus,
    poisson_ratio=0.4,
)
components = ["kappa_x", "kappa_y", "kappa_z", "sigma_x"]  # no shear, as in Euler-Bernoulli
polynomials = StrainBasisSpec("legendre", components, basis_order=[0, 2, 2, 0, 0, 0])
bumps = StrainBasisSpec("gaussian", components, basis_order=[0, 3, 3, 0, 0, 0])
arm = GVS.from_segments(
    [
        GVSSegment(link, basis=polynomials),
        GVSSegment(link, basis=bumps, num_gauss_points=8),
    ],
    actuators=(),
    base_pose=base_poses.horizontal(),
)
print(f"{arm.num_dofs} coordinates: 2 + 2 x 3 of the first link, 2 + 2 x 4 of the second")

q = arm.static_equilibrium().q
weight = density * jnp.pi * radius**2 * 9.81  # [N/m]
stiffness = young_modulus * jnp.pi * radius**4 / 4  # [N m^2]
length = arm.length

print("s [m]   curvature, ours and w (L - s)^2 / 2EI [1/m]")
for s in (0.0, 0.075, 0.1499, 0.1501, 0.225, 0.3):
    exact = weight * (length - s) ** 2 / (2 * stiffness)
    print(f"{s:.4f}  {arm.strain(q, s)[1]:9.5f} {exact:9.5f}")

drop = -arm.forward_kinematics(q, length)[2, 3]
theory = weight * length**4 / (8 * stiffness)
print(f"the tip sinks by {1e3 * drop:.4f} mm, {drop / theory:.5f} of w L^4 / 8EI")
