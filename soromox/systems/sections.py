"""Cross sections of links: area and second moments along the arc length."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from soromox.numerics.checks import (
    ArrayLike,
    as_array,
    broadcast,
    check_positive,
    concrete,
    float_dtype,
    on_device,
)
from soromox.numerics.parameters import Parameters


DIMENSIONS = {
    "circular": ("radius",),
    "rectangular": ("height", "width"),
    "elliptical": ("semi_major", "semi_minor"),
}

Torsion = Literal["polar", "saint_venant"]


class LinearProfile(eqx.Module):
    """A dimension that changes linearly from `base` to `tip` of a link [m]."""

    base: ArrayLike
    tip: ArrayLike


class SectionProperties(NamedTuple):
    """Area [m^2] and moments [m^4] of sections; x points along the backbone."""

    area: Float[Array, "*sections"]
    Ix: Float[Array, "*sections"]  # polar moment `Iy + Iz`
    Iy: Float[Array, "*sections"]
    Iz: Float[Array, "*sections"]
    torsion: Float[Array, "*sections"]  # torsion constant


class CrossSectionGeometry(Parameters):
    """The sections of N links: circles, rectangles (height along y, width along z) and ellipses
    (`semi_major` along y, `semi_minor` along z), uniform or with linear taper.

    Usually made by `circular`, `rectangular` or `elliptical`.

    **Arguments:**

    - `shapes`: the shape of each link.
    - `base`, `tip` (N, k) [m]: radius, or height and width, or the semi-axes, at both ends of each
      link (k = 1 if all are circles, otherwise 2; a circle then uses the first). `tip` is `None`
      if no link is tapered, so that each number stands in one place.
    - `shear_correction` (N,): factor on the shear stiffness `G A`, 1 by default.
    - `torsion`: torsion constant, `"polar"` (`Iy + Iz`) or `"saint_venant"` (warping included).

    Raises `ValueError` for unknown shapes, wrong sizes, dimensions that are not positive.
    """

    shapes: tuple[str, ...] = eqx.field(static=True)
    base: Float[Array, "links dimensions"]
    tip: Float[Array, "links dimensions"] | None
    shear_correction: Float[Array, " links"]
    torsion: Torsion = eqx.field(static=True)

    def __init__(
        self,
        shapes: Sequence[str],
        base: ArrayLike,
        tip: ArrayLike | None = None,
        shear_correction: ArrayLike = 1.0,
        torsion: Torsion = "polar",
    ):
        self.shapes = tuple(shapes)
        for shape in self.shapes:
            if shape not in DIMENSIONS:
                raise ValueError(f"`shapes` may be {', '.join(DIMENSIONS)}; got {shape!r}.")
        if torsion not in ("polar", "saint_venant"):
            raise ValueError(f"`torsion` must be 'polar' or 'saint_venant', got {torsion!r}.")
        self.torsion = torsion
        dtype = float_dtype(base, tip, shear_correction)
        size = (len(self.shapes), max(len(DIMENSIONS[shape]) for shape in self.shapes))
        self.base = as_array(base, "base", dtype, size)
        self.tip = None if tip is None else as_array(tip, "tip", dtype, size)
        self.shear_correction = broadcast(shear_correction, "shear_correction", dtype, size[0])
        for ends, suffix in ((self.base, ""), (self.tip, ".tip")):
            known = None if ends is None else concrete(ends)
            if known is not None:
                self._check_dimensions(known, suffix)
        check_positive(self.shear_correction, "shear_correction")

    @classmethod
    def circular(cls, radius: ArrayLike | LinearProfile, **options) -> "CrossSectionGeometry":
        """Circles; `radius` (N,), or a `LinearProfile` of such."""
        return cls._uniform("circular", (radius,), options)

    @classmethod
    def rectangular(
        cls, height: ArrayLike | LinearProfile, width: ArrayLike | LinearProfile, **options
    ) -> "CrossSectionGeometry":
        """Rectangles, `height` along y and `width` along z, (N,) each."""
        return cls._uniform("rectangular", (height, width), options)

    @classmethod
    def elliptical(
        cls, semi_major: ArrayLike | LinearProfile, semi_minor: ArrayLike | LinearProfile, **options
    ) -> "CrossSectionGeometry":
        """Ellipses, `semi_major` along y and `semi_minor` along z, (N,) each."""
        return cls._uniform("elliptical", (semi_major, semi_minor), options)

    @classmethod
    def _uniform(cls, shape: str, profiles: tuple, options: dict) -> "CrossSectionGeometry":
        ends = [(p.base, p.tip) if isinstance(p, LinearProfile) else (p, p) for p in profiles]
        count = max(np.size(x) for pair in ends for x in pair)
        dtype = float_dtype(*(x for pair in ends for x in pair))
        names = DIMENSIONS[shape]
        base, tip = (
            stack([broadcast(x[end], n, dtype, count) for x, n in zip(ends, names, strict=True)], 1)
            for end in (0, 1)
        )
        is_tapered = any(isinstance(p, LinearProfile) for p in profiles)
        return cls((shape,) * count, base, tip if is_tapered else None, **options)

    def _check_dimensions(self, ends: np.ndarray, suffix: str) -> None:
        for shape in dict.fromkeys(self.shapes):
            own = ends[[shape == other for other in self.shapes]]
            for column, name in enumerate(DIMENSIONS[shape]):
                check_positive(own[:, column], name + suffix)

    @property
    def num_links(self) -> int:
        return len(self.shapes)

    @property
    def dimension_names(self) -> tuple[str, ...]:
        """Names that `with_dimension` takes."""
        shapes = [shape for shape in DIMENSIONS if shape in self.shapes]
        return tuple(name for shape in shapes for name in DIMENSIONS[shape])

    def with_dimension(self, name: str, value: ArrayLike | LinearProfile) -> "CrossSectionGeometry":
        """Sections with one named dimension changed: a number, one value for each link that has
        this dimension, or a `LinearProfile` (which needs sections that are tapered already)."""
        (shape,) = (shape for shape, names in DIMENSIONS.items() if name in names)
        column = DIMENSIONS[shape].index(name)
        rows = np.array([i for i, own in enumerate(self.shapes) if own == shape])
        ends = (value.base, value.tip) if isinstance(value, LinearProfile) else (value, value)
        if isinstance(value, LinearProfile) and self.tip is None:
            raise ValueError(
                f"`{name}` cannot become a LinearProfile, because no link is tapered: reconstruct."
            )
        # a circle among other shapes keeps both columns equal
        columns = [0, 1] if shape == "circular" and self.base.shape[1] == 2 else [column]

        def put(old: Array | None, new: ArrayLike) -> Array | None:
            if old is None:
                return None
            new = broadcast(new, name, old.dtype, len(rows))
            return jnp.asarray(old).at[rows[:, None], np.array(columns)].set(new[:, None])

        return type(self)(
            self.shapes,
            put(self.base, ends[0]),
            put(self.tip, ends[1]),
            self.shear_correction,
            self.torsion,
        )

    def select(self, links: Sequence[int]) -> "CrossSectionGeometry":
        """The sections of some links, in this order; may be traced."""
        links = list(links)
        if links == list(range(self.num_links)):
            return self
        pick = np.array(links)
        return type(self)(
            tuple(self.shapes[i] for i in links),
            *self._narrow([self.shapes[i] for i in links], pick),
            self.shear_correction[pick],
            self.torsion,
        )

    def _narrow(self, shapes: list[str], pick: np.ndarray) -> tuple[Array, Array | None]:
        columns = max(len(DIMENSIONS[shape]) for shape in shapes)
        tip = None if self.tip is None else self.tip[pick, :columns]
        return self.base[pick, :columns], tip

    def contains(
        self,
        X: Float[np.ndarray, " fractions"],
        y: Float[np.ndarray, "links fractions"],
        z: Float[np.ndarray, "links fractions"],
    ) -> Bool[np.ndarray, "links fractions"]:
        """Whether the points (y, z) [m] of the sections at `X = s / L` belong to them."""
        base = np.asarray(self.base)[:, None]
        tip = base if self.tip is None else np.asarray(self.tip)[:, None]
        dimensions = base + (tip - base) * X[:, None]
        shape = np.array(self.shapes)[:, None]
        first = dimensions[..., 0]
        second = np.where(shape == "circular", first, dimensions[..., -1])
        round_ = (y / first) ** 2 + (z / second) ** 2 <= 1 + 1e-6
        straight = np.maximum(np.abs(y / first), np.abs(z / second)) <= 0.5 * (1 + 1e-6)
        return np.where(shape == "rectangular", straight, round_)

    def properties(self, X: Float[Array, "links nodes"]) -> SectionProperties:
        """Areas and moments at the fractions `X = s / L` of each link, (links, nodes)."""
        dimensions = self.base[:, None]
        if self.tip is not None:
            dimensions = dimensions + (self.tip - self.base)[:, None] * X[..., None]
        else:
            dimensions = jnp.broadcast_to(dimensions, (*X.shape, dimensions.shape[-1]))
        kinds = set(self.shapes)
        if kinds == {"circular"}:
            return _ellipse(dimensions[..., 0], dimensions[..., 0])
        first, second = dimensions[..., 0], dimensions[..., 1]
        round_ = np.array([shape == "circular" for shape in self.shapes])[:, None]
        second = jnp.where(round_, first, second)
        saint_venant = self.torsion == "saint_venant"
        if "rectangular" not in kinds:
            return _ellipse(first, second, saint_venant)
        rectangle = _rectangle(first, second, saint_venant)
        if kinds == {"rectangular"}:
            return rectangle
        cornered = np.array([shape == "rectangular" for shape in self.shapes])[:, None]
        ellipse = _ellipse(first, second, saint_venant)
        pairs = zip(rectangle, ellipse, strict=True)
        return SectionProperties(*(jnp.where(cornered, a, b) for a, b in pairs))


def _ellipse(a: Array, b: Array, saint_venant: bool = False) -> SectionProperties:
    area = math.pi * a * b
    Iy, Iz = area * b**2 / 4, area * a**2 / 4
    torsion = area * a**2 * b**2 / (a**2 + b**2) if saint_venant else Iy + Iz
    return SectionProperties(area, Iy + Iz, Iy, Iz, torsion)


def _rectangle(h: Array, w: Array, saint_venant: bool = False) -> SectionProperties:
    area = h * w
    Iy, Iz = area * w**2 / 12, area * h**2 / 12
    torsion = _rectangle_torsion(h, w) if saint_venant else Iy + Iz
    return SectionProperties(area, Iy + Iz, Iy, Iz, torsion)


def _rectangle_torsion(h: Array, w: Array) -> Array:
    """Saint-Venant's series, with `tanh(x) = 1 - 2 / (exp(2 x) + 1)` so that five terms suffice
    (Timoshenko & Goodier, Theory of Elasticity, 3rd ed., section 109)."""
    long, short = jnp.maximum(h, w), jnp.minimum(h, w)
    ratio = long / short
    total = 31 / 32 * 1.0369277551433699  # sum of 1 / n^5 over odd n
    for n in (1, 3, 5, 7, 9):
        decay = jnp.exp(-n * math.pi * ratio)
        total = total - 2 / n**5 * decay / (1 + decay)
    return long * short**3 / 3 * (1 - 192 / math.pi**5 / ratio * total)


def stack(values: Sequence[Array], axis: int = 0) -> Array:
    """`jnp.stack` that compiles nothing for concrete values."""
    known = [concrete(value) for value in values]
    if any(value is None for value in known):
        return jnp.stack(values, axis=axis)
    return on_device(np.stack(known, axis=axis))
