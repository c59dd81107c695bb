"""What a host says about its bodies, and how that becomes the mechanics of a robot."""

from types import ModuleType

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from soromox.chain import AbstractBodies, Chain, FreeBodies, Mechanics, Topology
from soromox.lie import se3
from soromox.numerics.checks import (
    ArrayLike,
    as_array,
    check_finite,
    check_non_negative,
    check_psd,
    float_dtype,
)
from soromox.numerics.parameters import Parameters


class BodyPlan(eqx.Module):
    """The bodies of a host without its base: kinds, who hangs on whom, elasticity, damping.

    `members[k]` are the bodies of `kinds[k]`; `stiffness[k]` and `damping[k]` their blocks
    `(bodies, n, n)`. Bodies of one kind may differ in their number of coordinates: then
    `coordinates` counts them for each body, and blocks are padded with zeros to the widest.
    Optional full matrices couple the coordinates of different bodies (`coupling_*`).
    """

    kinds: tuple[AbstractBodies, ...]
    members: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    parents: tuple[int, ...] = eqx.field(static=True)
    backbone: tuple[int, ...] = eqx.field(static=True)  # bodies that carry arc length
    stiffness: tuple[Float[Array, "..."], ...]
    damping: tuple[Float[Array, "..."], ...]
    armature: Float[Array, " dofs"]
    rest: Float[Array, " dofs"]
    gravity: Float[Array, " point"]
    coupling_stiffness: Float[Array, "dofs dofs"] | None = None
    coupling_damping: Float[Array, "dofs dofs"] | None = None
    rotation_vectors: tuple[int, ...] = eqx.field(static=True, default=())
    coordinates: tuple[int, ...] | None = eqx.field(static=True, default=None)

    @property
    def num_coordinates(self) -> tuple[int, ...]:
        if self.coordinates is not None:
            return self.coordinates
        counts = [0] * len(self.parents)
        for blocks, members in zip(self.stiffness, self.members, strict=True):
            for body in members:
                counts[body] = blocks.shape[-1]
        return tuple(counts)


class BaseLink(Parameters):
    """The link of a floating base: mass [kg], inertia about the centre of mass, its position [m].

    `inertia` is (3, 3) in space and a number in the plane [kg m^2]; everything is zero by default
    (the first body then carries all inertia).
    """

    mass: Float[Array, ""]
    inertia: Float[Array, "..."]
    center_of_mass: Float[Array, " point"]

    def __init__(
        self,
        mass: ArrayLike = 0.0,
        inertia: ArrayLike | None = None,
        center_of_mass: ArrayLike | None = None,
        *,
        is_planar: bool = False,
    ):
        dtype = float_dtype(mass, inertia, center_of_mass)
        planar = is_planar or (inertia is not None and np.ndim(inertia) == 0)
        if inertia is None:
            inertia = 0.0 if planar else np.zeros((3, 3))
        if center_of_mass is None:
            center_of_mass = np.zeros(2 if planar else 3)
        self.mass = as_array(mass, "mass", dtype, ())
        self.inertia = as_array(inertia, "inertia", dtype, () if planar else (3, 3))
        self.center_of_mass = as_array(
            center_of_mass, "center_of_mass", dtype, (2,) if planar else (3,)
        )
        check_non_negative(self.mass, "mass")
        check_finite(self.center_of_mass, "center_of_mass")
        if planar:
            check_non_negative(self.inertia, "inertia")
        else:
            check_psd(self.inertia, "inertia")

    @property
    def is_planar(self) -> bool:
        return self.inertia.ndim == 0


def build_mechanics(
    group: ModuleType,
    plan: BodyPlan,
    base_pose: Float[Array, " pose"] | None,
    floating_base: BaseLink | None,
) -> Mechanics:
    """The mechanics of a host: its bodies on a fixed base, or behind a free joint."""
    if floating_base is None:
        return _mechanics(plan, group.pose_from_vector(base_pose))
    return _mechanics(_with_free_base(group, plan, floating_base), group.identity(plan.rest.dtype))


def _with_free_base(group: ModuleType, plan: BodyPlan, base: BaseLink) -> BodyPlan:
    d, dtype = group.DIM, plan.rest.dtype
    node = group.from_rotation_translation(
        jnp.eye(group.POINT_DIM, dtype=dtype), base.center_of_mass
    )
    free = FreeBodies(group, node[None, None], rigid_inertia(base.mass, base.inertia)[None, None])
    zero, block = jnp.zeros(d, dtype), jnp.zeros((1, d, d), dtype)

    def pad(coupling: Array | None) -> Array | None:
        return None if coupling is None else jnp.pad(coupling, ((d, 0), (d, 0)))

    shift = tuple(start + d for start in plan.rotation_vectors)
    return BodyPlan(
        kinds=(free, *plan.kinds),
        members=((0,), *(tuple(body + 1 for body in kind) for kind in plan.members)),
        parents=(-1, *(parent + 1 for parent in plan.parents)),
        backbone=tuple(body + 1 for body in plan.backbone),
        stiffness=(block, *plan.stiffness),
        damping=(block, *plan.damping),
        armature=jnp.concatenate([zero, plan.armature]),
        rest=jnp.concatenate([zero, plan.rest]),
        gravity=plan.gravity,
        coupling_stiffness=pad(plan.coupling_stiffness),
        coupling_damping=pad(plan.coupling_damping),
        rotation_vectors=(0, *shift) if group is se3 else (),
        coordinates=(d, *plan.num_coordinates),
    )


def _mechanics(plan: BodyPlan, base_pose: Float[Array, "*pose"]) -> Mechanics:
    topology = Topology(plan.parents, plan.num_coordinates)
    layout = topology.layout

    def lay_out(blocks: tuple[Array, ...]) -> Array:
        widths = [layout.width - block.shape[-1] for block in blocks]
        padded = [
            jnp.pad(block, ((0, 0), (0, width), (0, width)))
            for block, width in zip(blocks, widths, strict=True)
        ]
        return layout.place(padded, plan.members)

    chain = Chain(
        topology,
        plan.members,
        plan.kinds,
        base_pose,
        plan.gravity,
        plan.backbone,
        plan.rotation_vectors,
    )
    return Mechanics(
        chain,
        stiffness=lay_out(plan.stiffness),
        damping=lay_out(plan.damping),
        armature=plan.armature,
        rest=plan.rest,
        coupling_stiffness=plan.coupling_stiffness,
        coupling_damping=plan.coupling_damping,
    )


def rigid_inertia(mass: Float[Array, ""], inertia: Float[Array, "..."]) -> Float[Array, "d d"]:
    """Spatial inertia at the centre of mass: `blkdiag(inertia, mass I)`."""
    rotational = jnp.atleast_2d(inertia)
    points = 2 if rotational.shape[0] == 1 else 3
    return jax.scipy.linalg.block_diag(rotational, mass * jnp.eye(points, dtype=mass.dtype))
