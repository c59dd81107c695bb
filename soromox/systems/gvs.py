"""Rods of variable strain, rigid links, and joints between them."""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from soromox.actuation import Actuator, PassiveElement
from soromox.chain import JointCrossed, JointCrossings, ScrewBodies, kinematics
from soromox.chain.bodies import AbstractBodies
from soromox.chain.frozen_strain import FrozenStrainBodies
from soromox.chain.joint_bodies import ProductJoints
from soromox.chain.variable_strain import VariableStrainBodies, gauss_nodes
from soromox.lie import se3
from soromox.numerics import einsum, matmul
from soromox.numerics.checks import ArrayLike, index_of
from soromox.systems.continuum_robot import ContinuumRobot
from soromox.systems.gvs_structure import (
    GVSParams,
    GVSSegment,
    GVSStructure,
    check_match,
    segment_parts,
)
from soromox.systems.installation import (
    check_list,
    install_actuators,
    install_base,
    install_params,
    install_passive_elements,
)
from soromox.systems.joints import JointParams, joint_basis, joint_block
from soromox.systems.plan import BaseLink, BodyPlan


class _Kind(NamedTuple):
    """One kind of bodies with what `BodyPlan` asks about it."""

    bodies: AbstractBodies
    members: tuple[int, ...]
    stiffness: Float[Array, "bodies n n"]
    damping: Float[Array, "bodies n n"]


class GVS(ContinuumRobot, JointCrossed):
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
        self.params = install_params(params, GVSParams)
        if not isinstance(structure, GVSStructure):
            raise TypeError(f"`structure` needs a GVSStructure, got {type(structure).__name__}.")
        check_match(params, structure)
        self.structure = structure
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
        check_list(segments, GVSSegment, "segments")
        params, structure = segment_parts(segments, gravity)
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

    def update_joint_params(self, segment: int, **changes: ArrayLike) -> "GVS":
        """A robot with the named numbers of one segment's joint changed: `axis`, `pitch`,
        `stiffness`, `damping`, given as in `JointSpec`.

        Raises `ValueError` for an unknown name, a wrong shape, a value that `JointSpec` refuses, or
        a joint that is fixed.
        """
        joint = self._moving_joint(segment).updated(changes)
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
        structure = self.structure
        kinds = [*self._joint_kinds(), *self._link_kinds()]
        zeros = jnp.zeros(self.num_internal_dofs, self.params.gravity.dtype)
        return BodyPlan(
            kinds=tuple(kind.bodies for kind in kinds),
            members=tuple(kind.members for kind in kinds),
            parents=tuple(range(-1, len(structure.num_coordinates) - 1)),
            backbone=structure.link_bodies,
            stiffness=tuple(kind.stiffness for kind in kinds),
            damping=tuple(kind.damping for kind in kinds),
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

    def _joint_kinds(self) -> list["_Kind"]:
        """The screws and the other joints that move."""
        types, params = self.structure.joints, self.params.joint
        moving = [i for i, joint in enumerate(types) if joint.num_coordinates]
        kinds = []
        for make, chosen in (
            (_screws, [i for i in moving if types[i].is_screw]),
            (_products, [i for i in moving if not types[i].is_screw]),
        ):
            if chosen:
                width = max(types[i].num_coordinates for i in chosen)
                bases = [joint_basis(types[i], params[i]) for i in chosen]
                B = jnp.stack([jnp.pad(b, ((0, 0), (0, width - b.shape[1]))) for b in bases])
                stiffness = jnp.stack([joint_block(params[i].stiffness, width) for i in chosen])
                damping = jnp.stack([joint_block(params[i].damping, width) for i in chosen])
                members = tuple(self.structure.link_bodies[i] - 1 for i in chosen)
                kinds.append(_Kind(make(B), members, stiffness, damping))
        return kinds

    def _link_kinds(self) -> list["_Kind"]:
        """The rigid links and those that bend."""
        structure, kinds = self.structure, []
        for make, chosen in ((_rigid, structure.rigid_segments), (_soft, structure.soft_segments)):
            if chosen:
                link = self.params.link.select(chosen)
                bases = tuple(structure.bases[i] for i in chosen)
                points = tuple(structure.num_gauss_points[i] for i in chosen)
                X, weights, B = (
                    jnp.asarray(table.astype(link.length.dtype))
                    for table in gauss_nodes(bases, points)
                )
                measure = (link.length[:, None] * weights)[..., None, None]
                mass = measure * link.inertia_density(X)
                stiffness, damping = (
                    einsum("bkdm,bkde,bken->bmn", B, measure * density, B)
                    for density in (link.stiffness_density(X), link.damping_density(X))
                )
                bodies = make(link, bases, points, X, weights, mass)
                members = tuple(structure.link_bodies[i] for i in chosen)
                kinds.append(_Kind(bodies, members, stiffness, damping))
        return kinds

    def _moving_joint(self, segment: int) -> JointParams:
        segment = index_of(segment, "segment")
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


def _products(B: Float[Array, "bodies 6 n"]) -> ProductJoints:
    return ProductJoints(se3, B)


def _rigid(link, bases, points, X, weights, mass) -> FrozenStrainBodies:
    return FrozenStrainBodies(se3, link.reference_strain, link.length, X, weights, mass)


def _soft(link, bases, points, X, weights, mass) -> VariableStrainBodies:
    return VariableStrainBodies(se3, bases, points, link.reference_strain, link.length, mass)


def _strain_at(robot: GVS, q: Array, s: Array, body: None) -> Array:
    chain, structure = robot.mechanics().chain, robot.structure
    place, into = kinematics.locate(chain, s, chain.backbone[-1])
    segments = np.zeros(chain.topology.num_bodies, dtype=int)
    segments[list(chain.backbone)] = np.arange(len(chain.backbone))
    segment = jnp.asarray(segments)[place]
    soft = structure.soft_segments
    if not soft:
        return robot.params.link.reference_strain[segment]
    # soft links are the last kind
    number = np.zeros(robot.num_segments, dtype=int)
    number[list(soft)] = np.arange(len(soft))
    own = jnp.asarray(number)[segment]
    strain = chain.kinds[-1].strain(own, into, kinematics.local_coordinates(chain, q)[-1][own])
    is_soft = jnp.asarray(np.isin(np.arange(robot.num_segments), soft))[segment]
    return jnp.where(is_soft, strain, robot.params.link.reference_strain[segment])
