"""Where threadlike paths run in the material frame of a rod."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from soromox.actuation.parametrised import Parametrised
from soromox.numerics.checks import ArrayLike, as_array, check_finite, concrete, float_dtype
from soromox.numerics.parameters import Parameters


PathFunction = Callable[[Parameters, Array], Array]


class BaseThreadlikeRoutingParams(Parameters):
    """Base of the numbers of a routing; a subclass adds the fields its `offset_fn` reads."""


class LinearThreadlikeRoutingParams(BaseThreadlikeRoutingParams):
    """Offsets `d(s) = intercept + slope s` of each path in the material frame.

    `intercept` (p, 3) [m] and `slope` (p, 3); `s` [m] counts from the base of the robot, and the
    x-components are zero, since a path is described by where it pierces the section at `s`.
    """

    intercept: Float[Array, "paths 3"]
    slope: Float[Array, "paths 3"]

    def __init__(self, intercept: ArrayLike, slope: ArrayLike | None = None):
        dtype = float_dtype(intercept, slope)
        self.intercept = _rows(intercept, "intercept", dtype)
        slope = np.zeros(self.intercept.shape) if slope is None else slope
        self.slope = _rows(slope, "slope", dtype)
        if self.slope.shape != self.intercept.shape:
            raise ValueError(
                f"`slope` needs the shape of `intercept`, {self.intercept.shape}, "
                f"got {self.slope.shape}."
            )


def linear_offset(params: LinearThreadlikeRoutingParams, s: ArrayLike) -> ArrayLike:
    return params.intercept + params.slope * s


def linear_derivative(params: LinearThreadlikeRoutingParams, s: ArrayLike) -> ArrayLike:
    return params.slope


class Spans(NamedTuple):
    """First and last segment of every path, both included; `None` is the last of the robot."""

    start: tuple[int, ...]
    end: tuple[int | None, ...]

    def mask(self, num_segments: int) -> np.ndarray:
        """Which segments belong to which path, (segments, paths)."""
        index = np.arange(num_segments)[:, None]
        end = [num_segments - 1 if e is None else e for e in self.end]
        return (index >= np.array(self.start)) & (index <= np.array(end))


class ThreadlikeRouting(Parametrised):
    """Where p paths run in the material frame, and along which segments.

    The offset of a path from the backbone at arc length `s` is a row of `offset_fn(params, s)`
    (p, 3), with x = 0; its derivative by `s` is `derivative_fn(params, s)`, by default the
    derivative of `offset_fn`. Both are plain functions that capture no arrays: what is to be
    differentiated or updated belongs in `params`. Segments are counted from 0; a path covers all
    from `start_segment_index` to `end_segment_index`, both included, by default the whole robot.
    Installing a path that runs outside the body along a whole segment raises, unless
    `allow_outside`; leaving it on a part of a segment, as at the tip of a taper, is allowed.
    """

    params: BaseThreadlikeRoutingParams
    offset_fn: PathFunction = eqx.field(static=True)
    derivative_fn: PathFunction | None = eqx.field(static=True)
    spans: Spans = eqx.field(static=True)
    allow_outside: bool = eqx.field(static=True)

    def __init__(
        self,
        params: BaseThreadlikeRoutingParams,
        offset_fn: PathFunction,
        derivative_fn: PathFunction | None = None,
        start_segment_index: ArrayLike = 0,
        end_segment_index: ArrayLike | None = None,
        allow_outside: bool = False,
    ):
        if not isinstance(params, BaseThreadlikeRoutingParams):
            raise TypeError(
                "`params` of a routing needs a BaseThreadlikeRoutingParams, got "
                f"{type(params).__name__}."
            )
        self.params, self.offset_fn, self.derivative_fn = params, offset_fn, derivative_fn
        shape = jax.eval_shape(offset_fn, params, jnp.zeros((), routing_dtype(params))).shape
        if len(shape) != 2 or shape[1] != 3 or shape[0] == 0:
            raise ValueError(
                f"`offset_fn` must return one offset [x, y, z] for each path (p, 3), got {shape}."
            )
        start = _per_path(start_segment_index, "start_segment_index", shape[0])
        end = _per_path(end_segment_index, "end_segment_index", shape[0])
        for first, last in zip(start, end, strict=True):
            if first is None or first < 0:
                raise ValueError(f"`start_segment_index` must be 0 or more, got {first}.")
            if last is not None and last < first:
                raise ValueError(
                    f"A path must cover at least one segment, but `end_segment_index` {last} lies "
                    f"before `start_segment_index` {first}."
                )
        self.spans, self.allow_outside = Spans(start, end), allow_outside

    @classmethod
    def linear(
        cls,
        intercept: ArrayLike,
        slope: ArrayLike | None = None,
        start_segment_index: ArrayLike = 0,
        end_segment_index: ArrayLike | None = None,
        allow_outside: bool = False,
    ) -> "ThreadlikeRouting":
        """Paths `d(s) = intercept + slope s`, (p, 3) each [m], `s` from the robot's base."""
        params = LinearThreadlikeRoutingParams(intercept, slope)
        spans = (start_segment_index, end_segment_index)
        return cls(params, linear_offset, linear_derivative, *spans, allow_outside)

    @property
    def num_paths(self) -> int:
        return len(self.spans.start)

    def offsets(self, s: Float[Array, ""]) -> Float[Array, "paths 3"]:
        """Offsets of all paths at `s` [m]."""
        return self.offset_fn(self.params, s)

    def derivatives(self, s: Float[Array, ""]) -> Float[Array, "paths 3"]:
        """Derivatives of the offsets by `s`."""
        if self.derivative_fn is not None:
            return self.derivative_fn(self.params, s)
        return jax.jvp(self.offsets, (s,), (jnp.ones_like(s),))[1]


def routing_dtype(params: Parameters) -> np.dtype:
    return float_dtype(*jax.tree.leaves(params))


def _rows(value: ArrayLike, name: str, dtype: np.dtype) -> Float[Array, "paths 3"]:
    rows = as_array(value, name, dtype)
    if rows.ndim != 2 or rows.shape[1] != 3 or rows.shape[0] == 0:
        raise ValueError(
            f"`{name}` needs one row [0, y, z] for each path (p, 3), got shape {rows.shape}."
        )
    check_finite(rows, name)
    known = concrete(rows)
    if known is not None and np.any(known[:, 0] != 0):
        raise ValueError(leaves_section(int(np.flatnonzero(known[:, 0])[0]), f"`{name}`"))
    return rows


def leaves_section(path: int, what: str) -> str:
    return (
        f"{what} of path {path} has an x-component; a path is given by where it pierces the section "
        "at `s`, so x must be 0."
    )


def _per_path(value: object, name: str, count: int) -> tuple:
    if value is None or np.ndim(value) == 0:
        return (_index(value, name),) * count
    if len(value) != count:
        raise ValueError(f"`{name}` needs one value or one for each of {count} paths, got {value}.")
    return tuple(_index(x, name) for x in value)


def _index(value: object, name: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise ValueError(f"`{name}` needs whole numbers, got {value!r}.")
    return int(value)
