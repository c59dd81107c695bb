"""Rods of segments with constant strain, in space and in the plane."""

from collections.abc import Sequence
from typing import ClassVar, TypeVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from soromox.actuation import Actuator, PassiveElement
from soromox.chain import ConstantStrainBodies, kinematics
from soromox.numerics import einsum
from soromox.numerics.checks import ArrayLike, as_array, check_finite, float_dtype, whole_number
from soromox.numerics.parameters import Parameters
from soromox.systems.continuum_links import ContinuumLinkParams, gauss_fractions
from soromox.systems.continuum_robot import ContinuumRobot
from soromox.systems.installation import (
    check_list,
    install_actuators,
    install_base,
    install_params,
    install_passive_elements,
)
from soromox.systems.link_specs import LinkSpec, link_params
from soromox.systems.plan import BaseLink, BodyPlan


RodT = TypeVar("RodT", bound="ConstantStrainRod")


class PCSParams(Parameters):
    """Numbers of a rod in space: its segments, and gravity (3,) in the world frame [m/s^2]."""

    link: ContinuumLinkParams
    gravity: Float[Array, "3"]

    def __init__(self, link: ContinuumLinkParams, gravity: ArrayLike = (0.0, 0.0, -9.81)):
        self.link, self.gravity = _checked(link, gravity, 6)


class PlanarPCSParams(Parameters):
    """Numbers of a rod in the plane: its segments, and gravity (2,) in the world frame [m/s^2]."""

    link: ContinuumLinkParams
    gravity: Float[Array, "2"]

    def __init__(self, link: ContinuumLinkParams, gravity: ArrayLike = (0.0, -9.81)):
        self.link, self.gravity = _checked(link, gravity, 3)


class PCSStructure(eqx.Module):
    """What is fixed about a rod of N segments with d strains each.

    - `num_gauss_points`: points per segment at which mass and sections are integrated.
    - `strain_selector`: mask of the strains that may change, (N, d), flattened, or (d,) for all
      segments alike; `None` frees all. The others keep their reference value.
    - `scale_rotational_basis_by_length`: coordinates of bending and torsion are angles over a
      segment [rad] instead of curvatures [rad/m].
    """

    num_gauss_points: int = eqx.field(static=True)
    strain_selector: tuple[bool, ...] | None = eqx.field(static=True)
    scale_rotational_basis_by_length: bool = eqx.field(static=True)

    def __init__(
        self,
        num_gauss_points: int = 5,
        strain_selector: ArrayLike | None = None,
        scale_rotational_basis_by_length: bool = False,
    ):
        self.num_gauss_points = whole_number(
            num_gauss_points, "`num_gauss_points` must be a whole number of at least 1"
        )
        if not isinstance(scale_rotational_basis_by_length, (bool, np.bool_)):
            raise TypeError(
                "`scale_rotational_basis_by_length` needs True or False, got "
                f"{scale_rotational_basis_by_length!r}."
            )
        self.scale_rotational_basis_by_length = bool(scale_rotational_basis_by_length)
        if strain_selector is None:
            self.strain_selector = None
            return
        mask = np.asarray(strain_selector)
        if not np.all((mask == 0) | (mask == 1)):
            raise ValueError(f"`strain_selector` needs True/False or 1/0, got {strain_selector!r}.")
        self.strain_selector = tuple(bool(x) for x in mask.ravel())

    def selected(self, num_segments: int, strain_size: int) -> np.ndarray:
        """The mask of a rod, (N, d); raises `ValueError` for a wrong size or no strain at all."""
        shape = (num_segments, strain_size)
        if self.strain_selector is None:
            return np.ones(shape, dtype=bool)
        mask = np.array(self.strain_selector)
        if mask.size not in (strain_size, num_segments * strain_size):
            raise ValueError(
                f"`strain_selector` needs {strain_size} entries for all segments alike or "
                f"{num_segments} x {strain_size}, got {mask.size}."
            )
        if not mask.any():
            raise ValueError("`strain_selector` must select at least one strain.")
        return np.broadcast_to(mask.reshape(-1, strain_size), shape)


# The same for the plane, where d = 3.
PlanarPCSStructure = PCSStructure


class ConstantStrainRod(ContinuumRobot):
    """What rods of constant-strain segments share in space and in the plane."""

    kind_of_params: eqx.AbstractClassVar[type[Parameters]]
    structure: eqx.AbstractVar[PCSStructure]

    # the same for both, so the constructor stands here and not with the fields
    def __init__(
        self,
        params: PCSParams | PlanarPCSParams,
        structure: PCSStructure | None = None,
        *,
        actuators: Actuator | tuple[Actuator, ...] | None = None,
        passive_elements: PassiveElement | tuple[PassiveElement, ...] | None = None,
        base_pose: ArrayLike | None = None,
        floating_base: bool | BaseLink | None = False,
    ):
        self.params = install_params(params, self.kind_of_params)
        self.structure = _structure(structure)
        self.actuators = install_actuators(actuators, self.num_internal_dofs)
        self.passive_elements = install_passive_elements(passive_elements)
        self.base_pose, self.floating_base = install_base(
            base_pose, floating_base, self.is_planar, self.dtype
        )

    @classmethod
    def from_links(
        cls: type[RodT],
        links: Sequence[LinkSpec] | LinkSpec,
        gravity: ArrayLike | None = None,
        structure: PCSStructure | None = None,
        **keywords,
    ) -> RodT:
        """A rod of these links, base to tip; keywords as in the constructor."""
        check_list(links, LinkSpec, "links")
        link = link_params(
            links,
            is_planar=cls.kind_of_params is PlanarPCSParams,
            num_gauss_points=_structure(structure).num_gauss_points,
        )
        given = () if gravity is None else (gravity,)
        return cls(cls.kind_of_params(link, *given), structure, **keywords)

    @property
    def is_planar(self) -> bool:
        return self.params.link.strain_size == 3

    @property
    def num_segments(self) -> int:
        return self.params.link.num_links

    @property
    def num_internal_dofs(self) -> int:
        return int(self._selected.sum())

    @property
    def num_gauss_points(self) -> int:
        return self.structure.num_gauss_points

    def strain(self, q: ArrayLike, s: ArrayLike | None = None) -> Float[Array, "*segments d"]:
        """Strain of every segment, `B q + reference_strain`, or of the one at arc length `s` [m]."""
        return self._run(_strain, q=q) if s is None else self._at(_strain_at, q, s, None)

    def body_plan(self) -> BodyPlan:
        link, group = self.params.link, self.group
        segments = tuple(range(link.num_links))
        counts = tuple(int(count) for count in self._selected.sum(axis=1))
        X, weights = gauss_fractions(link, self.num_gauss_points)
        measure = (link.length[:, None] * weights)[..., None, None]
        basis, picks = self._basis()
        bodies = ConstantStrainBodies(
            group,
            basis,
            picks,
            link.reference_strain,
            link.length,
            X,
            weights,
            measure * link.inertia_density(X),
        )
        blocks = [
            einsum("bdm,bde,ben->bmn", basis, (measure * density).sum(axis=1), basis)
            for density in (link.stiffness_density(X), link.damping_density(X))
        ]
        zeros = jnp.zeros(sum(counts), link.length.dtype)
        return BodyPlan(
            kinds=(bodies,),
            members=(segments,),
            parents=tuple(i - 1 for i in segments),
            backbone=segments,
            stiffness=(blocks[0],),
            damping=(blocks[1],),
            armature=zeros,
            rest=zeros,
            gravity=self.params.gravity,
            coordinates=counts,
        )

    @property
    def _selected(self) -> np.ndarray:
        link = self.params.link
        return self.structure.selected(link.num_links, link.strain_size)

    def _basis(self) -> tuple[Float[Array, "bodies d n"], tuple[int, ...] | None]:
        """`B` of each segment, and the strains it picks if they are the same, unscaled, on all."""
        mask, link = self._selected, self.params.link
        basis = np.zeros((*mask.shape, mask.sum(axis=1).max()))
        for segment, row in enumerate(mask):
            strains = np.flatnonzero(row)
            basis[segment, strains, np.arange(len(strains))] = 1
        basis = jnp.asarray(basis.astype(link.length.dtype))
        if self.structure.scale_rotational_basis_by_length:
            num_rotational = 3 if link.strain_size == 6 else 1
            rotational = (np.arange(link.strain_size) < num_rotational)[None, :, None]
            return jnp.where(rotational, basis / link.length[:, None, None], basis), None
        is_uniform = bool((mask == mask[0]).all())
        return basis, tuple(np.flatnonzero(mask[0]).tolist()) if is_uniform else None


class PCS(ConstantStrainRod):
    """A rod of segments of constant strain in space (piecewise constant strain).

    `q` holds the active strains segment by segment, as deviations from the reference. The base is
    upright by default (local x up); `base_pose` is `[qx, qy, qz, qw, x, y, z]` or 4x4, and
    `floating_base` frees it. `actuators=None` installs one generalized force per strain.
    """

    kind_of_params: ClassVar[type[Parameters]] = PCSParams

    params: PCSParams
    structure: PCSStructure
    actuators: tuple[Actuator, ...]
    passive_elements: tuple[PassiveElement, ...]
    base_pose: Float[Array, "7"] | None
    floating_base: BaseLink | None


class PlanarPCS(ConstantStrainRod):
    """A rod of segments of constant strain in the plane.

    `q` holds the active strains segment by segment, as deviations from the reference. The base is
    upright by default (+y); `base_pose` is `[theta, x, y]`, and `floating_base` frees it.
    `actuators=None` installs one generalized force per strain.
    """

    kind_of_params: ClassVar[type[Parameters]] = PlanarPCSParams

    params: PlanarPCSParams
    structure: PCSStructure
    actuators: tuple[Actuator, ...]
    passive_elements: tuple[PassiveElement, ...]
    base_pose: Float[Array, "3"] | None
    floating_base: BaseLink | None


def _structure(structure: PCSStructure | None) -> PCSStructure:
    if structure is None:
        return PCSStructure()
    if not isinstance(structure, PCSStructure):
        raise TypeError(f"`structure` needs a PCSStructure, got {type(structure).__name__}.")
    return structure


def _strain(robot: ConstantStrainRod, q: Array) -> Array:
    chain = robot.mechanics().chain
    return chain.kinds[-1].strain(kinematics.local_coordinates(chain, q)[-1])


def _strain_at(robot: ConstantStrainRod, q: Array, s: Array, body: None) -> Array:
    chain = robot.mechanics().chain
    place, _ = kinematics.locate(chain, s, chain.backbone[-1])
    return _strain(robot, q)[place - chain.backbone[0]]


def _checked(
    link: ContinuumLinkParams, gravity: ArrayLike, strain_size: int
) -> tuple[ContinuumLinkParams, Array]:
    if not isinstance(link, ContinuumLinkParams):
        raise TypeError(f"`link` needs ContinuumLinkParams, got {type(link).__name__}.")
    if link.strain_size != strain_size:
        raise ValueError(
            f"`link.reference_strain` needs {strain_size} strains per segment here, got "
            f"{link.strain_size}: PCS has 6, PlanarPCS has 3."
        )
    points = (strain_size + 3) // 3  # 3 in space, 2 in the plane
    gravity = as_array(gravity, "gravity", float_dtype(link.length), (points,))
    check_finite(gravity, "gravity")
    return link, gravity
