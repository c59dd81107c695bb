r"""Function families along a link, in $X = s / L \in [0, 1]$.

| type | functions of order p |
|---|---|
| `monomial` | $X^k$, k = 0..p |
| `legendre`, `chebyshev` | $P_k(2X - 1)$, $T_k(2X - 1)$, k = 0..p |
| `fourier` | $1, \cos 2\pi X, \sin 2\pi X, ..., \cos 2\pi p X, \sin 2\pi p X$ (2p + 1 functions) |
| `gaussian` | $\exp(-(X - k/p)^2 c^2)$, $c = 2 p \sqrt{\ln 2}$, k = 0..p |
| `imq` | $(1 + (X - k/p)^2 c^2)^{-1/2}$, $c = 2 p \sqrt 3$, k = 0..p |

Order 0 is the constant 1 in every family; Gaussian and inverse multiquadric functions fall to one
half midway between their centres and the next.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from soromox.numerics.checks import ArrayLike


Numbers = Float[Array, "..."] | Float[np.ndarray, "..."]

STRAIN_NAMES = ("kappa_x", "kappa_y", "kappa_z", "sigma_x", "sigma_y", "sigma_z")


@dataclasses.dataclass(frozen=True)
class StrainBasis:
    """The matrix `B(X)` of a link: component by component, each with its functions in order."""

    type: str
    orders: tuple[int | None, ...]  # per strain component; None where inactive

    @property
    def num_functions(self) -> int:
        return sum(self._counts)

    @property
    def most_functions(self) -> int:
        """Functions of the strain component that has most."""
        return max(self._counts, default=0)

    @property
    def _counts(self) -> list[int]:
        return [_count(self.type, order) for order in self.orders if order is not None]

    def __call__(self, X: Numbers) -> Numbers:
        """`B` (..., d, n) at `X = s / L` (...); NumPy arrays give NumPy arrays."""
        xp = jnp if isinstance(X, jax.Array) else np
        active = [order for order in self.orders if order is not None]
        values = {order: _FAMILIES[self.type](xp, X, order) for order in set(active)}
        columns = [value for order in active for value in values[order]]
        rows = [
            row
            for row, order in enumerate(self.orders)
            if order is not None
            for _ in range(_count(self.type, order))
        ]
        place = np.zeros((len(self.orders), len(columns)), dtype=X.dtype)
        place[rows, np.arange(len(columns))] = 1
        if not columns:
            return xp.zeros((*X.shape, *place.shape), X.dtype)
        place = np.broadcast_to(place, (*X.shape, *place.shape))
        return place * xp.stack(columns, axis=-1)[..., None, :]


class StrainBasisSpec:
    """How the strain of a link is spanned.

    **Arguments:**

    - `type`: `"monomial"`, `"legendre"`, `"chebyshev"`, `"fourier"`, `"gaussian"` or `"imq"`.
    - `strain_selector`: the active components: six booleans (or 0 and 1), or names out of
      `kappa_x` (torsion), `kappa_y`, `kappa_z` (bending), `sigma_x` (stretch), `sigma_y`,
      `sigma_z` (shear); all by default. None active makes a rigid link.
    - `basis_order`: one order for all, or one per component (6,); those of inactive components
      have no effect.

    Raises `ValueError` for unknown names and for orders that are not whole and non-negative.
    """

    type: str
    strain_selector: tuple[bool, ...]
    basis_order: tuple[int, ...]

    def __init__(
        self,
        type: str = "monomial",
        strain_selector: Sequence[Any] | np.ndarray | None = None,
        basis_order: ArrayLike = 0,
    ):
        if type not in _FAMILIES:
            raise ValueError(f"`type` must be one of {', '.join(_FAMILIES)}, got {type!r}.")
        self.type = type
        self.strain_selector = selector_mask(strain_selector)
        self.basis_order = _orders(basis_order)

    @property
    def basis(self) -> StrainBasis:
        return StrainBasis(
            self.type,
            tuple(
                order if active else None
                for order, active in zip(self.basis_order, self.strain_selector, strict=True)
            ),
        )


def selector_mask(
    selector: Sequence[Any] | np.ndarray | None,
) -> tuple[bool, ...]:
    """The active components as six booleans, from a mask or from names."""
    if selector is None:
        return (True,) * len(STRAIN_NAMES)
    if isinstance(selector, str):
        selector = (selector,)
    entries = list(selector)
    if entries and all(isinstance(entry, str) for entry in entries):
        for name in entries:
            if name not in STRAIN_NAMES:
                raise ValueError(
                    f"`strain_selector` names must be among {', '.join(STRAIN_NAMES)}, "
                    f"got {name!r}."
                )
        if len(set(entries)) < len(entries):
            raise ValueError(f"`strain_selector` names a strain twice: {selector!r}.")
        return tuple(name in entries for name in STRAIN_NAMES)
    mask = np.asarray(entries)
    if mask.shape != (len(STRAIN_NAMES),) or mask.dtype.kind not in "biuf":
        raise ValueError(
            f"`strain_selector` needs six booleans or component names, got {selector!r}."
        )
    if not np.all((mask == 0) | (mask == 1)):
        raise ValueError(f"`strain_selector` entries must be True or False, got {selector!r}.")
    return tuple(bool(entry) for entry in mask)


def _orders(order: ArrayLike) -> tuple[int, ...]:
    orders = np.asarray(order)
    count = len(STRAIN_NAMES)
    if orders.shape not in ((), (count,)):
        raise ValueError(
            f"`basis_order` needs one order or one per strain component ({count},), got {order!r}."
        )
    whole = orders.dtype.kind in "iu" or (
        orders.dtype.kind == "f" and bool(np.all(orders == np.floor(orders)))
    )
    if not whole or not np.all(orders >= 0):
        raise ValueError(f"`basis_order` must be whole and non-negative, got {order!r}.")
    return tuple(int(entry) for entry in np.broadcast_to(orders, (count,)))


def _count(type: str, order: int) -> int:
    return 2 * order + 1 if type == "fourier" else order + 1


def _monomial(xp: ModuleType, X: Numbers, order: int) -> list[Numbers]:
    values = [xp.ones_like(X)]
    for _ in range(order):
        values.append(X * values[-1])
    return values


def _legendre(xp: ModuleType, X: Numbers, order: int) -> list[Numbers]:
    x = 2 * X - 1
    values = [xp.ones_like(X), x]
    for k in range(1, order):
        values.append(((2 * k + 1) * x * values[k] - k * values[k - 1]) / (k + 1))
    return values[: order + 1]


def _chebyshev(xp: ModuleType, X: Numbers, order: int) -> list[Numbers]:
    x = 2 * X - 1
    values = [xp.ones_like(X), x]
    for k in range(1, order):
        values.append(2 * x * values[k] - values[k - 1])
    return values[: order + 1]


def _fourier(xp: ModuleType, X: Numbers, order: int) -> list[Numbers]:
    values = [xp.ones_like(X)]
    for k in range(1, order + 1):
        angle = 2 * math.pi * k * X
        values += [xp.cos(angle), xp.sin(angle)]
    return values


def _gaussian(xp: ModuleType, X: Numbers, order: int) -> list[Numbers]:
    scale = 2 * order * math.sqrt(math.log(2))
    return _radial(xp, X, order, lambda r: xp.exp(-((scale * r) ** 2)))


def _inverse_multiquadric(xp: ModuleType, X: Numbers, order: int) -> list[Numbers]:
    scale = 2 * order * math.sqrt(3)
    return _radial(xp, X, order, lambda r: 1 / xp.sqrt(1 + (scale * r) ** 2))


def _radial(
    xp: ModuleType, X: Numbers, order: int, function: Callable[[Numbers], Numbers]
) -> list[Numbers]:
    if order == 0:
        return [xp.ones_like(X)]
    return [function(X - k / order) for k in range(order + 1)]


_FAMILIES: dict[str, Callable[[ModuleType, Numbers, int], list[Numbers]]] = {
    "monomial": _monomial,
    "legendre": _legendre,
    "chebyshev": _chebyshev,
    "fourier": _fourier,
    "gaussian": _gaussian,
    "imq": _inverse_multiquadric,
}
