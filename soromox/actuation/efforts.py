"""Effort laws."""

from typing import ClassVar

from jaxtyping import Array, Float

from soromox.actuation.core import EffortModel


class DirectEffort(EffortModel):
    """`e = u`: the control is the effort conjugate to the coordinate.

    It pulls on a contraction coordinate (a tendon) and pushes on a length coordinate (a push rod).
    """

    is_feedforward: ClassVar[bool] = True

    def effort(
        self,
        control: Float[Array, " channels"],
        coordinate: Float[Array, " channels"],
        velocity: Float[Array, " channels"],
    ) -> Float[Array, " channels"]:
        return control
