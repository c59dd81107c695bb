"""What a chain of variable-strain links is made of: segments, their numbers, their structure."""

import dataclasses
from collections.abc import Sequence

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from soromox.numerics.checks import ArrayLike, as_array, check_finite
from soromox.numerics.parameters import Parameters
from soromox.systems.continuum_links import ContinuumLinkParams
from soromox.systems.joints import JointParams, JointSpec, JointType
from soromox.systems.link_specs import LinkSpec, link_params
from soromox.systems.strain_bases import StrainBasis, StrainBasisSpec


_RIGID = StrainBasis("monomial", (None,) * 6)
_LEAST_POINTS = 5


class GVSSegment(eqx.Module):
    """A joint and the link behind it.

    - `basis`: how the link's strain is spanned; `None` (or a basis without active strains) makes
      the link rigid.
    - `num_gauss_points`: nodes along the link, at least 5 unless it is rigid, and no fewer than a
      strain component has functions (the stiffness of the link would be singular).
    """

    link: LinkSpec
    joint: JointSpec
    basis: StrainBasis = eqx.field(static=True)
    num_gauss_points: int = eqx.field(static=True)

    def __init__(
        self,
        link: LinkSpec,
        joint: JointSpec | None = None,
        basis: StrainBasisSpec | None = None,
        num_gauss_points: int = 5,
    ):
        joint = JointSpec.fixed() if joint is None else joint
        given = {"link": (link, LinkSpec), "joint": (joint, JointSpec)}
        if basis is not None:
            given["basis"] = (basis, StrainBasisSpec)
        for name, (value, kind) in given.items():
            if not isinstance(value, kind):
                raise TypeError(f"`{name}` needs a {kind.__name__}, got {type(value).__name__}.")
        self.link, self.joint = link, joint
        self.basis = _RIGID if basis is None else basis.basis
        self.num_gauss_points = num_gauss_points


class GVSParams(Parameters):
    """Numbers of a chain of N segments.

    - `link`: the links. Explicit matrices are spread evenly over their link.
    - `joint`: one `JointParams` for each segment, `None` where the joint is fixed.
    - `gravity` (3,) in the world frame [m/s^2].
    """

    link: ContinuumLinkParams
    joint: tuple[JointParams | None, ...]
    gravity: Float[Array, "3"]

    def __init__(
        self,
        link: ContinuumLinkParams,
        joint: tuple[JointParams | None, ...],
        gravity: ArrayLike = (0.0, 0.0, -9.81),
    ):
        if not isinstance(link, ContinuumLinkParams):
            raise TypeError(f"`link` needs ContinuumLinkParams, got {type(link).__name__}.")
        if link.strain_size != 6:
            raise ValueError(f"`link.reference_strain` needs (N, 6), got (N, {link.strain_size}).")
        if len(joint) != link.num_links:
            raise ValueError(
                f"`joint` needs one entry per link: {link.num_links}, got {len(joint)}."
            )
        dtype = link.length.dtype
        self.link = link
        self.joint = jax.tree.map(lambda leaf: as_array(leaf, "joint", dtype), tuple(joint))
        self.gravity = as_array(gravity, "gravity", dtype, (3,))
        check_finite(self.gravity, "gravity")


@dataclasses.dataclass(frozen=True)
class GVSStructure:
    """What is fixed about a chain of N segments: kinds of joints, bases, numbers of nodes."""

    joints: tuple[JointType, ...]
    bases: tuple[StrainBasis, ...]
    num_gauss_points: tuple[int, ...]

    def __post_init__(self):
        if len({len(self.joints), len(self.bases), len(self.num_gauss_points)}) > 1:
            raise ValueError(
                f"`joints`, `bases` and `num_gauss_points` need one entry per segment, got "
                f"{len(self.joints)}, {len(self.bases)} and {len(self.num_gauss_points)}."
            )
        for i, (points, basis) in enumerate(zip(self.num_gauss_points, self.bases, strict=True)):
            least = _LEAST_POINTS if basis.num_functions else 1
            if isinstance(points, bool) or not isinstance(points, int) or points < least:
                kind = "a link that bends" if basis.num_functions else "a rigid link"
                raise ValueError(
                    f"`num_gauss_points` of segment {i} ({kind}) must be a whole number of at "
                    f"least {least}, got {points!r}."
                )
            if points < basis.most_functions:
                raise ValueError(
                    f"`num_gauss_points` of segment {i} must be at least {basis.most_functions}, the "
                    f"functions of one strain in its basis: {points} points would leave shapes "
                    "without stiffness."
                )

    @property
    def num_coordinates(self) -> tuple[int, ...]:
        """Coordinates of each body: the joints (but fixed ones) and links in order."""
        counts = []
        for joint, basis in zip(self.joints, self.bases, strict=True):
            counts += [joint.num_coordinates] if joint.num_coordinates else []
            counts.append(basis.num_functions)
        return tuple(counts)

    @property
    def link_bodies(self) -> tuple[int, ...]:
        """The body of each segment's link."""
        has_joint = [joint.num_coordinates > 0 for joint in self.joints]
        return tuple(i + int(n) for i, n in enumerate(np.cumsum(has_joint)))

    @property
    def soft_segments(self) -> tuple[int, ...]:
        return tuple(i for i, basis in enumerate(self.bases) if basis.num_functions)

    @property
    def rigid_segments(self) -> tuple[int, ...]:
        return tuple(i for i, basis in enumerate(self.bases) if not basis.num_functions)

    def joint_start(self, segment: int) -> int:
        """Where the coordinates of a segment's joint begin among the internal ones."""
        body = self.link_bodies[segment] - bool(self.joints[segment].num_coordinates)
        return sum(self.num_coordinates[:body])


def segment_parts(
    segments: Sequence[GVSSegment] | GVSSegment, gravity: ArrayLike | None
) -> tuple[GVSParams, GVSStructure]:
    """The numbers and the structure of a list of segments."""
    segments = (segments,) if isinstance(segments, GVSSegment) else tuple(segments)
    for i, segment in enumerate(segments):
        if not isinstance(segment, GVSSegment):
            raise TypeError(f"`segments[{i}]` needs a GVSSegment, got {type(segment).__name__}.")
    structure = GVSStructure(
        tuple(segment.joint.type for segment in segments),
        tuple(segment.basis for segment in segments),
        tuple(segment.num_gauss_points for segment in segments),
    )
    link = link_params(
        [segment.link for segment in segments],
        is_planar=False,
        num_gauss_points=max(structure.num_gauss_points, default=_LEAST_POINTS),
        is_soft=[segment.basis.num_functions > 0 for segment in segments],
    )
    joint = tuple(segment.joint.params(link.length.dtype) for segment in segments)
    params = GVSParams(link, joint) if gravity is None else GVSParams(link, joint, gravity)
    return params, structure


def check_match(params: GVSParams, structure: GVSStructure) -> None:
    if len(structure.joints) != params.link.num_links:
        raise ValueError(
            f"`structure` needs one segment per link: {params.link.num_links}, got "
            f"{len(structure.joints)}."
        )
    for i, (joint, numbers) in enumerate(zip(structure.joints, params.joint, strict=True)):
        needed = {
            "axis": joint.is_screw,
            "pitch": joint.kind == "helical",
            "stiffness": joint.num_coordinates > 0,
        }
        given = {name: getattr(numbers, name, None) is not None for name in needed}
        if needed != given:
            raise ValueError(
                f"`joint[{i}]` of `params` does not fit a {joint.kind} joint: make it with "
                f"`JointSpec.{joint.kind}`."
            )
