"""Rods of variable strain, rigid links, and joints between them."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from soromox.actuation import Actuator, PassiveElement
from soromox.chain import Continuum, ScrewBodies, kinematics
from soromox.chain.bodies import AbstractBodies
from soromox.chain.joint_bodies import ProductJoints
from soromox.chain.variable_strain import VariableStrainBodies, gauss_nodes
from soromox.lie import se3
from soromox.numerics import einsum, matmul
from soromox.numerics.checks import ArrayLike, as_array, check_finite
from soromox.numerics.parameters import Parameters
from soromox.systems.continuum_links import ContinuumLinkParams
from soromox.systems.installation import install_actuators, install_base, install_passive_elements
from soromox.systems.joints import JointParams, JointSpec, JointType, joint_basis, joint_block
from soromox.systems.link_specs import LinkSpec, link_params
from soromox.systems.link_updates import LinkUpdates
from soromox.systems.plan import BaseLink, BodyPlan
from soromox.systems.strain_bases import StrainBasis, StrainBasisSpec


_RIGID = StrainBasis("monomial", (None,) * 6)
_LEAST_POINTS = 5


class GVSSegment(eqx.Module):
    """A joint and the link behind it.

    - `basis`: how the link's strain is spanned; `None` (or a basis without active strains) makes
      the link rigid.
    - `num_gauss_points`: nodes along the link, at least 5 unless it is rigid.
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

    def joint_start(self, segment: int) -> int:
        """Where the coordinates of a segment's joint begin among the internal ones."""
        body = self.link_bodies[segment] - bool(self.joints[segment].num_coordinates)
        return sum(self.num_coordinates[:body])


class JointCrossings(NamedTuple):
    """Motion of the discrete joints, for paths that cross them."""

    segments: tuple[int, ...]  # the segment behind each joint
    s: Float[Array, " joints"]  # [m] arc length of the joint
    rotation: Float[Array, "joints 3"]  # B_rot q, in the joint frame
    translation: Float[Array, "joints 3"]  # B_trans q [m]


class GVS(LinkUpdates, Continuum):
    """A serial chain of links of variable strain and rigid links, with joints between them
    (geometric variable strain).

    The strain of a link is `reference_strain + B(s / L) q`. `q` holds, segment by segment, the
    coordinates of the joint and then those of the link: component by component, each with its
    basis functions in order. The base is upright by default (local x up); `base_pose` is
    `[qx, qy, qz, qw, x, y, z]` or 4x4, and `floating_base` frees it. `actuators=None` installs one
    generalized force per coordinate.
    """

    params: GVSParams
    structure: GVSStructure = eqx.field(static=True)
    actuators: tuple[Actuator, ...]
    passive_elements: tuple[PassiveElement, ...]
    base_pose: Float[Array, "7"] | None
    floating_base: BaseLink | None

    def __init__(
        self,
        params: GVSParams,
        structure: GVSStructure,
        *,
        actuators: Actuator | tuple[Actuator, ...] | None = None,
        passive_elements: PassiveElement | tuple[PassiveElement, ...] | None = None,
        base_pose: ArrayLike | None = None,
        floating_base: bool | BaseLink | None = False,
    ):
        if not isinstance(params, GVSParams):
            raise TypeError(f"`params` needs GVSParams, got {type(params).__name__}.")
        if not isinstance(structure, GVSStructure):
            raise TypeError(f"`structure` needs a GVSStructure, got {type(structure).__name__}.")
        _check_match(params, structure)
        self.params, self.structure = params, structure
        self.base_pose, self.floating_base = install_base(
            base_pose, floating_base, False, params.link.length.dtype
        )
        if self.num_dofs == 0:
            raise ValueError(
                "A GVS needs at least one coordinate: give a joint that moves, an active strain, "
                "or a floating base."
            )
        self.actuators = install_actuators(actuators, self.num_internal_dofs)
        self.passive_elements = install_passive_elements(passive_elements)

    @classmethod
    def from_segments(
        cls,
        segments: Sequence[GVSSegment] | GVSSegment,
        gravity: ArrayLike | None = None,
        *,
        actuators: Actuator | tuple[Actuator, ...] | None = None,
        passive_elements: PassiveElement | tuple[PassiveElement, ...] | None = None,
        base_pose: ArrayLike | None = None,
        floating_base: bool | BaseLink | None = False,
    ) -> "GVS":
        """A chain of these segments, base to tip; keywords as in the constructor."""
        segments = (segments,) if isinstance(segments, GVSSegment) else tuple(segments)
        for i, segment in enumerate(segments):
            if not isinstance(segment, GVSSegment):
                raise TypeError(
                    f"`segments[{i}]` needs a GVSSegment, got {type(segment).__name__}."
                )
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
        return cls(
            params,
            structure,
            actuators=actuators,
            passive_elements=passive_elements,
            base_pose=base_pose,
            floating_base=floating_base,
        )

    @property
    def is_planar(self) -> bool:
        return False

    @property
    def num_segments(self) -> int:
        return len(self.structure.joints)

    @property
    def num_internal_dofs(self) -> int:
        return sum(self.structure.num_coordinates)

    @property
    def num_gauss_points(self) -> int:
        return max(self.structure.num_gauss_points)

    def strain(self, q: ArrayLike, s: ArrayLike) -> Float[Array, "6"]:
        """Strain at arc length `s` [m]."""
        return self._at(_strain_at, q, s, None)

    def update_joint_params(self, segment: int, **changes: ArrayLike) -> Self:
        """A robot with the named numbers of one segment's joint changed: `axis`, `pitch`,
        `stiffness`, `damping`.

        Raises `ValueError` for an unknown name, a wrong shape, or a joint that is fixed.
        """
        joint = self._moving_joint(segment).replace(**changes)
        return eqx.tree_at(lambda robot: robot.params.joint[segment], self, joint)

    def joint_crossings(self, q: Float[Array, " dofs"]) -> JointCrossings:
        """Motion of every joint that is not fixed, in its own frame: `B_rot q` and `B_trans q`.

        Threadlike paths that cross a joint take its share of their length from here.
        """
        internal = q[self.num_dofs - self.num_internal_dofs :]
        ends = jnp.cumsum(self.params.link.length)
        segments = tuple(i for i, joint in enumerate(self.params.joint) if joint is not None)
        motions = []
        for i in segments:
            joint, start = self.structure.joints[i], self.structure.joint_start(i)
            own = internal[start : start + joint.num_coordinates]
            motions.append(matmul(joint_basis(joint, self.params.joint[i]), own))
        motion = jnp.stack(motions) if motions else jnp.zeros((0, 6), q.dtype)
        s = jnp.concatenate([jnp.zeros(1, q.dtype), ends[:-1]])[np.array(segments, dtype=int)]
        return JointCrossings(segments, s, motion[:, :3], motion[:, 3:])

    def body_plan(self) -> BodyPlan:
        structure, link = self.structure, self.params.link
        X, weight, B = (
            jnp.asarray(table.astype(link.length.dtype))
            for table in gauss_nodes(structure.bases, structure.num_gauss_points)
        )
        measure = (link.length[:, None] * weight)[..., None, None]
        links = VariableStrainBodies(
            self.group,
            structure.bases,
            structure.num_gauss_points,
            link.reference_strain,
            link.length,
            measure * link.inertia_density(X),
        )
        stiffness, damping = (
            einsum("bkdm,bkde,bken->bmn", B, measure * density, B)
            for density in (link.stiffness_density(X), link.damping_density(X))
        )
        kinds = [*self._joint_kinds(), (links, structure.link_bodies, stiffness, damping)]
        zeros = jnp.zeros(self.num_internal_dofs, link.length.dtype)
        return BodyPlan(
            kinds=tuple(kind for kind, *_ in kinds),
            members=tuple(members for _, members, *_ in kinds),
            parents=tuple(range(-1, len(structure.num_coordinates) - 1)),
            backbone=structure.link_bodies,
            stiffness=tuple(block for *_, block, _ in kinds),
            damping=tuple(block for *_, block in kinds),
            armature=zeros,
            rest=zeros,
            gravity=self.params.gravity,
            rotation_vectors=tuple(
                structure.joint_start(i)
                for i, joint in enumerate(structure.joints)
                if joint.has_rotation_vector
            ),
            coordinates=structure.num_coordinates,
        )

    def _joint_kinds(self) -> list[tuple[AbstractBodies, tuple[int, ...], Array, Array]]:
        """Kind, members, stiffness and damping of the screws and of the other joints."""
        types, params = self.structure.joints, self.params.joint
        found = []
        for make, chosen in (
            (_screws, [i for i, joint in enumerate(types) if joint.is_screw]),
            (
                lambda B: ProductJoints(se3, B),
                [
                    i
                    for i, joint in enumerate(types)
                    if joint.num_coordinates and not joint.is_screw
                ],
            ),
        ):
            if not chosen:
                continue
            width = max(types[i].num_coordinates for i in chosen)
            bases = [joint_basis(types[i], params[i]) for i in chosen]
            B = jnp.stack([jnp.pad(b, ((0, 0), (0, width - b.shape[1]))) for b in bases])
            stiffness = jnp.stack([joint_block(params[i].stiffness, width) for i in chosen])
            damping = jnp.stack([joint_block(params[i].damping, width) for i in chosen])
            members = tuple(self.structure.link_bodies[i] - 1 for i in chosen)
            found.append((make(B), members, stiffness, damping))
        return found

    def _moving_joint(self, segment: int) -> JointParams:
        if not 0 <= segment < self.num_segments:
            raise IndexError(f"The robot has {self.num_segments} segments, got index {segment}.")
        joint = self.params.joint[segment]
        if joint is None:
            raise ValueError(f"The joint of segment {segment} is fixed: it has no parameters.")
        return joint


def _screws(B: Float[Array, "bodies 6 n"]) -> ScrewBodies:
    """Bare joints `exp(B q)`: no nodes, tip at the joint."""
    bodies, dtype = B.shape[0], B.dtype
    return ScrewBodies(
        se3,
        screw=B,
        before=jnp.broadcast_to(se3.identity(dtype), (bodies, 4, 4)),
        node=jnp.zeros((bodies, 0, 4, 4), dtype),
        tip=jnp.zeros((bodies, 3), dtype),
        mass=jnp.zeros((bodies, 0, 6, 6), dtype),
    )


def _strain_at(robot: GVS, q: Array, s: Array, body: int) -> Array:
    chain = robot.mechanics().chain
    place, into = kinematics.locate(chain, s, body)
    segments = np.zeros(chain.topology.num_bodies, dtype=int)
    segments[list(chain.backbone)] = np.arange(len(chain.backbone))
    segment = jnp.asarray(segments)[place]
    # the links are the last kind
    return chain.kinds[-1].strain(
        segment, into, kinematics.local_coordinates(chain, q)[-1][segment]
    )


def _check_match(params: GVSParams, structure: GVSStructure) -> None:
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
