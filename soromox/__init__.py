"""Models of soft and articulated robots and of what drives them, in JAX."""

from soromox import (
    actuation as actuation,
    chain as chain,
    lie as lie,
    numerics as numerics,
    simulation as simulation,
    systems as systems,
)
from soromox.numerics import enable_compilation_cache as enable_compilation_cache


__version__ = "0.1.0"
