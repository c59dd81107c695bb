"""Tendons that run straight from point to point of the bodies."""

import itertools
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from soromox.actuation.parametrised import Parametrised
from soromox.actuation.transmission import Orientation, SizedTransmission
from soromox.chain.bodies import free_joint
from soromox.chain.hosts import Host, JointRouted, LinkFramed, MaterialFramed
from soromox.numerics import matmul, norm
from soromox.numerics.checks import (
    ArrayLike,
    as_array,
    check_arc_length,
    check_finite,
    check_non_negative,
    concrete,
    float_dtype,
    index_of,
)
from soromox.numerics.parameters import Parameters


class Waypoint(eqx.Module):
    """A point of a rigid link, or of the base of any host, that the tendon passes.

    `link` is the index of the link, -1 for the base; `point` is given in the link's frame [m].
    """

    link: int = eqx.field(static=True)
    point: Float[Array, "3"]

    def __init__(self, link: int, point: ArrayLike):
        self.link = index_of(link, "link")
        self.point = as_array(point, "point", float_dtype(point), (3,))
        check_finite(self.point, f"point of Waypoint(link={link})")


class MaterialPoint(eqx.Module):
    """A point of a continuum that the tendon passes: arc length `s` [m] and an offset from the
    backbone in the material frame there [m].
    """

    s: Float[Array, ""]
    offset: Float[Array, "3"]

    def __init__(self, s: ArrayLike, offset: ArrayLike = (0.0, 0.0, 0.0)):
        dtype = float_dtype(s, offset)
        self.s = as_array(s, "s", dtype, ())
        self.offset = as_array(offset, "offset", dtype, (3,))
        check_non_negative(self.s, "s of MaterialPoint")
        check_finite(self.offset, "offset of MaterialPoint")


class LinearJoint(eqx.Module):
    """Wrapping around a joint of one dof: adds `coefficient q[joint]` and breaks the path.

    The coefficient is the moment arm [m] of a revolute joint; positive lengthens the tendon.
    """

    joint: int = eqx.field(static=True)
    coefficient: Float[Array, ""]

    def __init__(self, joint: int, coefficient: ArrayLike):
        self.joint = index_of(joint, "joint")
        self.coefficient = as_array(coefficient, "coefficient", float_dtype(coefficient), ())
        check_finite(self.coefficient, f"coefficient of LinearJoint(joint={joint})")


Element = Waypoint | MaterialPoint | LinearJoint
HostT = TypeVar("HostT")


class SpatialTendonTransmissionParams(Parameters):
    """The numbers of the elements, each kind in its order along the paths."""

    points: Float[Array, "waypoints 3"]  # [m] of each Waypoint
    arc_lengths: Float[Array, " material_points"]  # [m] of each MaterialPoint
    offsets: Float[Array, "material_points 3"]  # [m] of each MaterialPoint
    coefficients: Float[Array, " linear_joints"]  # of each LinearJoint

    def __init__(
        self, points: ArrayLike, arc_lengths: ArrayLike, offsets: ArrayLike, coefficients: ArrayLike
    ):
        dtype = float_dtype(points, arc_lengths, offsets, coefficients)
        self.points = as_array(points, "points", dtype)
        self.arc_lengths = as_array(arc_lengths, "arc_lengths", dtype)
        self.offsets = as_array(offsets, "offsets", dtype)
        self.coefficients = as_array(coefficients, "coefficients", dtype)
        check_finite(self.points, "points")
        check_non_negative(self.arc_lengths, "arc_lengths")
        check_finite(self.offsets, "offsets")
        check_finite(self.coefficients, "coefficients")


def needs_frames(transmission: "SpatialTendonTransmission", host: Host) -> None:
    """Every element must name something the host has."""
    name = type(host).__name__
    for place, element in enumerate(transmission.layout):
        if element.kind == "waypoint":
            if not isinstance(host, LinkFramed):
                if element.target == -1:
                    continue
                raise TypeError(
                    f"Element {place}, {element}, needs a host with rigid links, and `{name}` has "
                    "none. On a continuum use `MaterialPoint(s, offset)`, or link -1 for the base."
                )
            if not -1 <= element.target < host.num_links:
                raise ValueError(
                    f"Element {place}, {element}: `{name}` has links 0 ... {host.num_links - 1}, "
                    "and -1 for the base."
                )
        elif element.kind == "material":
            if not isinstance(host, MaterialFramed):
                raise TypeError(
                    f"Element {place}, {element}, needs a host with a continuous backbone, and "
                    f"`{name}` has none. On rigid links use `Waypoint(link, point)`."
                )
        elif not isinstance(host, JointRouted):
            raise TypeError(
                f"Element {place}, {element}, needs a host whose joints have one dof each, and "
                f"`{name}` does not promise that. Use points on both sides of the joint."
            )
        elif not 0 <= element.target < len(host.joint_parents):
            raise ValueError(
                f"Element {place}, {element}: `{name}` has joints 0 ... "
                f"{len(host.joint_parents) - 1}."
            )
    params = transmission.params
    if isinstance(host, MaterialFramed):
        lengths = concrete(host.segment_lengths)
        if lengths is not None:
            length = float(np.sum(lengths))
            check_arc_length(params.arc_lengths, length, "`s` of MaterialPoint")
    if host.is_planar:
        for label, values in (("points", params.points), ("offsets", params.offsets)):
            known = concrete(values)
            if known is not None and np.any(known[:, 2] != 0):
                raise ValueError(f"`{name}` is planar: `{label}` need z = 0, got {known}.")


class _Slot(NamedTuple):
    """What is static in an element."""

    kind: str
    target: int  # link or joint; unused for a material point
    path: int

    def __str__(self) -> str:
        if self.kind == "waypoint":
            return f"Waypoint(link={self.target})"
        return "MaterialPoint" if self.kind == "material" else f"LinearJoint(joint={self.target})"


class SpatialTendonTransmission(SizedTransmission, Parametrised):
    """Straight segments between adjacent points of a path, and joints wrapped around.

    `y(q) = x(q) - x(0)`, `x = sum |p_j - p_i| + sum c q`: the sum of the segments between
    neighbouring points plus the linear joints, relative to the pose q = 0. A `LinearJoint` breaks
    the path: there is no segment across it. Zero-length segments have zero derivatives.
    """

    orientation: ClassVar[Orientation] = "length"
    requirements: ClassVar[tuple] = (needs_frames,)

    params: SpatialTendonTransmissionParams
    layout: tuple[_Slot, ...] = eqx.field(static=True)

    def __init__(self, *paths: Sequence[Element]):
        """One tendon along each path of elements, in order: one coordinate each.

        One transmission with several paths computes the poses of the bodies once for all.
        """
        self.params, self.layout = _collect(paths)

    @property
    def size(self) -> int:
        return self.layout[-1].path + 1

    @property
    def segments(self) -> tuple[tuple[int, int], ...]:
        """The pairs of points, as indices into `path_points`, that a straight segment joins."""
        pairs = itertools.pairwise(zip(self.layout, _point_places(self.layout), strict=True))
        return tuple(
            (place, next_place)
            for (slot, place), (next_slot, next_place) in pairs
            if slot.path == next_slot.path and place is not None and next_place is not None
        )

    @eqx.filter_jit
    def path_points(self, robot: Host, q: ArrayLike) -> Float[Array, "points 3"]:
        """World positions [m] of all points, in the order of the elements.

        Raises `ValueError` for wrong shapes.
        """
        q, params = _configuration(robot, q), self.params
        groups = []
        if params.points.shape[0]:
            links = tuple(slot.target for slot in self.layout if slot.kind == "waypoint")
            if isinstance(robot, LinkFramed):
                groups.append(robot.link_points(q, links, params.points))
            else:
                groups.append(_base_points(robot, q, params.points))
        if params.arc_lengths.shape[0]:
            framed = _as(robot, MaterialFramed)
            groups.append(framed.material_points(q, params.arc_lengths, params.offsets))
        if not groups:
            return jnp.zeros((0, 3), q.dtype)
        kinds = [slot.kind for slot in self.layout if slot.kind != "joint"]
        # stable: waypoints first, then material points, as the groups are
        order = np.argsort([kind == "material" for kind in kinds], kind="stable")
        return jnp.concatenate(groups)[np.argsort(order)]

    @eqx.filter_jit
    def path_lengths(self, robot: Host, q: ArrayLike) -> Float[Array, " tendons"]:
        """The length [m] of the straight segments of each tendon.

        Raises `ValueError` for wrong shapes.
        """
        return self._segment_sums(robot, _configuration(robot, q), self.segments)

    def coordinates(self, robot: Host, q: Float[Array, " dofs"]) -> Float[Array, " tendons"]:
        # segments within one link have a constant length and drop out exactly
        moving = tuple(pair for pair in self.segments if not self._is_rigid(pair))
        y = jnp.zeros(self.size, q.dtype)
        if moving:
            at_rest = self._segment_sums(robot, jnp.zeros_like(q), moving)
            y = y + self._segment_sums(robot, q, moving) - at_rest
        joints = [slot for slot in self.layout if slot.kind == "joint"]
        if joints:
            first = robot.num_dofs - robot.num_internal_dofs
            turned = q[np.array([first + slot.target for slot in joints])]
            rows = _incidence([slot.path for slot in joints], self.size)
            y = y + matmul(jnp.asarray(rows, q.dtype), self.params.coefficients * turned)
        return y

    def _segment_sums(
        self, robot: Host, q: Float[Array, " dofs"], pairs: tuple[tuple[int, int], ...]
    ) -> Float[Array, " tendons"]:
        if not pairs:
            return jnp.zeros(self.size, q.dtype)
        points = self.path_points(robot, q)
        starts, ends = np.array(pairs).T
        lengths = jax.vmap(norm)(points[ends] - points[starts])
        paths = [slot.path for slot in self.layout if slot.kind != "joint"]
        rows = _incidence([paths[start] for start in starts], self.size)
        return matmul(jnp.asarray(rows, q.dtype), lengths)

    def _is_rigid(self, pair: tuple[int, int]) -> bool:
        slots = [slot for slot in self.layout if slot.kind != "joint"]
        first, second = (slots[place] for place in pair)
        return first.kind == second.kind == "waypoint" and first.target == second.target


def _collect(
    paths: tuple[Sequence[Element], ...],
) -> tuple[SpatialTendonTransmissionParams, tuple[_Slot, ...]]:
    if not paths:
        raise ValueError("A spatial tendon needs at least one path of elements.")
    for path in paths:
        if not isinstance(path, Sequence):
            raise TypeError(
                "A spatial tendon needs a list of elements for each path, as in "
                f"`SpatialTendonTransmission([a, b])`, got {type(path).__name__}."
            )
        _check_path(path)
    every = [element for path in paths for element in path]
    waypoints = [element.point for element in every if isinstance(element, Waypoint)]
    materials = [element for element in every if isinstance(element, MaterialPoint)]
    joints = [element.coefficient for element in every if isinstance(element, LinearJoint)]
    dtype = float_dtype(*jax.tree.leaves(every))
    params = SpatialTendonTransmissionParams(
        _stack(waypoints, (3,), dtype),
        _stack([element.s for element in materials], (), dtype),
        _stack([element.offset for element in materials], (3,), dtype),
        _stack(joints, (), dtype),
    )
    layout = tuple(_slot(element, number) for number, path in enumerate(paths) for element in path)
    return params, layout


def _check_path(path: Sequence[Element]) -> None:
    if not path:
        raise ValueError("A spatial tendon needs at least one element.")
    for place, element in enumerate(path):
        if not isinstance(element, Element):
            raise TypeError(
                f"Element {place} must be a Waypoint, a MaterialPoint or a LinearJoint, got "
                f"{type(element).__name__}."
            )
        neighbours = (*path[max(place - 1, 0) : place], *path[place + 1 : place + 2])
        if not isinstance(element, LinearJoint) and all(
            isinstance(neighbour, LinearJoint) for neighbour in neighbours
        ):
            raise ValueError(
                f"Element {place}, {_slot(element, 0)}, has no point next to it and so forms no "
                "segment: give it a neighbour on the same side of the linear joints."
            )


def _slot(element: Element, path: int) -> _Slot:
    if isinstance(element, Waypoint):
        return _Slot("waypoint", element.link, path)
    if isinstance(element, MaterialPoint):
        return _Slot("material", 0, path)
    return _Slot("joint", element.joint, path)


def _configuration(robot: Host, q: ArrayLike) -> Float[Array, " dofs"]:
    return as_array(q, "q", float_dtype(q), (robot.num_dofs,))


def _base_points(
    robot: Host, q: Float[Array, " dofs"], points: Float[Array, "points 3"]
) -> Float[Array, "points 3"]:
    """World positions of points of the base, fixed or floating."""
    chain = robot.mechanics().chain
    pose, group = chain.base_pose, chain.group
    if robot.num_dofs > robot.num_internal_dofs:
        base = q[: robot.num_dofs - robot.num_internal_dofs]
        pose = free_joint(group, base, jnp.zeros_like(base))[0]
    world = jax.vmap(lambda p: group.act(pose, p))(points[:, : group.POINT_DIM])
    return jnp.pad(world, ((0, 0), (0, 3 - group.POINT_DIM)))


def _as(robot: Host, kind: type[HostT]) -> HostT:
    """The robot as a kind of host that installation asked for."""
    if not isinstance(robot, kind):
        raise TypeError(
            f"`{type(robot).__name__}` is not `{kind.__name__}`: install the tendon on it."
        )
    return robot


def _point_places(layout: tuple[_Slot, ...]) -> list[int | None]:
    counter = itertools.count()
    return [None if slot.kind == "joint" else next(counter) for slot in layout]


def _incidence(rows: list[int], size: int) -> Float[np.ndarray, "rows columns"]:
    return (np.arange(size)[:, None] == np.array(rows)[None, :]).astype(float)


def _stack(values: list[Array], shape: tuple[int, ...], dtype: np.dtype) -> Array | np.ndarray:
    if any(concrete(value) is None for value in values):
        return jnp.stack([value.astype(dtype) for value in values])
    return np.array(values, dtype).reshape(len(values), *shape)
