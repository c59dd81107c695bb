"""Tendons, push rods, muscles, pressure chambers and springs along the material of a rod."""

from typing import ClassVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Scalar

from soromox.actuation.actuators import require_parts
from soromox.actuation.channels import (
    at_rest,
    channel_bounds,
    channel_units,
    numbered,
)
from soromox.actuation.core import Actuator
from soromox.actuation.efforts import DirectEffort
from soromox.actuation.impedance import AbstractImpedance, check_impedance, quadratic
from soromox.actuation.laws import EffortModel, control_unit
from soromox.actuation.threadlike import JointCrossing, ThreadlikeTransmission, path_lengths
from soromox.actuation.threadlike_routing import BaseThreadlikeRoutingParams, ThreadlikeRouting
from soromox.actuation.transmission import Orientation
from soromox.chain.hosts import Host
from soromox.numerics.checks import (
    ArrayLike,
    arc_length_array,
    as_array,
    broadcast,
    check_arc_length,
    check_positive,
    concrete,
    float_dtype,
)
from soromox.numerics.parameters import Parameters


class ThreadlikeActuator(Actuator):
    """Actuators along paths in the material of a rod, one channel for each path.

    Made by `tendons`, `push_rods`, `muscles` or `pressure_chambers`. Each takes a
    `ThreadlikeRouting`, `effort_model` (by default the control is the effort), `lower_bounds`,
    `upper_bounds` (metadata, `(0, inf)` by default) and `joint_crossing`.
    """

    transmission: ThreadlikeTransmission
    effort_model: EffortModel
    lower_bounds: Float[Array, " paths"]
    upper_bounds: Float[Array, " paths"]
    state_variables: Float[Array, " variables"]
    labels: tuple[str, ...] = eqx.field(static=True)
    units: tuple[str, ...] = eqx.field(static=True)
    kind: str = eqx.field(static=True)

    @classmethod
    def tendons(cls, routing: ThreadlikeRouting, **options: object) -> "ThreadlikeActuator":
        """Cables that pull; the coordinate is `-length` [m], the control their tension [N]."""
        names = ("tendon_tension", "N", "tendon")
        return cls._along(routing, -1.0, "contraction", names, **options)

    @classmethod
    def push_rods(cls, routing: ThreadlikeRouting, **options: object) -> "ThreadlikeActuator":
        """Rods that push; the coordinate is the length [m], the control their compression [N]."""
        return cls._along(routing, 1.0, "length", ("rod_compression", "N", "push_rod"), **options)

    @classmethod
    def muscles(cls, routing: ThreadlikeRouting, **options: object) -> "ThreadlikeActuator":
        """Muscles that pull; the coordinate is `-length` [m], the control their tension [N]."""
        names = ("muscle_tension", "N", "muscle")
        return cls._along(routing, -1.0, "contraction", names, **options)

    @classmethod
    def pressure_chambers(
        cls, routing: ThreadlikeRouting, effective_area: ArrayLike, **options: object
    ) -> "ThreadlikeActuator":
        """Chambers that push; the coordinate is the volume `effective_area * length` [m^3], the
        control the gauge pressure [Pa]. `effective_area` [m^2] is one number or one for each path.
        """
        _need_routing(routing)
        dtype = float_dtype(*jax.tree.leaves(routing))
        area = broadcast(effective_area, "effective_area", dtype, routing.num_paths)
        check_positive(area, "effective_area")
        names = ("chamber_pressure", "Pa", "pneumatic")
        return cls._along(routing, area, "generic", names, **options)

    @classmethod
    def _along(
        cls,
        routing: ThreadlikeRouting,
        scale: ArrayLike,
        orientation: Orientation,
        names: tuple[str, str, str],
        *,
        effort_model: EffortModel = DirectEffort(),
        lower_bounds: ArrayLike | None = None,
        upper_bounds: ArrayLike | None = None,
        joint_crossing: JointCrossing = "arc",
        **unknown: object,
    ) -> "ThreadlikeActuator":
        if unknown:
            raise TypeError(
                f"`ThreadlikeActuator` has no option `{next(iter(unknown))}`; it has: "
                "effort_model, lower_bounds, upper_bounds, joint_crossing."
            )
        _need_routing(routing)
        transmission = ThreadlikeTransmission(routing, scale, orientation, joint_crossing)
        require_parts(transmission, effort_model)
        label, unit, kind = names
        count, dtype = transmission.size, transmission.params.coordinate_scale.dtype
        bounds = channel_bounds(lower_bounds, upper_bounds, count, dtype, (0.0, np.inf))
        units = channel_units(control_unit(effort_model, transmission) or unit, count)
        labels = numbered(label, count)
        variables = at_rest(effort_model, count, dtype)
        return cls(transmission, effort_model, *bounds, variables, labels, units, kind)

    def path_lengths(self, robot: Host, q: ArrayLike) -> Float[Array, " paths"]:
        """Length of each path [m]."""
        return self._lengths(robot, _state(robot, q=q)[0])

    def path_velocities(self, robot: Host, q: ArrayLike, qd: ArrayLike) -> Float[Array, " paths"]:
        """Rate of each path's length [m/s]."""
        return self._velocities(robot, *_state(robot, q=q, qd=qd))

    @eqx.filter_jit
    def _lengths(self, robot: Host, q: Array) -> Float[Array, " paths"]:
        transmission = self.transmission
        return path_lengths(transmission.routing, transmission.joint_crossing, robot, q)

    @eqx.filter_jit
    def _velocities(self, robot: Host, q: Array, qd: Array) -> Float[Array, " paths"]:
        return jax.jvp(lambda q: self._lengths(robot, q), (q,), (qd,))[1]

    def path_points(
        self, robot: Host, q: ArrayLike, s: ArrayLike
    ) -> Float[Array, "paths points 3"]:
        """World positions [m] of every path at the arc lengths `s` (points,) [m].

        Raises `ValueError` for wrong shapes and a concrete `s` outside the robot.
        """
        (q,) = _state(robot, q=q)
        s = arc_length_array(s, robot.dtype)
        if s.ndim != 1:
            raise ValueError(f"`s` needs shape (points,), got {s.shape}.")
        lengths = concrete(robot.segment_lengths)
        if lengths is not None:
            check_arc_length(s, float(np.sum(lengths)))
        return self._points(robot, q, as_array(s, "s", robot.dtype))

    @eqx.filter_jit
    def _points(self, robot: Host, q: Array, s: Array) -> Float[Array, "paths points 3"]:
        offsets = jax.vmap(self.transmission.routing.offsets, out_axes=1)(s)
        return jax.vmap(lambda d: robot.material_points(q, s, d))(offsets)


def _state(robot: Host, **values: ArrayLike) -> list[Array]:
    return [as_array(x, name, robot.dtype, (robot.num_dofs,)) for name, x in values.items()]


class ThreadlikeImpedanceParams(Parameters):
    """Numbers of springs and dampers along paths."""

    routing: BaseThreadlikeRoutingParams
    stiffness: Float[Array, " paths"]
    damping: Float[Array, " paths"]
    rest_length: Float[Array, " paths"]

    # `object`, because tree operations read params of robots whose leaves are no arrays
    def __init__(self, routing: object, stiffness: object, damping: object, rest_length: object):
        self.routing, self.stiffness = routing, stiffness
        self.damping, self.rest_length = damping, rest_length
        check_impedance(stiffness, damping, rest_length, is_length=True)


class ThreadlikeImpedance(AbstractImpedance):
    """A spring and damper along each path: `U = 1/2 sum k (L - L_0)^2`, `R = 1/2 sum c Ld^2`.

    `stiffness` [N/m], `damping` [N s/m] and `rest_length` [m] are one number or one for each path.
    """

    params_type: ClassVar[type[Parameters]] = ThreadlikeImpedanceParams

    routing: ThreadlikeRouting
    stiffness: Float[Array, " paths"]
    damping: Float[Array, " paths"]
    rest_length: Float[Array, " paths"]
    joint_crossing: JointCrossing = eqx.field(static=True)

    def __init__(
        self,
        routing: ThreadlikeRouting,
        stiffness: ArrayLike,
        damping: ArrayLike = 0.0,
        *,
        rest_length: ArrayLike,
        joint_crossing: JointCrossing = "arc",
    ):
        _need_routing(routing)
        dtype = float_dtype(*jax.tree.leaves(routing))
        numbers = {"stiffness": stiffness, "damping": damping, "rest_length": rest_length}
        self.stiffness, self.damping, self.rest_length = (
            broadcast(value, name, dtype, routing.num_paths) for name, value in numbers.items()
        )
        check_impedance(self.stiffness, self.damping, self.rest_length, is_length=True)
        self.routing, self.joint_crossing = routing, joint_crossing

    @property
    def transmission(self) -> ThreadlikeTransmission:
        """The lengths of the paths, reading the numbers of `routing`."""
        return ThreadlikeTransmission(self.routing, 1.0, "length", self.joint_crossing)

    @property
    def num_coordinates(self) -> int:
        return self.routing.num_paths

    def stored(self, y: Float[Array, " paths"]) -> Scalar:
        return quadratic(self.stiffness, y - self.rest_length)

    def dissipated(self, yd: Float[Array, " paths"]) -> Scalar:
        return quadratic(self.damping, yd)


def _need_routing(routing: object) -> None:
    if not isinstance(routing, ThreadlikeRouting):
        raise TypeError(f"`routing` needs a ThreadlikeRouting, got {type(routing).__name__}.")
