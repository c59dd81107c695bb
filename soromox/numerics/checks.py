"""Checks at the door: what comes in is converted and checked once, with a message of ours."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float


# what users may write for numbers: arrays, Python numbers, lists and tuples of them
ArrayLike = jaxtyping.ArrayLike | Sequence[Any]


def concrete(value: ArrayLike) -> np.ndarray | None:
    """The value as a NumPy array, or `None` while it is traced (and so has no value yet)."""
    return None if isinstance(value, Tracer) else np.asarray(value)


def check_values(
    value: ArrayLike, accept: Callable[[np.ndarray], np.ndarray | bool], message: str
) -> None:
    """Raises `ValueError` unless every entry is accepted; traced values pass.

    Write `accept` so that NaN fails (`x >= 0`, not `~(x < 0)`).
    """
    known = concrete(value)
    if known is not None and not np.all(accept(known)):
        raise ValueError(f"{message} Got {np.array2string(known, threshold=12, precision=6)}.")


def check_finite(value: ArrayLike, name: str) -> None:
    check_values(value, np.isfinite, f"`{name}` must be finite.")


def check_positive(value: ArrayLike, name: str) -> None:
    check_values(value, lambda x: (x > 0) & (x < np.inf), f"`{name}` must be positive.")


def check_non_negative(value: ArrayLike, name: str) -> None:
    check_values(value, lambda x: (x >= 0) & (x < np.inf), f"`{name}` must be non-negative.")


def check_arc_length(s: ArrayLike, length: float, label: str = "`s`") -> None:
    """Raises `ValueError` for a concrete `s` outside `[0, length]` [m], up to rounding."""
    known = concrete(s)
    if known is None:
        return
    slack = 8 * float(np.finfo(known.dtype).eps) * length
    inside = lambda x: (x >= -slack) & (x <= length + slack)
    check_values(known, inside, f"{label} must lie in [0, {length:g}] m.")


def whole_number(value: Any, message: str, least: int = 1) -> int:
    """`value` as an `int`; raises `ValueError` for a fraction, a traced value or less than `least`."""
    if isinstance(value, Tracer) or not value >= least or value % 1:
        raise ValueError(f"{message}, got {value!r}.")
    return int(value)


def check_psd(value: ArrayLike, name: str) -> None:
    """Symmetric and positive semi-definite, over the last two axes."""
    known = concrete(value)
    if known is None:
        return
    check_finite(known, name)
    known = known.astype(np.float64)
    scale = np.max(np.abs(known), initial=0.0)
    slack = 1e-5 * scale  # room for float32 input
    if np.max(np.abs(known - np.swapaxes(known, -1, -2)), initial=0.0) > slack:
        raise ValueError(f"`{name}` must be symmetric, got {known}.")
    if known.size and np.min(np.linalg.eigvalsh(known)) < -slack:
        raise ValueError(
            f"`{name}` must be positive semi-definite, got eigenvalues {np.linalg.eigvalsh(known)}."
        )


def float_dtype(*values: ArrayLike | None) -> np.dtype:
    """The common dtype of the floating arrays among `values`; JAX's default without any.

    Python numbers and lists have no say, so a float32 robot stays float32.
    """
    dtypes = [
        value.dtype
        for value in values
        if isinstance(value, (jax.Array, np.ndarray, np.generic))
        and jnp.issubdtype(value.dtype, jnp.floating)
    ]
    default = jax.dtypes.canonicalize_dtype(float)
    return jax.dtypes.canonicalize_dtype(np.result_type(*dtypes)) if dtypes else default


def as_array(
    value: ArrayLike, name: str, dtype: np.dtype, shape: tuple[int, ...] | None = None
) -> Float[Array, "..."]:
    """`value` as a strongly typed array of `dtype`, of `shape` if given.

    Concrete values are converted by NumPy, which compiles nothing.
    """
    if isinstance(value, jax.Array):
        array = value
    else:
        try:
            array = np.asarray(value)
        except (ValueError, TypeError):
            array = jnp.asarray(value)  # a list of tracers
    if not (jnp.issubdtype(array.dtype, jnp.floating) or jnp.issubdtype(array.dtype, jnp.integer)):
        raise TypeError(f"`{name}` needs real numbers, got {type(value).__name__} {value!r}.")
    if shape is not None and array.shape != shape:
        hint = ""
        if array.ndim == len(shape) + 1 and array.shape[1:] == shape:
            hint = " For a batch use jax.vmap."
        raise ValueError(f"`{name}` needs shape {shape}, got {array.shape}.{hint}")
    if isinstance(array, Tracer):
        return array.astype(dtype)
    if isinstance(array, jax.Array):
        weak = getattr(array, "weak_type", False)
        return array if array.dtype == dtype and not weak else on_device(np.asarray(array, dtype))
    return on_device(array.astype(dtype))


def on_device(array: np.ndarray) -> Array:
    """A NumPy array as a JAX array. `jnp.asarray` would compile a program for each new shape."""
    return jax.device_put(array)


def broadcast(value: ArrayLike, name: str, dtype: np.dtype, size: int) -> Float[Array, " size"]:
    """A number for all, or one for each of `size`."""
    array = as_array(value, name, dtype)
    if array.shape == ():
        if isinstance(array, Tracer):
            return jnp.broadcast_to(array, (size,))
        return on_device(np.full(size, np.asarray(array)))
    return as_array(array, name, dtype, (size,))
