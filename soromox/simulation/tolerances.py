"""When an iteration has reached the rounding of its dtype."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float


class Tolerances(NamedTuple):
    """Relative sizes of a correction, from the dtype alone."""

    fine: float  # aimed at
    loose: float  # accepted once rounding keeps corrections from shrinking

    @classmethod
    def of(cls, dtype: np.dtype) -> "Tolerances":
        eps = float(jnp.finfo(dtype).eps)
        return cls(32 * eps, eps ** (2 / 3))

    def reached(
        self, size: Float[Array, ""], ratio: Float[Array, ""], scale: Float[Array, ""]
    ) -> Bool[Array, ""]:
        """Whether the iterate *after* a correction of this size is good.

        `ratio` compares the correction with the one before: the error that remains is about
        `size ratio / (1 - ratio)`. The first correction has ratio 0 over infinity and counts fully.
        """
        contracts = (ratio > 0) & (ratio < 0.5)
        remaining = jnp.where(contracts, size * ratio / (1 - jnp.minimum(ratio, 0.5)), size)
        stagnates = (ratio > 0.5) & (size <= self.loose * scale)
        return (remaining <= self.fine * scale) | stagnates
