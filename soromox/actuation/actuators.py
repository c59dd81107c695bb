"""Actuators for any transmission and law, and transmissions without one."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from soromox.actuation.channels import (
    at_rest,
    channel_bounds,
    channel_units,
    numbered,
)
from soromox.actuation.core import Actuator
from soromox.actuation.efforts import DirectEffort
from soromox.actuation.laws import EffortModel, check_law, control_unit
from soromox.actuation.transmission import SizedTransmission, Transmission
from soromox.numerics.checks import ArrayLike, float_dtype


class TransmissionActuator(Actuator):
    """Pairs any transmission with any law."""

    transmission: Transmission
    effort_model: EffortModel
    lower_bounds: Float[Array, " channels"]
    upper_bounds: Float[Array, " channels"]
    state_variables: Float[Array, " variables"]
    labels: tuple[str, ...] = eqx.field(static=True)
    units: tuple[str, ...] = eqx.field(static=True)
    kind: str = eqx.field(static=True)

    def __init__(
        self,
        transmission: Transmission,
        effort_model: EffortModel = DirectEffort(),
        labels: Sequence[str] | None = None,
        units: Sequence[str] | str | None = None,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        kind: str = "transmission",
    ):
        """
        **Arguments:**

        - `labels`: one name for each coordinate of the transmission, which also fixes their number
          if the transmission does not know it without a robot (one coordinate then by default).
        - `units`: units of the control, one for all or one for each channel; those of the law by
          default.
        - `bounds`: lower and upper bounds of the control, metadata only; unbounded by default.
        """
        require_parts(transmission, effort_model)
        if labels is not None:
            labels = (labels,) if isinstance(labels, str) else tuple(labels)
            count = len(labels)
        elif isinstance(transmission, SizedTransmission):
            count = transmission.size
        else:
            count = 1
        dtype = float_dtype(*jax.tree.leaves((transmission, effort_model)))
        self.transmission = transmission
        self.effort_model = effort_model
        lower, upper = (None, None) if bounds is None else bounds
        self.lower_bounds, self.upper_bounds = channel_bounds(lower, upper, count, dtype)
        self.state_variables = at_rest(effort_model, count, dtype)
        self.labels = numbered(f"{kind}_effort", count) if labels is None else labels
        if units is None:
            effort = "generalized effort" if transmission.orientation == "generic" else "N"
            units = control_unit(effort_model, transmission) or effort
        self.units = channel_units(units, count)
        self.kind = kind


class BareTransmission(Actuator):
    """A transmission that nothing drives: it can be queried, has no channels and applies no force."""

    transmission: Transmission
    effort_model: EffortModel
    lower_bounds: Float[Array, " channels"]
    upper_bounds: Float[Array, " channels"]
    state_variables: Float[Array, " variables"]
    labels: tuple[str, ...] = eqx.field(static=True)
    units: tuple[str, ...] = eqx.field(static=True)
    kind: str = eqx.field(static=True)

    def __init__(self, transmission: Transmission):
        require_parts(transmission, DirectEffort())
        self.transmission = transmission
        self.effort_model = DirectEffort()
        dtype = float_dtype(*jax.tree.leaves(transmission))
        self.lower_bounds = jnp.zeros(0, dtype)
        self.upper_bounds = jnp.zeros(0, dtype)
        self.state_variables = jnp.zeros(0, dtype)
        self.labels = ()
        self.units = ()
        self.kind = "transmission"


def require_parts(transmission: Transmission, effort_model: EffortModel) -> None:
    """Raises `TypeError` unless the two are what they are called."""
    if not isinstance(transmission, Transmission):
        raise TypeError(
            f"`transmission` needs a `Transmission`, got {type(transmission).__name__}."
        )
    check_law(effort_model, "effort_model")
