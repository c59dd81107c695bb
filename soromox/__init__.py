"""Models of soft and articulated robots and of what drives them, in JAX."""

__version__ = "0.1.0"
