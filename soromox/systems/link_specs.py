"""One link in the words of a designer, and how a list of them becomes arrays."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from soromox.numerics.checks import ArrayLike, as_array, float_dtype
from soromox.systems.continuum_links import (
    ContinuumLinkParams,
    ElasticMaterial,
    ExplicitMaterial,
    integrated_material,
    shear_from_poisson,
)
from soromox.systems.sections import (
    DIMENSIONS,
    CrossSectionGeometry,
    LinearProfile,
    Torsion,
    stack,
)


class LinkSpec(eqx.Module):
    """One link: shape, material and rest strain. Make it with `circular`, `rectangular` or
    `elliptical`.

    **Arguments** (keywords of all three):

    - `length` [m], `density` [kg/m^3]; `radius`, or `height` (along y) and `width` (along z), or
      `semi_major` (along y) and `semi_minor` (along z) [m], each a number or a `LinearProfile`.
    - `young_modulus` [Pa] with `poisson_ratio` or `shear_modulus` [Pa], and
      `material_damping_coefficient` [Pa s] (none by default); or matrices `stiffness` and
      `damping` (d, d), integrated over the link, which count where both are given. A link behind a
      rigid host needs none of them.
    - `reference_strain` (d,): the rest shape, straight by default.
    - `torsion` and `shear_correction`: see `CrossSectionGeometry`.

    Raises `ValueError` when both or neither of `poisson_ratio` and `shear_modulus` are given.
    """

    shape: str = eqx.field(static=True)
    dimensions: tuple[ArrayLike | LinearProfile, ...]
    length: ArrayLike
    density: ArrayLike
    young_modulus: ArrayLike | None
    shear_modulus: ArrayLike | None
    material_damping_coefficient: ArrayLike | None
    stiffness: ArrayLike | None
    damping: ArrayLike | None
    reference_strain: ArrayLike | None
    shear_correction: ArrayLike
    torsion: Torsion = eqx.field(static=True)

    def __init__(
        self,
        shape: str,
        dimensions: tuple[ArrayLike | LinearProfile, ...],
        *,
        length: ArrayLike,
        density: ArrayLike,
        young_modulus: ArrayLike | None = None,
        poisson_ratio: ArrayLike | None = None,
        shear_modulus: ArrayLike | None = None,
        material_damping_coefficient: ArrayLike | None = None,
        stiffness: ArrayLike | None = None,
        damping: ArrayLike | None = None,
        reference_strain: ArrayLike | None = None,
        torsion: Torsion = "polar",
        shear_correction: ArrayLike = 1.0,
    ):
        if young_modulus is None:
            if (poisson_ratio, shear_modulus) != (None, None):
                raise ValueError("`poisson_ratio` and `shear_modulus` need a `young_modulus`.")
        elif (poisson_ratio is None) == (shear_modulus is None):
            raise ValueError(
                "`young_modulus` needs either `poisson_ratio` or `shear_modulus`, one of them."
            )
        elif shear_modulus is None:
            shear_modulus = shear_from_poisson(young_modulus, poisson_ratio)
        self.shape, self.dimensions = shape, dimensions
        self.length, self.density = length, density
        self.young_modulus, self.shear_modulus = young_modulus, shear_modulus
        self.material_damping_coefficient = material_damping_coefficient
        self.stiffness, self.damping = stiffness, damping
        self.reference_strain = (
            np.asarray(reference_strain)
            if isinstance(reference_strain, (list, tuple)) and _is_known(reference_strain)
            else reference_strain
        )
        self.torsion, self.shear_correction = torsion, shear_correction

    @classmethod
    def circular(cls, *, radius: ArrayLike | LinearProfile, **keywords) -> "LinkSpec":
        """A link with circular sections."""
        return cls("circular", (radius,), **keywords)

    @classmethod
    def rectangular(
        cls, *, height: ArrayLike | LinearProfile, width: ArrayLike | LinearProfile, **keywords
    ) -> "LinkSpec":
        """A link with rectangular sections, `height` along y and `width` along z."""
        return cls("rectangular", (height, width), **keywords)

    @classmethod
    def elliptical(
        cls,
        *,
        semi_major: ArrayLike | LinearProfile,
        semi_minor: ArrayLike | LinearProfile,
        **keywords,
    ) -> "LinkSpec":
        """A link with elliptical sections, `semi_major` along y and `semi_minor` along z."""
        return cls("elliptical", (semi_major, semi_minor), **keywords)

    @property
    def has_stiffness(self) -> bool:
        return self.young_modulus is not None or self.stiffness is not None


def link_params(
    links: Sequence[LinkSpec] | LinkSpec,
    *,
    is_planar: bool,
    num_gauss_points: int = 5,
    is_soft: Sequence[bool] | None = None,
) -> ContinuumLinkParams:
    """The arrays of a list of links.

    If a link brings matrices, all links get matrices, elastic ones those of their sections
    (integrated with `num_gauss_points`). Links that are not `is_soft` need no material.

    Raises `ValueError` that names the link and the field.
    """
    links = [links] if isinstance(links, LinkSpec) else list(links)
    if not links:
        raise ValueError("`links` needs at least one LinkSpec, got none.")
    for i, link in enumerate(links):
        if not isinstance(link, LinkSpec):
            raise TypeError(f"`links[{i}]` needs a LinkSpec, got {type(link).__name__}.")
        if not link.has_stiffness and (is_soft is None or is_soft[i]):
            raise ValueError(
                f"`links[{i}]` bends: it needs `young_modulus` and `poisson_ratio` or "
                "`shear_modulus`, or a `stiffness` matrix."
            )
    if len({link.torsion for link in links}) > 1:
        raise ValueError("`torsion` must be the same for all links of a robot.")
    dtype = float_dtype(*jax.tree.leaves(links))
    d = 3 if is_planar else 6
    straight = np.eye(d)[d // 2 if not is_planar else 1]

    def column(get: Callable[[LinkSpec], ArrayLike | None], name: str, default=0.0, shape=()):
        values = [get(link) for link in links]
        return stack(
            [
                as_array(default if x is None else x, f"links[{i}].{name}", dtype, shape)
                for i, x in enumerate(values)
            ]
        )

    sections = _sections(links, dtype, column(lambda x: x.shear_correction, "shear_correction"))
    elastic = ElasticMaterial(
        column(lambda x: x.young_modulus, "young_modulus"),
        column(lambda x: x.shear_modulus, "shear_modulus"),
        column(lambda x: x.material_damping_coefficient, "material_damping_coefficient"),
    )
    params = ContinuumLinkParams(
        column(lambda x: x.length, "length", None),
        column(lambda x: x.density, "density", None),
        column(lambda x: x.reference_strain, "reference_strain", straight, (d,)),
        sections,
        elastic,
    )
    given = [(link.stiffness is not None, link.damping is not None) for link in links]
    if not any(any(pair) for pair in given):
        return params
    if all(all(pair) for pair in given):
        zero = np.zeros((d, d))
        own = ExplicitMaterial(zero[None], zero[None])
    else:
        own = integrated_material(params, num_gauss_points)

    def chosen(name: str, which: int) -> Array:
        old = getattr(own, name)
        return stack(
            [
                as_array(getattr(link, name), f"links[{i}].{name}", dtype, (d, d))
                if given[i][which]
                else old[i]
                for i, link in enumerate(links)
            ]
        )

    material = ExplicitMaterial(chosen("stiffness", 0), chosen("damping", 1))
    return ContinuumLinkParams(
        params.length, params.density, params.reference_strain, sections, material
    )


def _sections(links: list[LinkSpec], dtype: np.dtype, shear: Array) -> CrossSectionGeometry:
    columns = max(len(link.dimensions) for link in links)

    def ends(which: str) -> Array:
        rows = []
        for i, link in enumerate(links):
            names = DIMENSIONS[link.shape]
            row = [
                as_array(
                    getattr(x, which) if isinstance(x, LinearProfile) else x,
                    f"links[{i}].{name}",
                    dtype,
                    (),
                )
                for x, name in zip(link.dimensions, names, strict=True)
            ]
            rows.append(stack(row * columns if len(row) < columns else row))
        return stack(rows)

    profiles = [x for link in links for x in link.dimensions]
    is_tapered = any(isinstance(x, LinearProfile) for x in profiles)
    return CrossSectionGeometry(
        [link.shape for link in links],
        ends("base"),
        ends("tip") if is_tapered else None,
        shear,
        links[0].torsion,
    )


def _is_known(values: Sequence) -> bool:
    return not any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(values))
