"""Named changes of the numbers of links."""

import jax

from soromox.numerics.checks import ArrayLike, broadcast
from soromox.systems.continuum_links import (
    ContinuumLinkParams,
    ElasticMaterial,
    ExplicitMaterial,
    integrated_material,
    shear_from_poisson,
)
from soromox.systems.sections import LinearProfile


def updated_links(
    link: ContinuumLinkParams, changes: dict[str, ArrayLike | LinearProfile], num_gauss_points: int
) -> ContinuumLinkParams:
    """See `ContinuumRobot.update_link_params`."""
    section, material = link.cross_section, link.material
    elastic = (
        "young_modulus",
        "shear_modulus",
        "poisson_ratio",
        "material_damping_coefficient",
    )
    plain, moduli, matrices = {}, {}, {}
    for name, value in changes.items():
        if name in ("length", "density", "reference_strain"):
            plain[name] = _like(getattr(link, name), value, name)
        elif name in section.dimension_names:
            section = section.with_dimension(name, value)
        elif name == "shear_correction":
            section = section.replace(shear_correction=_like(section.shear_correction, value, name))
        elif name in ("stiffness", "damping"):
            matrices[name] = value
        elif name in elastic and isinstance(material, ElasticMaterial):
            moduli[name] = value
        elif name in elastic:
            raise ValueError(
                f"`{name}` has no effect on explicit `stiffness` and `damping` matrices: change "
                "those, or reconstruct the links with an ElasticMaterial."
            )
        else:
            known = ("length", "density", "reference_strain", *section.dimension_names)
            own = elastic if isinstance(material, ElasticMaterial) else ()
            names = (*known, "shear_correction", *own, "stiffness", "damping")
            raise ValueError(f"Links have no `{name}`; they have: {', '.join(names)}.")
    hidden = {
        "stiffness": ("young_modulus", "shear_modulus", "poisson_ratio"),
        "damping": ("material_damping_coefficient",),
    }
    for matrix, names in hidden.items():
        for name in names:
            if matrix in matrices and name in moduli:
                raise ValueError(
                    f"Give `{matrix}` or `{name}`, not both: the matrix would hide it."
                )
    if moduli:
        material = _updated_elastic(material, moduli)
    link = link.replace(cross_section=section, material=material, **plain)
    return _with_matrices(link, matrices, num_gauss_points) if matrices else link


def _updated_elastic(
    material: ElasticMaterial, changes: dict[str, ArrayLike | LinearProfile]
) -> ElasticMaterial:
    changes = dict(changes)
    young = _like(
        material.young_modulus,
        changes.pop("young_modulus", material.young_modulus),
        "young_modulus",
    )
    if "poisson_ratio" in changes:
        if "shear_modulus" in changes:
            raise ValueError("Give `shear_modulus` or `poisson_ratio`, not both.")
        changes["shear_modulus"] = shear_from_poisson(young, changes.pop("poisson_ratio"))
    named = {name: _like(getattr(material, name), x, name) for name, x in changes.items()}
    return material.replace(young_modulus=young, **named)


def _with_matrices(
    link: ContinuumLinkParams, matrices: dict[str, ArrayLike], num_gauss_points: int
) -> ContinuumLinkParams:
    if isinstance(link.material, ExplicitMaterial):
        return link.replace(material=link.material.replace(**matrices))
    if any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves((link, matrices))):
        raise ValueError(
            f"`{next(iter(matrices))}` would turn elastic links into explicit ones, which changes "
            "the structure of the robot: not under `jit` or `grad`. Construct the links with "
            "explicit `stiffness` and `damping` matrices."
        )
    explicit = integrated_material(link, num_gauss_points).replace(**matrices)
    return ContinuumLinkParams(
        link.length, link.density, link.reference_strain, link.cross_section, explicit
    )


def _like(old: jax.Array, value: ArrayLike, name: str) -> jax.Array:
    return broadcast(value, name, old.dtype, old.size) if old.ndim == 1 else value
