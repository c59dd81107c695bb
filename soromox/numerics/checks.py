"""Checks at the door: what comes in is converted and checked once, with a message of ours."""

import operator
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


def check_numbers(value: Any, name: str) -> None:
    """Raises `TypeError` unless all entries are real numbers; traced ones count."""
    dtype = value.dtype if isinstance(value, jax.Array) else np.asarray(value).dtype
    if not _is_real(dtype):
        raise _not_numbers(value, name)


def check_finite(value: ArrayLike, name: str) -> None:
    check_numbers(value, name)
    check_values(value, np.isfinite, f"`{name}` must be finite.")


def check_positive(value: ArrayLike, name: str) -> None:
    check_numbers(value, name)
    check_values(value, lambda x: (x > 0) & (x < np.inf), f"`{name}` must be positive and finite.")


def check_non_negative(value: ArrayLike, name: str) -> None:
    check_numbers(value, name)
    accept = lambda x: (x >= 0) & (x < np.inf)
    check_values(value, accept, f"`{name}` must be non-negative and finite.")


def arc_length_array(s: ArrayLike, dtype: np.dtype) -> Float[Array, "..."]:
    """`s` in `dtype`, or in its own if that is coarser, and so is the rounding it needs."""
    own = getattr(s, "dtype", dtype)
    is_coarser = jnp.issubdtype(own, jnp.floating) and jnp.finfo(own).eps > jnp.finfo(dtype).eps
    return as_array(s, "s", own if is_coarser else dtype)


def check_arc_length(s: ArrayLike, length: float, label: str = "`s`") -> None:
    """Raises `ValueError` for a concrete `s` outside `[0, length]` [m], up to its rounding."""
    known = concrete(s)
    if known is None:
        return
    info = jnp.finfo(known.dtype)
    slack = 8 * float(info.eps) * length
    outside = known[~((known >= -slack) & (known <= length + slack))]
    if outside.size:
        # all digits, so that a small fault is seen
        came = np.array2string(outside if known.ndim else known, threshold=12, floatmode="unique")
        raise ValueError(f"{label} must lie in [0, {length:.{info.precision}g}] m. Got {came}.")


def whole_number(value: Any, message: str, least: int = 1) -> int:
    """`value` as an `int`; raises `ValueError` for all but whole numbers of at least `least`."""
    known = None if isinstance(value, Tracer) else np.asarray(value)
    if known is None or known.ndim or known.dtype.kind not in "iuf":
        raise ValueError(f"{message}, got {value!r}.")
    number = known.item()
    if not number >= least or number % 1:
        raise ValueError(f"{message}, got {value!r}.")
    return int(number)


def index_of(value: Any, name: str) -> int:
    """`value` as an `int`; raises `TypeError` for anything that cannot count, and for truths."""
    try:
        if not isinstance(value, bool | np.bool_):
            return operator.index(value)
    except TypeError:
        pass
    raise TypeError(f"`{name}` needs an integer, got {value!r}.")


def check_truth(value: Any, name: str) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"`{name}` must be True or False, got {value!r}.")


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

    Python numbers and lists have no say, so a float32 robot stays float32. Raises `TypeError` for
    precisions in which linear systems cannot be solved.
    """
    dtypes = [
        value.dtype
        for value in values
        if isinstance(value, (jax.Array, np.ndarray, np.generic))
        and jnp.issubdtype(value.dtype, jnp.floating)
    ]
    default = jax.dtypes.canonicalize_dtype(float)
    if not dtypes:
        return default
    dtype = jax.dtypes.canonicalize_dtype(jnp.result_type(*dtypes))
    if dtype not in (jnp.float32, jnp.float64):
        raise TypeError(f"float32 or float64 numbers are needed, got {dtype}.")
    return dtype


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
    if not _is_real(array.dtype):
        raise _not_numbers(value, name)
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


def _is_real(dtype: np.dtype) -> bool:
    return jnp.issubdtype(dtype, jnp.floating) or jnp.issubdtype(dtype, jnp.integer)


def _not_numbers(value: Any, name: str) -> TypeError:
    came = "None" if value is None else f"{type(value).__name__} {value!r}"
    return TypeError(f"`{name}` needs real numbers, got {came}.")
