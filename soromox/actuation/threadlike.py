"""Paths along the material of a rod: tendons, rods, muscles and chambers inside bending bodies."""

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from soromox.actuation.parametrised import Parametrised
from soromox.actuation.transmission import Orientation, PathTransmission
from soromox.chain.hosts import Host, JointCrossed, MaterialFramed
from soromox.numerics import norm
from soromox.numerics.checks import ArrayLike, as_array, broadcast, check_finite, float_dtype
from soromox.numerics.parameters import Parameters


PathFunction = Callable[[Parameters, Array], Array]
JointCrossing = Literal["arc", "none"]


class BaseThreadlikeRoutingParams(Parameters):
    """Base of the numbers of a routing; a subclass adds the fields its `offset_fn` reads."""


class LinearThreadlikeRoutingParams(BaseThreadlikeRoutingParams):
    """Offsets `d(s) = intercept + slope s` of each path in the material frame.

    `intercept` (p, 3) [m] and `slope` (p, 3); `s` [m] counts from the base of the robot, and the
    x-components are zero, since a path is described by where it pierces the section at `s`.
    """

    intercept: Float[Array, "paths 3"]
    slope: Float[Array, "paths 3"]

    def __init__(self, intercept: ArrayLike, slope: ArrayLike | None = None):
        dtype = float_dtype(intercept, slope)
        self.intercept = _rows(intercept, "intercept", dtype)
        slope = np.zeros(self.intercept.shape) if slope is None else slope
        self.slope = _rows(slope, "slope", dtype)
        if self.slope.shape != self.intercept.shape:
            raise ValueError(
                f"`slope` needs the shape of `intercept`, {self.intercept.shape}, "
                f"got {self.slope.shape}."
            )


def linear_offset(params: LinearThreadlikeRoutingParams, s: ArrayLike) -> ArrayLike:
    return params.intercept + params.slope * s


def linear_derivative(params: LinearThreadlikeRoutingParams, s: ArrayLike) -> ArrayLike:
    return params.slope


class Spans(NamedTuple):
    """First and last segment of every path, both included; `None` is the last of the robot."""

    start: tuple[int, ...]
    end: tuple[int | None, ...]

    def mask(self, num_segments: int) -> np.ndarray:
        """Which segments belong to which path, (segments, paths)."""
        index = np.arange(num_segments)[:, None]
        end = [num_segments - 1 if e is None else e for e in self.end]
        return (index >= np.array(self.start)) & (index <= np.array(end))


class ThreadlikeRouting(Parametrised):
    """Where p paths run in the material frame, and along which segments.

    The offset of a path from the backbone at arc length `s` is a row of `offset_fn(params, s)`
    (p, 3), with x = 0; its derivative by `s` is `derivative_fn(params, s)`, by default the
    derivative of `offset_fn`. Both are plain functions that capture no arrays: what is to be
    differentiated or updated belongs in `params`. Segments are counted from 0; a path covers all
    from `start_segment_index` to `end_segment_index`, both included, by default the whole robot.
    Installing a path that runs outside the body raises, unless `allow_outside`.
    """

    params: BaseThreadlikeRoutingParams
    offset_fn: PathFunction = eqx.field(static=True)
    derivative_fn: PathFunction | None = eqx.field(static=True)
    spans: Spans = eqx.field(static=True)
    allow_outside: bool = eqx.field(static=True)

    def __init__(
        self,
        params: BaseThreadlikeRoutingParams,
        offset_fn: PathFunction,
        derivative_fn: PathFunction | None = None,
        start_segment_index: int | Sequence[int] = 0,
        end_segment_index: int | Sequence[int | None] | None = None,
        allow_outside: bool = False,
    ):
        if not isinstance(params, BaseThreadlikeRoutingParams):
            raise TypeError(
                "`params` of a routing needs a BaseThreadlikeRoutingParams, got "
                f"{type(params).__name__}."
            )
        self.params, self.offset_fn, self.derivative_fn = params, offset_fn, derivative_fn
        shape = jax.eval_shape(offset_fn, params, jnp.zeros((), _dtype(params))).shape
        if len(shape) != 2 or shape[1] != 3 or shape[0] == 0:
            raise ValueError(
                f"`offset_fn` must return one offset [x, y, z] for each path (p, 3), got {shape}."
            )
        start = _per_path(start_segment_index, "start_segment_index", shape[0])
        end = _per_path(end_segment_index, "end_segment_index", shape[0])
        for first, last in zip(start, end, strict=True):
            if first is None or first < 0:
                raise ValueError(f"`start_segment_index` must be 0 or more, got {first}.")
            if last is not None and last < first:
                raise ValueError(
                    f"A path must cover at least one segment, but `end_segment_index` {last} lies "
                    f"before `start_segment_index` {first}."
                )
        self.spans, self.allow_outside = Spans(start, end), allow_outside

    @classmethod
    def linear(
        cls,
        intercept: ArrayLike,
        slope: ArrayLike | None = None,
        start_segment_index: int | Sequence[int] = 0,
        end_segment_index: int | Sequence[int | None] | None = None,
        allow_outside: bool = False,
    ) -> "ThreadlikeRouting":
        """Paths `d(s) = intercept + slope s`, (p, 3) each [m], `s` from the robot's base."""
        params = LinearThreadlikeRoutingParams(intercept, slope)
        spans = (start_segment_index, end_segment_index)
        return cls(params, linear_offset, linear_derivative, *spans, allow_outside)

    @property
    def num_paths(self) -> int:
        return len(self.spans.start)

    def offsets(self, s: Float[Array, ""]) -> Float[Array, "paths 3"]:
        """Offsets of all paths at `s` [m]."""
        return self.offset_fn(self.params, s)

    def derivatives(self, s: Float[Array, ""]) -> Float[Array, "paths 3"]:
        """Derivatives of the offsets by `s`."""
        if self.derivative_fn is not None:
            return self.derivative_fn(self.params, s)
        return jax.jvp(self.offsets, (s,), (jnp.ones_like(s),))[1]


class Shape(NamedTuple):
    """What all paths see of a configuration."""

    strain: Float[Array, "segments nodes 6"]
    joints: tuple[Float[Array, "joints 3"], Float[Array, "joints 3"]] | None  # B_rot q, B_trans q


class Course(NamedTuple):
    """Where paths run, along the first axis of every array; one path without that axis."""

    weight: Float[Array, "*paths segments nodes"]  # [m] of the quadrature, 0 beyond the path
    offset: Float[Array, "*paths segments nodes 3"]
    slope: Float[Array, "*paths segments nodes 3"]
    crosses: Float[Array, "*paths joints"] | None  # 1 for the joints on the path, 0 for others
    joint_offset: Float[Array, "*paths joints 3"] | None


def path_lengths(
    routing: ThreadlikeRouting,
    joint_crossing: JointCrossing,
    robot: MaterialFramed,
    q: Float[Array, " dofs"],
) -> Float[Array, " paths"]:
    """Length of each path [m]: `integral |d' + kappa x d + sigma| ds` over its segments.

    With `joint_crossing="arc"` every joint of the covered segments adds
    `e_x . (B_rot q x d + B_trans q)`: a constant moment arm, exact for a path that wraps around
    the axis of the joint.
    """
    return jax.vmap(path_length, (None, 0))(*shape_and_courses(routing, joint_crossing, robot, q))


def path_length(shape: Shape, course: Course) -> Float[Array, ""]:
    """Length of one path [m]."""
    d = course.offset
    kappa, sigma = shape.strain[..., :3], shape.strain[..., 3:]
    tangent = course.slope + jnp.cross(jnp.broadcast_to(kappa, d.shape), d) + sigma
    speed = jax.vmap(norm)(tangent.reshape(-1, 3)).reshape(tangent.shape[:-1])
    length = jnp.sum(course.weight * speed)
    if shape.joints is None:
        return length
    rotation, translation = shape.joints
    along = jnp.cross(rotation, course.joint_offset)[:, 0] + translation[:, 0]
    return length + jnp.sum(course.crosses * along)


def shape_and_courses(
    routing: ThreadlikeRouting,
    joint_crossing: JointCrossing,
    robot: MaterialFramed,
    q: Float[Array, " dofs"],
) -> tuple[Shape, Course]:
    """What the lengths of all paths depend on."""
    nodes = robot.strain_nodes(q)
    over_nodes = jax.vmap(jax.vmap(lambda s: (routing.offsets(s), routing.derivatives(s))))
    offset, slope = (jnp.moveaxis(x, -2, 0) for x in over_nodes(nodes.s))
    mask = routing.spans.mask(len(nodes.s)).T.astype(nodes.weights.dtype)
    weight = mask[:, :, None] * nodes.weights[None]
    joints = robot.joint_crossings(q) if isinstance(robot, JointCrossed) else None
    if joint_crossing == "none" or joints is None or not joints.segments:
        return Shape(nodes.strain, None), Course(weight, offset, slope, None, None)
    joint_offset = jnp.moveaxis(jax.vmap(routing.offsets)(joints.s), -2, 0)
    crosses = jnp.asarray(mask[:, np.array(joints.segments)])
    shape = Shape(nodes.strain, (joints.rotation, joints.translation))
    return shape, Course(weight, offset, slope, crosses, joint_offset)


class ThreadlikeTransmissionParams(Parameters):
    """Numbers of the routing, and the scale from path length to coordinate."""

    routing: BaseThreadlikeRoutingParams
    coordinate_scale: Float[Array, " paths"]


def fits_the_body(transmission: "ThreadlikeTransmission", host: Host) -> None:
    """The paths must lie inside the segments of a continuum."""
    if not isinstance(host, MaterialFramed):
        raise TypeError(
            f"`ThreadlikeTransmission` needs a continuum (`PCS`, `PlanarPCS`, `GVS`), and "
            f"`{type(host).__name__}` is none. On rigid links use `ArticulatedTendonActuator` or "
            "`SpatialTendonTransmission`."
        )
    num_segments = host.segment_lengths.shape[0]
    spans = transmission.spans
    for path, (start, end) in enumerate(zip(spans.start, spans.end, strict=True)):
        last = num_segments - 1 if end is None else end
        if start > last or last >= num_segments:
            raise ValueError(
                f"Path {path} covers the segments {start} to {last}, but this "
                f"{type(host).__name__} has the segments 0 to {num_segments - 1}."
            )
    leaves = jax.tree.leaves((transmission, host))
    if any(isinstance(leaf, Tracer) for leaf in leaves):
        return
    # in NumPy, so that installing compiles nothing
    lengths = np.asarray(host.segment_lengths)
    X = np.linspace(0, 1, 5, dtype=lengths.dtype)
    s = (np.cumsum(lengths) - lengths)[:, None] + lengths[:, None] * X
    numbers = jax.tree.map(np.asarray, transmission.params.routing)
    offsets = np.stack([[np.asarray(transmission.offset_fn(numbers, x)) for x in row] for row in s])
    mask = spans.mask(num_segments)
    for path in range(transmission.size):
        used = offsets[mask[:, path], :, path]
        if not np.all(np.isfinite(used)):
            raise ValueError(f"The offset of path {path} is not finite somewhere on its segments.")
        if np.any(used[..., 0] != 0):
            raise ValueError(
                f"The offset of path {path} has an x-component; a path is given by where it "
                "pierces the section at `s`, so x must be 0."
            )
        # a path may stick out of a tapered end, but not run outside along a whole segment
        outside = mask[:, path] & ~host.inside(X, offsets[:, :, path]).any(axis=1)
        if not transmission.allow_outside and outside.any():
            raise ValueError(
                f"Path {path} lies outside the body along segment {np.flatnonzero(outside)[0]}: "
                "its offset [y, z] is not in the cross-section. Check the units (metres); a cable "
                "carried outside by spacer discs needs `allow_outside=True` in its routing."
            )


class ThreadlikeTransmission(PathTransmission, Parametrised):
    """Coordinates `scale * length` of paths along the material of a rod.

    A scale of -1 makes the coordinate a contraction (tendons, muscles), +1 a length (rods), an
    area [m^2] a volume (chambers). Discrete joints on the way add their share with
    `joint_crossing="arc"`, nothing with `"none"`.
    """

    requirements: ClassVar[tuple] = (fits_the_body,)

    params: ThreadlikeTransmissionParams
    offset_fn: PathFunction = eqx.field(static=True)
    derivative_fn: PathFunction | None = eqx.field(static=True)
    spans: Spans = eqx.field(static=True)
    allow_outside: bool = eqx.field(static=True)
    orientation: Orientation = eqx.field(static=True)
    joint_crossing: JointCrossing = eqx.field(static=True)

    def __init__(
        self,
        routing: ThreadlikeRouting,
        coordinate_scale: ArrayLike = -1.0,
        orientation: Orientation = "contraction",
        joint_crossing: JointCrossing = "arc",
    ):
        if joint_crossing not in ("arc", "none"):
            raise ValueError(f"`joint_crossing` must be 'arc' or 'none', got {joint_crossing!r}.")
        scale = broadcast(
            coordinate_scale, "coordinate_scale", _dtype(routing.params), routing.num_paths
        )
        check_finite(scale, "coordinate_scale")
        self.params = ThreadlikeTransmissionParams(routing.params, scale)
        self.offset_fn, self.derivative_fn = routing.offset_fn, routing.derivative_fn
        self.spans, self.allow_outside = routing.spans, routing.allow_outside
        self.orientation = orientation
        self.joint_crossing = joint_crossing

    @property
    def size(self) -> int:
        return len(self.spans.start)

    @property
    def routing(self) -> ThreadlikeRouting:
        """The routing, reading the numbers in `params`."""
        functions = (self.offset_fn, self.derivative_fn)
        return ThreadlikeRouting(self.params.routing, *functions, *self.spans, self.allow_outside)

    def parts(
        self, robot: Host, q: Float[Array, " dofs"]
    ) -> tuple[Shape, tuple[Float[Array, " paths"], Course]]:
        shape, courses = shape_and_courses(self.routing, self.joint_crossing, robot, q)
        return shape, (self.params.coordinate_scale, courses)

    def coordinate(self, shared: Shape, own: tuple[Float[Array, ""], Course]) -> Float[Array, ""]:
        scale, course = own
        return scale * path_length(shared, course)


def _dtype(params: Parameters) -> np.dtype:
    return float_dtype(*jax.tree.leaves(params))


def _rows(value: ArrayLike, name: str, dtype: np.dtype) -> Float[Array, "paths 3"]:
    rows = as_array(value, name, dtype)
    if rows.ndim != 2 or rows.shape[1] != 3 or rows.shape[0] == 0:
        raise ValueError(
            f"`{name}` needs one row [0, y, z] for each path (p, 3), got shape {rows.shape}."
        )
    check_finite(rows, name)
    return rows


def _per_path(value: object, name: str, count: int) -> tuple:
    if value is None or np.ndim(value) == 0:
        return (None if value is None else int(value),) * count
    if len(value) != count:
        raise ValueError(f"`{name}` needs one value or one for each of {count} paths, got {value}.")
    return tuple(None if x is None else int(x) for x in value)
