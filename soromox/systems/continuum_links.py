"""Numbers of links that bend: geometry, density and material of N links, one after the other."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from soromox.numerics import gauss_legendre
from soromox.numerics.checks import (
    ArrayLike,
    as_array,
    broadcast,
    check_finite,
    check_non_negative,
    check_numbers,
    check_positive,
    check_psd,
    check_values,
    concrete,
    float_dtype,
)
from soromox.numerics.parameters import Parameters
from soromox.systems.sections import CrossSectionGeometry


class ElasticMaterial(Parameters):
    """Isotropic material; stiffness and damping of a link follow its geometry.

    **Arguments** (a number for all links or one value each):

    - `young_modulus` E [Pa]; `shear_modulus` G [Pa], or `poisson_ratio` nu, which is converted
      once: `G = E / (2 (1 + nu))`. Later changes of E leave G as it is.
    - `material_damping_coefficient` eta [Pa s]: shear viscosity; stretching and bending see
      Trouton's `3 eta`.
    """

    young_modulus: Float[Array, " links"]
    shear_modulus: Float[Array, " links"]
    material_damping_coefficient: Float[Array, " links"]

    def __init__(
        self,
        young_modulus: ArrayLike,
        shear_modulus: ArrayLike | None = None,
        material_damping_coefficient: ArrayLike = 0.0,
        *,
        poisson_ratio: ArrayLike | None = None,
        num_links: int | None = None,
    ):
        given = (young_modulus, shear_modulus, material_damping_coefficient, poisson_ratio)
        dtype = float_dtype(*given)
        sizes = [np.size(value) for value in given if value is not None]
        n = max(sizes) if num_links is None else num_links
        self.young_modulus = broadcast(young_modulus, "young_modulus", dtype, n)
        if (shear_modulus is None) == (poisson_ratio is None):
            raise ValueError("Give either `shear_modulus` or `poisson_ratio`, one of them.")
        if shear_modulus is None:
            shear_modulus = shear_from_poisson(self.young_modulus, poisson_ratio)
        self.shear_modulus = broadcast(shear_modulus, "shear_modulus", dtype, n)
        self.material_damping_coefficient = broadcast(
            material_damping_coefficient, "material_damping_coefficient", dtype, n
        )
        for name in ("young_modulus", "shear_modulus", "material_damping_coefficient"):
            check_non_negative(getattr(self, name), name)


class ExplicitMaterial(Parameters):
    """Stiffness and damping matrices over the strains, integrated over each link.

    `stiffness`, `damping` (N, d, d), symmetric positive semi-definite. They do not follow changes
    of geometry.
    """

    stiffness: Float[Array, "links d d"]
    damping: Float[Array, "links d d"]

    def __init__(self, stiffness: ArrayLike, damping: ArrayLike):
        dtype = float_dtype(stiffness, damping)
        self.stiffness = as_array(stiffness, "stiffness", dtype)
        shape = self.stiffness.shape
        if len(shape) != 3 or shape[1] != shape[2]:
            raise ValueError(f"`stiffness` needs one matrix per link (N, d, d), got {shape}.")
        self.damping = as_array(damping, "damping", dtype, shape)
        check_psd(self.stiffness, "stiffness")
        check_psd(self.damping, "damping")


class ContinuumLinkParams(Parameters):
    """Numbers of N links that bend; a number stands for all links where (N,) is meant.

    **Arguments:**

    - `length` (N,) [m], `density` (N,) [kg/m^3].
    - `reference_strain` (N, d): the rest shape, `[kappa_x, kappa_y, kappa_z, sigma_x, sigma_y,
      sigma_z]` in space and `[kappa, sigma_x, sigma_y]` in the plane; straight is `sigma_x = 1`.
    - `cross_section`: shapes and dimensions.
    - `material`: `ElasticMaterial` or `ExplicitMaterial`.

    Raises `ValueError` for wrong shapes, lengths or densities that are not positive, NaN.
    """

    length: Float[Array, " links"]
    density: Float[Array, " links"]
    reference_strain: Float[Array, "links d"]
    cross_section: CrossSectionGeometry
    material: ElasticMaterial | ExplicitMaterial

    def __init__(
        self,
        length: ArrayLike,
        density: ArrayLike,
        reference_strain: ArrayLike,
        cross_section: CrossSectionGeometry,
        material: ElasticMaterial | ExplicitMaterial,
    ):
        if not isinstance(cross_section, CrossSectionGeometry):
            raise TypeError(
                f"`cross_section` needs a CrossSectionGeometry, got {type(cross_section).__name__}."
            )
        if not isinstance(material, (ElasticMaterial, ExplicitMaterial)):
            raise TypeError(
                "`material` needs an ElasticMaterial or an ExplicitMaterial, "
                f"got {type(material).__name__}."
            )
        numbers = (length, density, reference_strain)
        dtype = float_dtype(*numbers, *jax.tree.leaves((cross_section, material)))
        reference = as_array(reference_strain, "reference_strain", dtype)
        if reference.ndim != 2 or reference.shape[0] == 0 or reference.shape[1] not in (3, 6):
            raise ValueError(
                "`reference_strain` needs one row per link, (N, 6) in space or (N, 3) in the "
                f"plane, got {reference.shape}."
            )
        n, d = reference.shape
        self.length = broadcast(length, "length", dtype, n)
        self.density = broadcast(density, "density", dtype, n)
        self.reference_strain = reference
        if cross_section.num_links != n:
            raise ValueError(
                f"`cross_section` needs one section per link: {n}, got {cross_section.num_links}."
            )
        self.cross_section = _in_dtype(cross_section, dtype)
        leaves = jax.tree.leaves(material)
        if isinstance(material, ExplicitMaterial) and material.stiffness.shape != (n, d, d):
            raise ValueError(
                f"`stiffness` needs shape {(n, d, d)}, got {material.stiffness.shape}."
            )
        if isinstance(material, ElasticMaterial) and leaves[0].size not in (1, n):
            raise ValueError(f"`material` needs one value per link: {n}, got {leaves[0].size}.")
        if isinstance(material, ElasticMaterial) and leaves[0].size != n:
            material = ElasticMaterial(*(leaf[0] for leaf in leaves), num_links=n)
        self.material = _in_dtype(material, dtype)
        check_positive(self.length, "length")
        check_positive(self.density, "density")
        check_finite(self.reference_strain, "reference_strain")
        strain = concrete(self.reference_strain)
        if strain is not None:
            stretch = strain[:, 1 if d == 3 else 3]
            check_positive(stretch, "sigma_x of reference_strain (1: as long as `length`)")

    @property
    def num_links(self) -> int:
        return self.length.size

    @property
    def strain_size(self) -> int:
        """Number of strain components: 6 in space, 3 in the plane."""
        return self.reference_strain.shape[1]

    def inertia_density(self, X: Float[Array, "links nodes"]) -> Float[Array, "links nodes d d"]:
        """Spatial inertia per length at `X = s / L`: `rho diag(Ix, Iy, Iz, A, A, A)`."""
        section = self.cross_section.properties(X)
        Ix, Iy, Iz, A = section.Ix, section.Iy, section.Iz, section.area
        return _diagonals(self.strain_size, self.density[:, None], Ix, Iy, Iz, A, A)

    def stiffness_density(self, X: Float[Array, "links nodes"]) -> Float[Array, "links nodes d d"]:
        """Section stiffness `diag(G J, E Iy, E Iz, E A, G A, G A)`, plane `diag(E I, E A, G A)`."""
        material = self.material
        if isinstance(material, ExplicitMaterial):
            return self._constant(material.stiffness, X)
        E, G = material.young_modulus[:, None], material.shear_modulus[:, None]
        section = self.cross_section.properties(X)
        shear = self.cross_section.shear_correction[:, None] * G * section.area
        return _diagonals(
            self.strain_size,
            jnp.ones_like(E),
            G * section.torsion,
            E * section.Iy,
            E * section.Iz,
            E * section.area,
            shear,
        )

    def damping_density(self, X: Float[Array, "links nodes"]) -> Float[Array, "links nodes d d"]:
        """Section damping `eta diag(J, 3 Iy, 3 Iz, 3 A, A, A)`, plane `eta diag(3 I, 3 A, A)`."""
        material = self.material
        if isinstance(material, ExplicitMaterial):
            return self._constant(material.damping, X)
        section = self.cross_section.properties(X)
        return _diagonals(
            self.strain_size,
            material.material_damping_coefficient[:, None],
            section.torsion,
            3 * section.Iy,
            3 * section.Iz,
            3 * section.area,
            section.area,
        )

    def select(self, links: Sequence[int]) -> "ContinuumLinkParams":
        """The numbers of some links, in this order; may be traced."""
        links = list(links)
        if links == list(range(self.num_links)):
            return self
        pick = np.array(links)
        return type(self)(
            self.length[pick],
            self.density[pick],
            self.reference_strain[pick],
            self.cross_section.select(links),
            jax.tree.map(lambda leaf: leaf[pick], self.material),
        )

    def _constant(self, matrices: Array, X: Array) -> Array:
        # an explicit matrix is spread evenly over its link
        per_length = matrices / self.length[:, None, None]
        return jnp.broadcast_to(per_length[:, None], (*X.shape, *matrices.shape[1:]))


def shear_from_poisson(young_modulus: ArrayLike, poisson_ratio: ArrayLike) -> ArrayLike:
    """`G = E / (2 (1 + nu))`, for `-1 < nu <= 1/2`."""
    check_numbers(young_modulus, "young_modulus")
    check_numbers(poisson_ratio, "poisson_ratio")
    check_values(
        poisson_ratio,
        lambda nu: (nu > -1) & (nu <= 0.5),
        "`poisson_ratio` must lie in (-1, 0.5].",
    )
    concrete = not any(isinstance(x, jax.core.Tracer) for x in (young_modulus, poisson_ratio))
    if concrete:
        young_modulus, poisson_ratio = np.asarray(young_modulus), np.asarray(poisson_ratio)
        poisson_ratio = poisson_ratio.astype(young_modulus.dtype)
    else:
        poisson_ratio = jnp.asarray(poisson_ratio, jnp.asarray(young_modulus).dtype)
    return young_modulus / (2 * (1 + poisson_ratio))


@eqx.filter_jit
def integrated_material(link: ContinuumLinkParams, num_gauss_points: int) -> ExplicitMaterial:
    """Stiffness and damping matrices that the links have now, (N, d, d) each."""
    X, weights = gauss_fractions(link, num_gauss_points)
    length = link.length[:, None, None, None] * weights[..., None, None]
    matrices = link.stiffness_density(X), link.damping_density(X)
    return ExplicitMaterial(*((length * density).sum(axis=1) for density in matrices))


def gauss_fractions(
    link: ContinuumLinkParams, num_gauss_points: int
) -> tuple[Float[Array, "links nodes"], Float[Array, "links nodes"]]:
    """Gauss nodes `X = s / L` and weights of every link, in the dtype of its numbers."""
    rule = gauss_legendre(num_gauss_points)
    X, weights = (jnp.asarray(part, link.length.dtype) for part in rule)
    shape = (link.num_links, num_gauss_points)
    return jnp.broadcast_to(X, shape), jnp.broadcast_to(weights, shape)


def _diagonals(size: int, factor: Array, x: Array, y: Array, z: Array, along: Array, across: Array):
    """Diagonal matrices over the strains; in the plane bending is about z."""
    entries = [z, along, across] if size == 3 else [x, y, z, along, across, across]
    diagonal = factor[..., None] * jnp.stack(entries, axis=-1)
    return jax.vmap(jax.vmap(jnp.diag))(diagonal)


def _in_dtype(part, dtype: np.dtype):
    return jax.tree.map(lambda leaf: as_array(leaf, "params", dtype), part)
