"""Tendons with constant moment arms that pass joints one after the other."""

import itertools
from typing import ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from soromox.actuation.actuators import require_parts
from soromox.actuation.affine import (
    affine_coordinates,
    affine_numbers,
    needs_matching_dofs,
)
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
from soromox.chain.hosts import Host, JointRouted
from soromox.numerics.checks import ArrayLike, concrete
from soromox.numerics.parameters import Parameters


AFFINE_HAS_NO_RULE = "`AffineGeneralizedCoordinateActuator` accepts any rows."


class ArticulatedTendonTransmissionParams(Parameters):
    """The numbers of `y = R (q - q_ref) + y_0`, one row of moment arms [m] for each tendon.

    Rows are independent, and the nonzero entries of a row are contiguous: a tendon may be anchored
    on a later link (leading zeros) and may end early (trailing zeros), but passes every joint in
    between.
    """

    routing_matrix: Float[Array, "tendons dofs"]
    reference_configuration: Float[Array, " dofs"]
    coordinate_offset: Float[Array, " tendons"]

    def __init__(
        self,
        routing_matrix: ArrayLike,
        reference_configuration: ArrayLike | None = None,
        coordinate_offset: ArrayLike | None = None,
    ):
        fields = affine_numbers(routing_matrix, reference_configuration, coordinate_offset)
        self.routing_matrix, self.reference_configuration, self.coordinate_offset = fields
        _check_rows(self.routing_matrix)


def _check_rows(routing_matrix: ArrayLike) -> None:
    rows = concrete(routing_matrix)
    if rows is None:
        return
    for index, row in enumerate(rows):
        joints = np.flatnonzero(row)
        if joints.size == 0:
            raise ValueError(
                f"Row {index} of `routing_matrix` is zero: this tendon passes no joint."
            )
        gaps = np.setdiff1d(np.arange(joints[0], joints[-1]), joints)
        if gaps.size:
            raise ValueError(
                f"Row {index} of `routing_matrix` skips joint {gaps[0]}: its tendon ends before "
                f"that joint and has an entry again at joint {joints[joints > gaps[0]][0]}, but a "
                f"tendon passes joints one after the other. {AFFINE_HAS_NO_RULE}"
            )
    rank = np.linalg.matrix_rank(rows.astype(np.float64), tol=_rank_tolerance(rows))
    if rank < rows.shape[0]:
        raise ValueError(
            f"The {rows.shape[0]} rows of `routing_matrix` must be independent, but their rank is "
            f"{rank}. {AFFINE_HAS_NO_RULE}"
        )


def _rank_tolerance(rows: np.ndarray) -> float:
    eps = np.finfo(rows.dtype).eps
    return float(np.linalg.norm(rows.astype(np.float64), 2) * max(rows.shape) * eps)


def needs_joint_routing(transmission: "ArticulatedTendonTransmission", host: Host) -> None:
    """Each tendon must pass joints that follow each other on the host."""
    if not isinstance(host, JointRouted):
        raise TypeError(
            f"`{type(transmission).__name__}` needs a host with serial joint routing (one-dof "
            f"joints, such as `Pendulum` or `ArticulatedSoftRobot`), and `{type(host).__name__}` "
            "has none. On this host use `AffineGeneralizedCoordinateActuator` (any linear map of "
            "the coordinates) or, on a continuum, `ThreadlikeActuator.tendons`."
        )
    rows = concrete(transmission.params.routing_matrix)
    if rows is None:
        return
    parents = host.joint_parents
    for index, row in enumerate(rows):
        joints = np.flatnonzero(row)
        for before, joint in itertools.pairwise(joints):
            if parents[joint] != before:
                raise ValueError(
                    f"Row {index} of `routing_matrix` goes from joint {before} to joint {joint}, "
                    f"but on this {type(host).__name__} joint {joint} follows "
                    f"{'the base' if parents[joint] < 0 else f'joint {parents[joint]}'}: the joints "
                    f"of a tendon must be a path. {AFFINE_HAS_NO_RULE}"
                )


class ArticulatedTendonTransmission(SizedTransmission, Parametrised):
    """`y = R (q - q_ref) + y_0` with contraction positive: tension `e > 0` gives `tau = R^T e`.

    A negative moment arm is a tendon on the side that lengthens as the joint turns positively.
    """

    orientation: ClassVar[Orientation] = "contraction"
    requirements: ClassVar[tuple] = (needs_matching_dofs, needs_joint_routing)

    params: ArticulatedTendonTransmissionParams

    @classmethod
    def from_routing(
        cls,
        routing_matrix: ArrayLike,
        reference_configuration: ArrayLike | None = None,
        coordinate_offset: ArrayLike | None = None,
    ) -> "ArticulatedTendonTransmission":
        """One row of moment arms [m] for each tendon."""
        return cls(
            ArticulatedTendonTransmissionParams(
                routing_matrix, reference_configuration, coordinate_offset
            )
        )

    @property
    def size(self) -> int:
        return self.params.routing_matrix.shape[0]

    def coordinates(self, robot: Host, q: Float[Array, " dofs"]) -> Float[Array, " tendons"]:
        params = self.params
        return affine_coordinates(
            params.routing_matrix, params.reference_configuration, params.coordinate_offset, q
        )


class ArticulatedTendonActuator(Actuator):
    """Tendons of constant moment arms; the control is their tension [N] by default."""

    transmission: ArticulatedTendonTransmission
    effort_model: EffortModel
    lower_bounds: Float[Array, " tendons"]
    upper_bounds: Float[Array, " tendons"]
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
    ) -> "ArticulatedTendonActuator":
        """One row of moment arms [m] for each tendon; bounds are `(0, inf)` by default."""
        transmission = ArticulatedTendonTransmission.from_routing(
            routing_matrix, reference_configuration, coordinate_offset
        )
        require_parts(transmission, effort_model)
        count, dtype = transmission.size, transmission.params.routing_matrix.dtype
        lower, upper = channel_bounds(lower_bounds, upper_bounds, count, dtype, (0.0, np.inf))
        return cls(
            transmission,
            effort_model,
            lower,
            upper,
            at_rest(effort_model, count, dtype),
            numbered("tendon_tension", count),
            channel_units("N", count),
            "tendon",
        )
