"""McKibben muscles across pairs of crossed joints, driven by pressure."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from soromox.actuation.actuators import require_parts
from soromox.actuation.channels import (
    at_rest,
    channel_bounds,
    channel_units,
    numbered,
)
from soromox.actuation.core import Actuator
from soromox.actuation.efforts import DirectEffort
from soromox.actuation.laws import (
    EffortModel,
)
from soromox.actuation.parametrised import Parametrised
from soromox.actuation.transmission import Orientation, SizedTransmission
from soromox.chain.hosts import Host, JointRouted, LinkFramed
from soromox.numerics import einsum, norm
from soromox.numerics.checks import (
    ArrayLike,
    as_array,
    check_finite,
    check_positive,
    check_values,
    concrete,
    float_dtype,
    index_of,
)
from soromox.numerics.parameters import Parameters


class ArticulatedMcKibbenTransmissionParams(Parameters):
    """The numbers of groups of muscles, each group across one pair of joints.

    A muscle runs from a fixed point to a point that a pair of crossed joints moves:
    `moving = T R_x(q_a) R_y(q_b) moving_point`, in the frame of the fixed points.

    - `moving_base_transform`: T, rigid motions (groups, 4, 4).
    - `moving_points`, `fixed_points`: attachments (groups, muscles, 3) [m].
    - `reference_length` [m], `length_offset` [m]: a muscle's effective length is the distance of
      its points minus the first plus the second; numbers, or (groups, muscles).
    - `thread_length` B [m], `num_turns` N: of the braid; numbers, or (groups, muscles).
    - `joint_pair_indices`: the joints (a, b) of each group, about x and y; topology, fixed.
    """

    moving_base_transform: Float[Array, "groups 4 4"]
    moving_points: Float[Array, "groups muscles 3"]
    fixed_points: Float[Array, "groups muscles 3"]
    reference_length: Float[Array, "groups muscles"]
    length_offset: Float[Array, "groups muscles"]
    thread_length: Float[Array, "groups muscles"]
    num_turns: Float[Array, "groups muscles"]
    joint_pair_indices: tuple[tuple[int, int], ...] = eqx.field(static=True)

    def __init__(
        self,
        moving_base_transform: ArrayLike,
        moving_points: ArrayLike,
        fixed_points: ArrayLike,
        reference_length: ArrayLike,
        length_offset: ArrayLike,
        thread_length: ArrayLike,
        num_turns: ArrayLike,
        joint_pair_indices: ArrayLike,
    ):
        numbers = (reference_length, length_offset, thread_length, num_turns)
        dtype = float_dtype(moving_base_transform, moving_points, fixed_points, *numbers)
        points = as_array(moving_points, "moving_points", dtype)
        if points.ndim != 3 or points.shape[2] != 3 or 0 in points.shape:
            raise ValueError(
                f"`moving_points` needs shape (groups, muscles, 3), got {points.shape}."
            )
        groups, muscles, _ = points.shape
        self.moving_base_transform = as_array(
            moving_base_transform, "moving_base_transform", dtype, (groups, 4, 4)
        )
        self.moving_points = points
        self.fixed_points = as_array(fixed_points, "fixed_points", dtype, (groups, muscles, 3))
        names = ("reference_length", "length_offset", "thread_length", "num_turns")
        self.reference_length, self.length_offset, self.thread_length, self.num_turns = (
            _per_muscle(value, name, dtype, (groups, muscles))
            for value, name in zip(numbers, names, strict=True)
        )
        self.joint_pair_indices = _joint_pairs(joint_pair_indices, groups)
        for name in ("moving_points", "fixed_points", "reference_length", "length_offset"):
            check_finite(getattr(self, name), name)
        check_positive(self.thread_length, "thread_length")
        check_positive(self.num_turns, "num_turns")
        check_values(
            self.moving_base_transform,
            _is_rigid,
            "`moving_base_transform` needs rigid motions (groups, 4, 4).",
        )


def needs_joint_pairs(transmission: "ArticulatedMcKibbenTransmission", host: Host) -> None:
    """Each group needs two joints that follow each other and turn about x, then about y."""
    name = type(host).__name__
    if not isinstance(host, JointRouted) or host.is_planar:
        raise TypeError(
            f"`{type(transmission).__name__}` needs a spatial host with one-dof joints, such as "
            f"`ArticulatedSoftRobot`, and `{name}` is none. A muscle along the length of any path "
            "is `TransmissionActuator(transmission, McKibbenMuscle(...))`."
        )
    parents = host.joint_parents
    for group, (a, b) in enumerate(transmission.params.joint_pair_indices):
        if not (0 <= a < len(parents) and 0 <= b < len(parents)) or parents[b] != a:
            raise ValueError(
                f"Group {group} of `joint_pair_indices` is ({a}, {b}), but its joints must follow "
                f"each other on this {name}, whose joints have the parents {parents}."
            )
    screws = concrete(host.joint_screws)
    if screws is None:
        return
    for group, pair in enumerate(transmission.params.joint_pair_indices):
        for joint, axis in zip(pair, "xy", strict=True):
            expected = np.eye(6)["xy".index(axis)]
            if not np.allclose(screws[joint], expected, rtol=0, atol=1e-4):
                raise ValueError(
                    f"Group {group} of `joint_pair_indices` is {pair}, but joint {joint} has the "
                    f"screw {screws[joint].tolist()} and does not turn by one about {axis}. The "
                    "joints of a pair turn about the x axis and then the y axis of their frames."
                )


class ArticulatedMcKibbenTransmission(SizedTransmission, Parametrised):
    r"""The volumes [m^3] of McKibben muscles across joint pairs.

    $V = (B^2 - l^2)\,l / (4 \pi N^2)$ for effective length l, thread length B and N turns of the
    thread (Chou & Hannaford 1996, IEEE T-RA 12(1), 90-102); conjugate to pressure. Coordinates
    go group by group, muscle by muscle.
    """

    orientation: ClassVar[Orientation] = "generic"
    is_whole: ClassVar[bool] = True
    requirements: ClassVar[tuple] = (needs_joint_pairs,)

    params: ArticulatedMcKibbenTransmissionParams

    @property
    def size(self) -> int:
        groups, muscles, _ = self.params.moving_points.shape
        return groups * muscles

    @eqx.filter_jit
    def effective_lengths(self, robot: Host, q: Float[Array, " dofs"]) -> Float[Array, " muscles"]:
        """Effective length l [m] of each muscle."""
        params = self.params
        T, p = params.moving_base_transform, params.moving_points
        # the axes of the pair, x then y, are the columns of its rotation
        a, b = (_pair_angles(params, robot, q, side) for side in (0, 1))
        local = _turn(0, a, _turn(1, b, p))
        moving = einsum("gij,gmj->gmi", T[:, :3, :3], local) + T[:, None, :3, 3]
        distance = jax.vmap(jax.vmap(norm))(moving - params.fixed_points)
        return (distance - params.reference_length + params.length_offset).reshape(-1)

    def coordinates(self, robot: Host, q: Float[Array, " dofs"]) -> Float[Array, " muscles"]:
        length = self.effective_lengths(robot, q)
        thread, turns = self.params.thread_length.reshape(-1), self.params.num_turns.reshape(-1)
        return (thread**2 - length**2) * length / (4 * np.pi * turns**2)

    @eqx.filter_jit
    def attachments(
        self, robot: Host, q: Float[Array, " dofs"]
    ) -> tuple[Float[Array, "muscles 3"], Float[Array, "muscles 3"]]:
        """World positions [m] of the fixed and the moving end of each muscle, for drawing."""
        if not isinstance(robot, LinkFramed):
            raise TypeError(f"`attachments` needs a host with link frames, not {type(robot)}.")
        params = self.params
        T = params.moving_base_transform
        muscles = params.moving_points.shape[1]
        # the fixed frame is the first joint's frame moved by T^-1; turning back by q_a undoes the
        # motion of the link that stands in for that frame
        shifted = params.fixed_points - T[:, None, :3, 3]
        before = einsum("gji,gmj->gmi", T[:, :3, :3], shifted)
        fixed = _turn(0, -_pair_angles(params, robot, q, 0), before)
        links = [[pair[side]] * muscles for side in (0, 1) for pair in params.joint_pair_indices]
        points = jnp.concatenate([fixed.reshape(-1, 3), params.moving_points.reshape(-1, 3)])
        world = robot.link_points(q, tuple(np.ravel(links).tolist()), points)
        return world[: self.size], world[self.size :]


class ArticulatedMcKibbenActuator(Actuator):
    """Muscles across joint pairs; the control is their gauge pressure [Pa], negative in vacuum."""

    transmission: ArticulatedMcKibbenTransmission
    effort_model: EffortModel
    lower_bounds: Float[Array, " muscles"]
    upper_bounds: Float[Array, " muscles"]
    state_variables: Float[Array, " variables"]
    labels: tuple[str, ...] = eqx.field(static=True)
    units: tuple[str, ...] = eqx.field(static=True)
    kind: str = eqx.field(static=True)

    def __init__(
        self,
        params: ArticulatedMcKibbenTransmissionParams,
        effort_model: EffortModel = DirectEffort(),
        lower_bounds: ArrayLike | None = None,
        upper_bounds: ArrayLike | None = None,
    ):
        """Bounds are `(0, inf)` by default."""
        self.transmission = ArticulatedMcKibbenTransmission(params)
        require_parts(self.transmission, effort_model)
        self.effort_model = effort_model
        count, dtype = self.transmission.size, params.moving_points.dtype
        self.lower_bounds, self.upper_bounds = channel_bounds(
            lower_bounds, upper_bounds, count, dtype, (0.0, np.inf)
        )
        self.state_variables = at_rest(effort_model, count, dtype)
        self.labels = numbered("mckibben_pressure", count)
        self.units = channel_units("Pa", count)
        self.kind = "muscle"

    def effective_lengths(self, robot: Host, q: ArrayLike) -> Float[Array, " muscles"]:
        """Effective length [m] of each muscle. Raises `ValueError` for wrong shapes."""
        q = as_array(q, "q", robot.dtype, (robot.num_dofs,))
        return self.transmission.effective_lengths(robot, q)

    def axial_forces(
        self, robot: Host, q: ArrayLike, pressure: ArrayLike
    ) -> Float[Array, " muscles"]:
        """Tension [N] of each muscle under these pressures [Pa]: `-p dV/dl`.

        Raises `ValueError` for wrong shapes and for pressures that are not finite.
        """
        params = self.transmission.params
        length = self.effective_lengths(robot, q)
        pressure = as_array(pressure, "pressure", robot.dtype, length.shape)
        check_finite(pressure, "pressure")
        thread, turns = params.thread_length.reshape(-1), params.num_turns.reshape(-1)
        return pressure * (3 * length**2 - thread**2) / (4 * np.pi * turns**2)

    def attachments(
        self, robot: Host, q: ArrayLike
    ) -> tuple[Float[Array, "muscles 3"], Float[Array, "muscles 3"]]:
        """World positions [m] of the fixed and the moving end of each muscle, for drawing.

        Raises `ValueError` for wrong shapes.
        """
        q = as_array(q, "q", robot.dtype, (robot.num_dofs,))
        return self.transmission.attachments(robot, q)


def _pair_angles(
    params: ArticulatedMcKibbenTransmissionParams, robot: Host, q: Float[Array, " dofs"], side: int
) -> Float[Array, " groups"]:
    first = robot.num_dofs - robot.num_internal_dofs
    return q[np.array([first + pair[side] for pair in params.joint_pair_indices])]


def _turn(
    axis: int, angle: Float[Array, " groups"], points: Float[Array, "groups muscles 3"]
) -> Float[Array, "groups muscles 3"]:
    """Points turned about a coordinate axis, by one angle for each group."""
    along, across = (axis + 1) % 3, (axis + 2) % 3
    cos, sin = jnp.cos(angle)[:, None], jnp.sin(angle)[:, None]
    u, v = points[..., along], points[..., across]
    turned = {axis: points[..., axis], along: cos * u - sin * v, across: sin * u + cos * v}
    return jnp.stack([turned[i] for i in range(3)], axis=-1)


def _per_muscle(
    value: ArrayLike, name: str, dtype: np.dtype, shape: tuple[int, int]
) -> Float[Array, "groups muscles"]:
    array = as_array(value, name, dtype)
    return jnp.full(shape, array) if array.ndim == 0 else as_array(array, name, dtype, shape)


def _joint_pairs(pairs: ArrayLike, groups: int) -> tuple[tuple[int, int], ...]:
    array = np.asarray(pairs)
    if array.shape != (groups, 2) or any(a == b for a, b in array):
        raise ValueError(
            f"`joint_pair_indices` needs two different joints for each of {groups} groups, got "
            f"{array.tolist()}."
        )
    name = "joint_pair_indices"
    return tuple((index_of(a, name), index_of(b, name)) for a, b in array)


def _is_rigid(transforms: np.ndarray) -> np.ndarray:
    R = transforms[..., :3, :3].astype(np.float64)
    orthonormal = np.abs(R @ np.swapaxes(R, -1, -2) - np.eye(3)).max(axis=(-1, -2)) < 1e-5
    last = np.abs(transforms[..., 3, :] - np.array([0.0, 0.0, 0.0, 1.0])).max(axis=-1) < 1e-6
    return orthonormal & (np.linalg.det(R) > 0) & last
