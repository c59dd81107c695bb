"""Coordinates that are an affine function of the configuration: gears, couplings, moment arms."""

from collections.abc import Sequence
from typing import Any, ClassVar, SupportsIndex

import equinox as eqx
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
from soromox.actuation.transmission import Orientation, SizedTransmission, Transmission
from soromox.chain.hosts import Host, JointRouted
from soromox.numerics import matmul
from soromox.numerics.checks import (
    ArrayLike,
    as_array,
    check_finite,
    concrete,
    float_dtype,
    index_of,
)
from soromox.numerics.parameters import Parameters


class AffineGeneralizedCoordinateTransmissionParams(Parameters):
    """The numbers of `y = R (q - q_ref) + y_0`, over the internal dofs.

    - `routing_matrix`: R, one row for each coordinate [m/rad or m/m].
    - `reference_configuration`: q_ref, zero by default.
    - `coordinate_offset`: y_0, zero by default.
    """

    routing_matrix: Float[Array, "coordinates dofs"]
    reference_configuration: Float[Array, " dofs"]
    coordinate_offset: Float[Array, " coordinates"]

    def __init__(
        self,
        routing_matrix: ArrayLike,
        reference_configuration: ArrayLike | None = None,
        coordinate_offset: ArrayLike | None = None,
    ):
        fields = affine_numbers(routing_matrix, reference_configuration, coordinate_offset)
        self.routing_matrix, self.reference_configuration, self.coordinate_offset = fields


def affine_numbers(
    routing_matrix: ArrayLike,
    reference_configuration: ArrayLike | None,
    coordinate_offset: ArrayLike | None,
) -> tuple[Float[Array, "coordinates dofs"], Float[Array, " dofs"], Float[Array, " coordinates"]]:
    """The three arrays of an affine map, checked."""
    dtype = float_dtype(routing_matrix, reference_configuration, coordinate_offset)
    routing = as_array(routing_matrix, "routing_matrix", dtype)
    if routing.ndim != 2 or 0 in routing.shape:
        raise ValueError(
            "`routing_matrix` needs one row for each coordinate and one column for each internal "
            f"dof, got shape {routing.shape}."
        )
    rows, columns = routing.shape
    reference = (
        jnp.zeros(columns, dtype)
        if reference_configuration is None
        else as_array(reference_configuration, "reference_configuration", dtype, (columns,))
    )
    offset = (
        jnp.zeros(rows, dtype)
        if coordinate_offset is None
        else as_array(coordinate_offset, "coordinate_offset", dtype, (rows,))
    )
    check_finite(routing, "routing_matrix")
    check_finite(reference, "reference_configuration")
    check_finite(offset, "coordinate_offset")
    return routing, reference, offset


def affine_coordinates(
    routing_matrix: Float[Array, "coordinates dofs"],
    reference_configuration: Float[Array, " dofs"],
    coordinate_offset: Float[Array, " coordinates"],
    q: Float[Array, " all_dofs"],
) -> Float[Array, " coordinates"]:
    """`R (q - q_ref) + y_0` over the last entries of `q`."""
    internal = q[q.shape[0] - routing_matrix.shape[1] :]
    return matmul(routing_matrix, internal - reference_configuration) + coordinate_offset


def needs_matching_dofs(transmission: Any, host: Host) -> None:
    """The routing matrix must have one column for each internal dof."""
    columns = transmission.params.routing_matrix.shape[1]
    if columns != host.num_internal_dofs:
        raise ValueError(
            f"The `routing_matrix` of `{type(transmission).__name__}` has {columns} columns, but "
            f"`{type(host).__name__}` has {host.num_internal_dofs} internal dofs (the coordinates "
            "of a floating base get no column). Give one column for each internal dof."
        )


def needs_one_chart(transmission: Any, host: Host) -> None:
    """A coordinate that is read must not depend on a rotation vector."""
    routing = concrete(transmission.params.routing_matrix)
    if isinstance(host, JointRouted) or routing is None:
        return
    vectors = eqx.filter_eval_shape(host.mechanics).chain.rotation_vectors
    for start in (v - host.num_dofs + routing.shape[1] for v in vectors):
        if start >= 0 and np.any(routing[:, start : start + 3]):
            raise ValueError(
                f"`routing_matrix` has entries for dofs {start} ... {start + 2}, the rotation "
                "vector of a spherical or free joint: such a coordinate jumps where the vector "
                "passes half a turn. Only laws whose effort depends on the control alone, such as "
                "DirectEffort, may act along it."
            )


class AffineGeneralizedCoordinateTransmission(SizedTransmission, Parametrised):
    """`y = R (q - q_ref) + y_0` over the internal dofs, on any host; `A = R^T`.

    Rows are free: they may skip joints and need not be independent. Only feedforward laws act along
    rows with entries for a rotation vector (of a spherical or free joint), as the coordinate jumps
    where the vector passes half a turn.
    """

    orientation: ClassVar[Orientation] = "generic"
    requirements: ClassVar[tuple] = (needs_matching_dofs,)
    reading_requirements: ClassVar[tuple] = (needs_one_chart,)

    params: AffineGeneralizedCoordinateTransmissionParams

    @classmethod
    def linear(
        cls, num_dofs: SupportsIndex, joints: Sequence[SupportsIndex], coefficients: ArrayLike
    ) -> "AffineGeneralizedCoordinateTransmission":
        """One coordinate `sum_k coefficients[k] q[joints[k]]` on `num_dofs` internal dofs.

        Coefficients of a joint that is named twice add up.
        """
        num_dofs = index_of(num_dofs, "num_dofs")
        joints = tuple(index_of(joint, "joints") for joint in joints)
        for joint in joints:
            if not 0 <= joint < num_dofs:
                raise ValueError(
                    f"`joints` must lie in 0 ... {num_dofs - 1}, got {joint} in {joints}."
                )
        dtype = float_dtype(coefficients)
        values = as_array(coefficients, "coefficients", dtype, (len(joints),))
        check_finite(values, "coefficients")
        selection = np.zeros((len(joints), num_dofs), dtype)
        selection[np.arange(len(joints)), joints] = 1
        row = matmul(values, jnp.asarray(selection))[None]
        return cls(AffineGeneralizedCoordinateTransmissionParams(row))

    @property
    def size(self) -> int:
        return self.params.routing_matrix.shape[0]

    def coordinates(self, robot: Host, q: Float[Array, " dofs"]) -> Float[Array, " coordinates"]:
        params = self.params
        return affine_coordinates(
            params.routing_matrix, params.reference_configuration, params.coordinate_offset, q
        )


AffineJointTransmission = AffineGeneralizedCoordinateTransmission


class IdentityTransmission(Transmission):
    """`y = q` of the internal dofs, on any host; the rows of A of a floating base are zero."""

    orientation: ClassVar[Orientation] = "generic"

    def coordinates(self, robot: Host, q: Float[Array, " dofs"]) -> Float[Array, " coordinates"]:
        return q[robot.num_dofs - robot.num_internal_dofs :]


class IdentityActuator(Actuator):
    """One generalized effort for each internal dof."""

    transmission: IdentityTransmission
    effort_model: EffortModel
    lower_bounds: Float[Array, " channels"]
    upper_bounds: Float[Array, " channels"]
    state_variables: Float[Array, " variables"]
    labels: tuple[str, ...] = eqx.field(static=True)
    units: tuple[str, ...] = eqx.field(static=True)
    kind: str = eqx.field(static=True)

    def __init__(
        self,
        num_dofs: int,
        effort_model: EffortModel = DirectEffort(),
        lower_bounds: ArrayLike | None = None,
        upper_bounds: ArrayLike | None = None,
        dtype: np.dtype | None = None,
    ):
        """`num_dofs` is the number of internal dofs; bounds are infinite by default."""
        self.transmission = IdentityTransmission()
        require_parts(self.transmission, effort_model)
        self.effort_model = effort_model
        if dtype is None:
            dtype = float_dtype(lower_bounds, upper_bounds)
        self.lower_bounds, self.upper_bounds = channel_bounds(
            lower_bounds, upper_bounds, num_dofs, dtype
        )
        self.state_variables = at_rest(effort_model, num_dofs, self.lower_bounds.dtype)
        self.labels = numbered("generalized_effort", num_dofs)
        self.units = channel_units("generalized effort", num_dofs)
        self.kind = "identity"


class AffineGeneralizedCoordinateActuator(Actuator):
    """Efforts on affine coordinates: gears, couplings, constant moment arms, on any host."""

    transmission: AffineGeneralizedCoordinateTransmission
    effort_model: EffortModel
    lower_bounds: Float[Array, " channels"]
    upper_bounds: Float[Array, " channels"]
    state_variables: Float[Array, " variables"]
    labels: tuple[str, ...] = eqx.field(static=True)
    units: tuple[str, ...] = eqx.field(static=True)
    kind: str = eqx.field(static=True)

    @classmethod
    def from_routing(
        cls,
        routing_matrix: ArrayLike,
        reference_configuration: ArrayLike | None = None,
        coordinate_offset: ArrayLike | None = None,
        lower_bounds: ArrayLike | None = None,
        upper_bounds: ArrayLike | None = None,
        effort_model: EffortModel = DirectEffort(),
    ) -> "AffineGeneralizedCoordinateActuator":
        """`y = R (q - q_ref) + y_0`; bounds are infinite by default."""
        params = AffineGeneralizedCoordinateTransmissionParams(
            routing_matrix, reference_configuration, coordinate_offset
        )
        transmission = AffineGeneralizedCoordinateTransmission(params)
        require_parts(transmission, effort_model)
        count, dtype = transmission.size, params.routing_matrix.dtype
        lower, upper = channel_bounds(lower_bounds, upper_bounds, count, dtype)
        return cls(
            transmission,
            effort_model,
            lower,
            upper,
            at_rest(effort_model, count, dtype),
            numbered("generalized_effort", count),
            channel_units("generalized effort", count),
            "affine",
        )
