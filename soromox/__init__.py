"""Models of soft and articulated robots and of what drives them, in JAX."""

from soromox import (
    actuation as actuation,
    chain as chain,
    lie as lie,
    numerics as numerics,
    simulation as simulation,
    systems as systems,
)


__version__ = "0.1.0"
