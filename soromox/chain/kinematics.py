"""Poses and twists of all bodies: the sweeps from the base to the tips and back."""

from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from soromox.chain.bodies import AbstractBodies, Motion
from soromox.chain.topology import Topology, coordinate_owners
from soromox.numerics import apply


class Chain(eqx.Module):
    """A tree of bodies on a fixed base: everything the recursion needs, derived from parameters."""

    topology: Topology = eqx.field(static=True)
    members: tuple[tuple[int, ...], ...] = eqx.field(static=True)  # bodies of each kind, in order
    kinds: tuple[AbstractBodies, ...]
    base_pose: Float[Array, "*pose"]
    gravity: Float[Array, " point"]  # [m/s^2] world frame
    backbone: tuple[int, ...] = eqx.field(static=True)  # bodies that carry arc length
    rotation_vectors: tuple[int, ...] = eqx.field(static=True, default=())  # starts of [r] in q

    @property
    def group(self) -> ModuleType:
        return self.kinds[0].group

    def without_gravity(self) -> "Chain":
        return eqx.tree_at(lambda chain: chain.gravity, self, jnp.zeros_like(self.gravity))

    def width(self, kind: int) -> int:
        """Coordinates of the widest body of a kind; narrower ones have zero columns in `S`."""
        return max(self.topology.num_coordinates[body] for body in self.members[kind])

    @property
    def lengths(self) -> Float[Array, " bodies"]:
        """Arc length of each body [m]."""
        order = [body for kind in self.members for body in kind]
        lengths = jnp.concatenate([kind.length for kind in self.kinds])
        return lengths[jnp.array(_inverse_permutation(order))]


class Configuration(NamedTuple):
    """The chain at one `(q, qd)`, before any recursion."""

    motions: tuple[Motion, ...]  # one per kind
    X: Float[Array, "levels lanes d d"]  # Ad(g^-1) of each body's tip
    S: Float[Array, "levels lanes d n"]  # body Jacobian of each body's tip


def configuration(
    chain: Chain, q: Float[Array, " dofs"], qd: Float[Array, " dofs"]
) -> Configuration:
    """Evaluates every body relative to its own base frame."""
    layout = chain.topology.layout
    own = zip(local_coordinates(chain, q), local_coordinates(chain, qd), strict=True)
    motions = [kind.motion(*pair) for kind, pair in zip(chain.kinds, own, strict=True)]
    Ad_inverse = jax.vmap(chain.group.Ad_inverse)
    X = layout.place([Ad_inverse(motion.pose[:, -1]) for motion in motions], chain.members)
    S = layout.place(
        [pad_columns(motion.S[:, -1], layout.width) for motion in motions], chain.members
    )
    return Configuration(tuple(motions), X, S)


def local_coordinates(chain: Chain, q: Float[Array, " dofs"]) -> list[Float[Array, "bodies n"]]:
    """The entries of `q` that belong to the bodies of each kind, zero where a body has fewer."""
    layout = chain.topology.layout
    local = layout.to_local(q)
    return [
        layout.pick(local, members)[:, : chain.width(number)]
        for number, members in enumerate(chain.members)
    ]


def base_poses(chain: Chain, config: Configuration) -> Float[Array, "levels lanes *pose"]:
    """World pose of the base frame of every body."""
    layout = chain.topology.layout
    group = chain.group
    tips = layout.place([motion.pose[:, -1] for motion in config.motions], chain.members)
    root = jnp.broadcast_to(chain.base_pose, tips.shape[1:])

    def step(tip, level):
        local, lanes = level
        base = follow(tip, lanes)
        return jax.vmap(group.compose)(base, local), base

    return sweep(step, root, (tips, layout.parent_lanes))


def tip_poses(chain: Chain, config: Configuration) -> Float[Array, "bodies *pose"]:
    """World pose of the tip of every body, in body order."""
    layout = chain.topology.layout
    base = base_poses(chain, config)
    tips = layout.place([motion.pose[:, -1] for motion in config.motions], chain.members)
    poses = jax.vmap(jax.vmap(chain.group.compose))(base, tips)
    return layout.pick(poses, range(chain.topology.num_bodies))


def base_twists(
    chain: Chain, config: Configuration, qd: Float[Array, "dofs *columns"]
) -> Float[Array, "levels lanes d *columns"]:
    """Body twist of the base frame of every body; with columns, the Jacobian of each frame."""
    return propagate(chain, config.X, apply(config.S, chain.topology.layout.to_local(qd)))


def propagate(
    chain: Chain,
    X: Float[Array, "levels lanes d d"],
    drive: Float[Array, "levels lanes d *columns"],
) -> Float[Array, "levels lanes d *columns"]:
    """`z_tip = X z_base + drive` from the base out, starting at zero; returns every `z_base`."""
    root = jnp.zeros(drive.shape[1:], drive.dtype)

    def step(tip, level):
        X, drive, lanes = level
        base = follow(tip, lanes)
        return apply(X, base) + drive, base

    return sweep(step, root, (X, drive, chain.topology.layout.parent_lanes))


def tip_wrenches(
    chain: Chain, config: Configuration, own: Float[Array, "levels lanes d *columns"]
) -> Float[Array, "levels lanes d *columns"]:
    """Sum of the children's base wrenches at the tip of every body.

    `own` is each body's own wrench in its base frame. This sweep is the transpose of
    `base_twists`.
    """
    layout = chain.topology.layout
    end = jnp.zeros(own.shape[1:], own.dtype)

    def step(tip, level):
        X, own, lanes = level
        return gather(own + apply(X.mT, tip), lanes), tip

    levels = (config.X, own, layout.parent_lanes)
    return sweep(step, end, levels, reverse=True)


def point(
    chain: Chain,
    q: Float[Array, " dofs"],
    body: int | Int[Array, ""],
    s: Float[Array, ""],
) -> tuple[Float[Array, "*pose"], Float[Array, "d dofs"]]:
    """World pose and body-frame Jacobian of the point of `body` at arc length `s` from its base."""
    topology, group = chain.topology, chain.group
    layout = topology.layout
    config = configuration(chain, q, jnp.zeros_like(q))
    base = base_poses(chain, config)
    every = range(topology.num_bodies)
    base = layout.pick(base, every)
    # the body may be a traced index: evaluate each kind there and keep the one that owns it
    kind_of, place_of = _owners(chain)
    q_bodies = layout.pick(layout.to_local(q), every)
    local, S = None, None
    for number, kind in enumerate(chain.kinds):
        n = chain.width(number)
        mine = kind_of[body] == number
        place = jnp.where(mine, place_of[body], 0)
        local_kind, S_kind = kind.point(place, s, q_bodies[body, :n])
        S_kind = pad_columns(S_kind, layout.width)
        if local is None:
            local, S = local_kind, S_kind
        else:
            local, S = jnp.where(mine, local_kind, local), jnp.where(mine, S_kind, S)
    pose = group.compose(base[body], local)

    # columns of the bodies before: their tip Jacobians carried over to the point
    tips = layout.place([motion.pose[:, -1] for motion in config.motions], chain.members)
    tips = jax.vmap(group.compose)(base, layout.pick(tips, every))
    X = jax.vmap(lambda tip: group.Ad_inverse(group.compose(group.inverse(tip), pose)))(tips)
    before = jnp.array(topology.ancestors & ~jnp.eye(topology.num_bodies, dtype=bool))[body]
    columns = jnp.where(before[:, None, None], X @ layout.pick(config.S, every), 0)
    columns = jnp.where((jnp.arange(topology.num_bodies) == body)[:, None, None], S, columns)
    return pose, columns_to_global(chain, columns)


def columns_to_global(chain: Chain, columns: Float[Array, "bodies d n"]) -> Float[Array, "d dofs"]:
    """Puts the columns that belong to each body in the order of `q`."""
    owners = coordinate_owners(chain.topology)
    starts = jnp.cumsum(jnp.array((0, *chain.topology.num_coordinates[:-1])))
    within = jnp.arange(chain.topology.num_dofs) - starts[owners]
    return columns[owners, :, within].T


def locate(chain: Chain, s: Float[Array, ""], body: int) -> tuple[Int[Array, ""], Float[Array, ""]]:
    """The body at arc length `s` on the way from the base to `body`, and the length into it.

    The end of a body belongs to it, with the derivative of the body; `s` is clamped to the way, and
    snaps to an end that it misses by rounding of its own dtype, which may be coarser than that of
    the robot.
    """
    path = [j for j in chain.backbone if chain.topology.ancestors[body, j]]
    lengths = chain.lengths[jnp.array(path)]
    ends = jnp.cumsum(lengths)
    tolerance = 8 * float(jnp.finfo(s.dtype).eps) * ends[-1]
    s = s.astype(ends.dtype)
    place = jnp.clip(jnp.searchsorted(ends, s - tolerance), 0, len(path) - 1)
    into, length = s - (ends[place] - lengths[place]), lengths[place]
    is_on = (into >= -tolerance) & (into <= length + tolerance)
    snapped = into + jax.lax.stop_gradient(jnp.clip(into, 0, length) - into)
    return jnp.array(path)[place], jnp.where(is_on, snapped, jnp.clip(into, 0, length))


def follow(tips: Float[Array, "lanes ..."], lanes: Int[Array, " lanes"]) -> Float[Array, "..."]:
    """What each body of a level takes over from its parent, one level up."""
    return tips if tips.shape[0] == 1 else tips[lanes]


def gather(bases: Float[Array, "lanes ..."], lanes: Int[Array, " lanes"]) -> Float[Array, "..."]:
    """The sum over children that each parent receives from the level below: transposed `follow`."""
    if bases.shape[0] == 1:
        return bases
    return jax.ops.segment_sum(bases, lanes, num_segments=bases.shape[0])


def sweep(
    step: Callable[[PyTree, PyTree], tuple[PyTree, PyTree]],
    start: PyTree,
    levels: PyTree,
    reverse: bool = False,
) -> PyTree:
    """What `step` gives at each level, from the base out or (reverse) from the tips back.

    Two levels a turn: the work of one is small beside what a turn costs.
    """
    return jax.lax.scan(step, start, levels, reverse=reverse, unroll=2)[1]


def pad_columns(S: Float[Array, "... n"], width: int) -> Float[Array, "... width"]:
    """Zero columns up to the widest body."""
    return jnp.pad(S, [(0, 0)] * (S.ndim - 1) + [(0, width - S.shape[-1])])


def _owners(chain: Chain) -> tuple[Array, Array]:
    """For every body, its kind and its place in that kind."""
    kind_of = [0] * chain.topology.num_bodies
    place_of = [0] * chain.topology.num_bodies
    for number, members in enumerate(chain.members):
        for place, body in enumerate(members):
            kind_of[body], place_of[body] = number, place
    return jnp.array(kind_of), jnp.array(place_of)


def _inverse_permutation(order: list[int]) -> list[int]:
    inverse = [0] * len(order)
    for position, body in enumerate(order):
        inverse[body] = position
    return inverse
