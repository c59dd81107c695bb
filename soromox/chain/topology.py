"""Which body hangs on which, and where its coordinates lie.

Bodies are sorted by depth into a `(levels, lanes)` layout, so that every parent is one level
before its children. A serial chain has one lane, a hand with four fingers has four. All index
tables are NumPy constants.
"""

import dataclasses
import functools
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Shaped


@dataclasses.dataclass(frozen=True)
class Topology:
    """A forest of bodies: `parents[i] < i`, or -1 for the base; `num_coordinates[i]` per body."""

    parents: tuple[int, ...]
    num_coordinates: tuple[int, ...]

    def __post_init__(self):
        if not self.parents:
            raise ValueError("A robot needs at least one body, got none.")
        if len(self.parents) != len(self.num_coordinates):
            raise ValueError(
                f"`parents` needs one entry per body: {len(self.num_coordinates)}, "
                f"got {len(self.parents)}."
            )
        for body, parent in enumerate(self.parents):
            if not -1 <= parent < body:
                raise ValueError(
                    f"`parents[{body}]` must be an earlier body or -1 (the base), got {parent}."
                )

    @property
    def num_bodies(self) -> int:
        return len(self.parents)

    @property
    def num_dofs(self) -> int:
        return sum(self.num_coordinates)

    @property
    def is_serial(self) -> bool:
        return self.parents == tuple(range(-1, self.num_bodies - 1))

    @property
    def layout(self) -> "Layout":
        return _layout(self)

    @property
    def ancestors(self) -> np.ndarray:
        """`ancestors[i, j]`: body j lies on the path from the base to body i (i included)."""
        return _ancestors(self)


@dataclasses.dataclass(frozen=True, eq=False)
class Layout:
    """The `(levels, lanes)` arrangement of a topology; every index array is constant."""

    num_levels: int
    num_lanes: int
    width: int  # coordinates of the widest body
    slots: np.ndarray  # (bodies,) position level * lanes + lane of each body
    parent_lanes: np.ndarray  # (levels, lanes)
    present: np.ndarray  # (levels, lanes, width) True where a coordinate exists
    coordinates: np.ndarray  # (levels, lanes, width) index into q; num_dofs where padded
    sources: np.ndarray  # (dofs,) where each entry of q lies in the flattened layout
    is_plain: bool  # serial and without padding: the layout is a reshape

    def to_local(self, vector: Shaped[Array, "dofs *columns"]) -> Shaped[Array, "..."]:
        """Spreads a vector (or columns) over generalized coordinates to `(levels, lanes, width)`."""
        shape = (self.num_levels, self.num_lanes, self.width, *vector.shape[1:])
        if self.is_plain:
            return vector.reshape(shape)
        zero = jnp.zeros((1, *vector.shape[1:]), vector.dtype)
        return jnp.concatenate([vector, zero])[self.coordinates]

    def to_global(self, local: Shaped[Array, "..."]) -> Shaped[Array, "dofs *columns"]:
        """Collects `(levels, lanes, width, ...)` back into generalized coordinates."""
        flat = local.reshape((-1, *local.shape[3:]))
        return flat if self.is_plain else flat[self.sources]

    def place(
        self, parts: Sequence[Shaped[Array, "..."]], members: Sequence[Sequence[int]]
    ) -> Shaped[Array, "..."]:
        """Lays out per-body arrays, given kind by kind, as `(levels, lanes, ...)`; rest is zero."""
        bodies = parts[0] if len(parts) == 1 else jnp.concatenate(parts)
        shape = (self.num_levels, self.num_lanes, *bodies.shape[1:])
        source = np.full(self.num_levels * self.num_lanes, len(bodies))
        for position, body in enumerate(body for kind in members for body in kind):
            source[self.slots[body]] = position
        if np.array_equal(source, np.arange(len(bodies))):
            return bodies.reshape(shape)
        zero = jnp.zeros((1, *bodies.shape[1:]), bodies.dtype)
        return jnp.concatenate([bodies, zero])[source].reshape(shape)

    def pick(
        self, array: Shaped[Array, "..."], members: Sequence[int]
    ) -> Shaped[Array, "bodies ..."]:
        """The entries of some bodies of a `(levels, lanes, ...)` array."""
        flat = array.reshape((-1, *array.shape[2:]))
        slots = self.slots[list(members)]
        return flat if np.array_equal(slots, np.arange(len(flat))) else flat[slots]


@functools.lru_cache(maxsize=256)
def _layout(topology: Topology) -> Layout:
    depth, lane, counts = [], [], {}
    for parent in topology.parents:
        level = 0 if parent < 0 else depth[parent] + 1
        depth.append(level)
        lane.append(counts.get(level, 0))
        counts[level] = lane[-1] + 1
    num_levels, num_lanes = max(depth) + 1, max(counts.values())
    num_dofs, width = topology.num_dofs, max(topology.num_coordinates)
    parent_lanes = np.zeros((num_levels, num_lanes), dtype=np.int32)
    coordinates = np.full((num_levels, num_lanes, width), num_dofs, dtype=np.int32)
    start = 0
    for body, count in enumerate(topology.num_coordinates):
        parent = topology.parents[body]
        parent_lanes[depth[body], lane[body]] = 0 if parent < 0 else lane[parent]
        coordinates[depth[body], lane[body], :count] = np.arange(start, start + count)
        start += count
    present = coordinates < num_dofs
    sources = np.empty(num_dofs, dtype=np.int32)
    sources[coordinates[present]] = np.flatnonzero(present)
    slots = np.asarray(depth) * num_lanes + np.asarray(lane)
    is_plain = num_lanes == 1 and bool(present.all())
    return Layout(
        num_levels,
        num_lanes,
        width,
        slots,
        parent_lanes,
        present,
        coordinates,
        sources,
        is_plain,
    )


@functools.lru_cache(maxsize=256)
def _ancestors(topology: Topology) -> np.ndarray:
    table = np.eye(topology.num_bodies, dtype=bool)
    for body, parent in enumerate(topology.parents):
        if parent >= 0:
            table[body] |= table[parent]
    return table


def coordinate_owners(topology: Topology) -> np.ndarray:
    """The body that each generalized coordinate belongs to, `(dofs,)`."""
    return np.repeat(np.arange(topology.num_bodies), topology.num_coordinates)
