"""What the channels of an actuator are: names, units, bounds, stored commands and states."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from soromox.actuation.laws import EffortModel, num_states
from soromox.numerics.checks import ArrayLike, broadcast, check_values, concrete, on_device


class ActuatorMetadata(NamedTuple):
    """What the channels of an actuator are: names, units, and bounds for controllers."""

    kind: str
    labels: tuple[str, ...]
    units: tuple[str, ...]
    lower_bounds: Float[Array, " channels"]
    upper_bounds: Float[Array, " channels"]


def channel_bounds(
    lower: ArrayLike | None,
    upper: ArrayLike | None,
    num_channels: int,
    dtype: np.dtype,
    default: tuple[float, float] = (-np.inf, np.inf),
) -> tuple[Float[Array, " channels"], Float[Array, " channels"]]:
    """Bounds as one pair of arrays; a scalar holds for all channels, `None` is the default."""
    lower = broadcast(default[0] if lower is None else lower, "lower_bounds", dtype, num_channels)
    upper = broadcast(default[1] if upper is None else upper, "upper_bounds", dtype, num_channels)
    check_bounds(lower, upper)
    return lower, upper


def check_bounds(lower: Any, upper: Any) -> None:
    """Raises if a bound is NaN, bars every command, or a lower one lies above its upper one."""
    if not (eqx.is_array_like(lower) and eqx.is_array_like(upper)):
        return  # stand-ins within a tree operation
    check_values(lower, lambda x: x < np.inf, "`lower_bounds` must not be NaN or inf.")
    check_values(upper, lambda x: x > -np.inf, "`upper_bounds` must not be NaN or -inf.")
    low, high = concrete(lower), concrete(upper)
    if low is not None and high is not None and np.any(low > high):
        raise ValueError(
            f"Every entry of `lower_bounds` must be at most its entry of `upper_bounds`, got "
            f"{low} and {high}."
        )


def at_rest(law: EffortModel, num_channels: int, dtype: np.dtype) -> Float[Array, " variables"]:
    """Zero commands and states, as stored in an actuator."""
    return on_device(np.zeros(num_channels * (1 + num_states(law)), dtype))


def numbered(name: str, count: int) -> tuple[str, ...]:
    """`name_0, name_1, ...`."""
    return tuple(f"{name}_{index}" for index in range(count))


def channel_units(units: Sequence[str] | str, count: int) -> tuple[str, ...]:
    """One unit for each channel; one string holds for all."""
    units = (units,) * count if isinstance(units, str) else tuple(units)
    if len(units) != count:
        raise ValueError(f"`units` needs one entry for each of {count} channels, got {units}.")
    return units
