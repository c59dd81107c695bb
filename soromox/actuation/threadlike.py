"""Paths along the material of a rod: tendons, rods, muscles and chambers inside bending bodies."""

from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from soromox.actuation.parametrised import Parametrised
from soromox.actuation.threadlike_routing import (
    BaseThreadlikeRoutingParams,
    PathFunction,
    Spans,
    ThreadlikeRouting,
    leaves_section,
    linear_derivative,
    routing_dtype,
)
from soromox.actuation.transmission import Orientation, PathTransmission
from soromox.chain.hosts import Host, JointCrossed, MaterialFramed
from soromox.numerics import norm
from soromox.numerics.checks import (
    ArrayLike,
    broadcast,
    check_values,
)
from soromox.numerics.parameters import Parameters


JointCrossing = Literal["arc", "none"]


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

    def __init__(self, routing: Any, coordinate_scale: Any):
        self.routing, self.coordinate_scale = routing, coordinate_scale
        check_values(
            coordinate_scale,
            lambda scale: np.isfinite(scale) & (scale != 0),
            "`coordinate_scale` must be finite and not zero.",
        )


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
            raise ValueError(leaves_section(path, "The offset"))
        # a path may stick out of a thinner end, but not run outside along a whole segment
        outside = mask[:, path] & ~host.inside(X, offsets[:, :, path]).any(axis=1)
        if not transmission.allow_outside and outside.any():
            segment = np.flatnonzero(outside)[0]
            raise ValueError(
                f"Path {path} lies outside the body along segment {segment}: its offset [y, z], "
                f"{offsets[segment, 0, path, 1:]} m at s = {s[segment, 0]:.4g} m, is not in the "
                "cross-section. Check the units (metres); a cable carried outside by spacer discs "
                "needs `allow_outside=True` in its routing."
            )
    if transmission.derivative_fn not in (None, linear_derivative):
        _check_derivative(transmission, transmission.derivative_fn, s[mask.any(axis=1)].ravel())


def _check_derivative(
    transmission: "ThreadlikeTransmission", derivative_fn: PathFunction, s: np.ndarray
) -> None:
    """Whether `derivative_fn` is the derivative of `offset_fn` at these arc lengths."""
    params = transmission.params.routing
    along = lambda x: transmission.offset_fn(params, x)
    for x in s:
        x = jnp.asarray(x)
        given = np.asarray(derivative_fn(params, x))
        expected = np.asarray(jax.jvp(along, (x,), (jnp.ones_like(x),))[1])
        if given.shape != expected.shape:
            raise ValueError(
                f"`derivative_fn` must return one row for each path, {expected.shape}, got "
                f"{given.shape}."
            )
        if not np.allclose(given, expected, rtol=1e-3, atol=1e-3 * (1e-3 + np.abs(expected).max())):
            raise ValueError(
                f"`derivative_fn` is not the derivative of `offset_fn` by `s`: at s = {x:.4g} m it "
                f"gives {given.tolist()} instead of {expected.tolist()}. Leave it out to have it "
                "derived."
            )


class ThreadlikeTransmission(PathTransmission, Parametrised):
    """Coordinates `scale * length` of paths along the material of a rod.

    A scale of -1 makes the coordinate a contraction (tendons, muscles), +1 a length (rods), an
    area [m^2] a volume (chambers). Discrete joints on the way add their share with
    `joint_crossing="arc"`, nothing with `"none"`.
    """

    is_whole: ClassVar[bool] = True
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
            coordinate_scale, "coordinate_scale", routing_dtype(routing.params), routing.num_paths
        )
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
