r"""Implicit schemes as tables of numbers.

All of them reduce to stages with one unknown acceleration $a$, a duration $h = \gamma\,\Delta t$ and
a start $(q_0, v_0)$: $v = v_0 + h a$, $q = q_0 + h v$ (see `soromox.simulation.implicit`).
"""

import math
from typing import ClassVar, NamedTuple

import equinox as eqx
from equinox import AbstractClassVar, AbstractVar


class Tableau(NamedTuple):
    """A diagonally implicit Runge-Kutta method with one diagonal entry for all stages."""

    diagonal: float
    lower: tuple[tuple[float, ...], ...]  # A without its diagonal, one row per stage
    nodes: tuple[float, ...]  # c
    weights: tuple[float, ...] | None  # b; None where the last stage is the new state
    order: int

    @property
    def num_stages(self) -> int:
        return len(self.nodes)


class Multistep(NamedTuple):
    """A backward difference formula: `x_new = sum_j past_j x_(n-j) + diagonal dt xd_new`."""

    past: tuple[float, ...]
    diagonal: float
    order: int


class AbstractScheme(eqx.Module):
    """A rule for one step of fixed length.

    `transmission_rate` says which rate an effort law sees within a stage: `"difference"`, the
    difference quotient `(y(q) - y(q_0)) / h` of the transmission's coordinate (the dissipation is
    then part of an incremental potential; first order only), or `"tangent"`, `A(q)^T v`. They
    agree for affine transmissions.
    """

    transmission_rate: AbstractVar[str]
    tableau: AbstractClassVar[Tableau]
    multistep: AbstractClassVar[Multistep | None]

    def __check_init__(self):
        if self.transmission_rate not in ("difference", "tangent"):
            raise ValueError(
                '`transmission_rate` must be "difference" or "tangent", got '
                f"{self.transmission_rate!r}."
            )

    @property
    def order(self) -> int:
        """Order of convergence on smooth motions (with `transmission_rate="tangent"`)."""
        return self.tableau.order if self.multistep is None else self.multistep.order


_EULER = Tableau(1.0, ((),), (1.0,), None, 1)
_MIDPOINT = Tableau(0.5, ((),), (0.5,), (1.0,), 2)

_G2 = 1 - 1 / math.sqrt(2)
_DIRK22 = Tableau(_G2, ((), (1 - _G2,)), (_G2, 1.0), None, 2)

_G23 = (3 + math.sqrt(3)) / 6
_DIRK23 = Tableau(_G23, ((), (1 - 2 * _G23,)), (_G23, 1 - _G23), (0.5, 0.5), 3)

# root of g^3 - 3 g^2 + 3/2 g - 1/6 between 1/6 and 1/2
_G3 = 0.43586652150845899942
_B1 = -1.5 * _G3**2 + 4 * _G3 - 0.25
_B2 = 1.5 * _G3**2 - 5 * _G3 + 1.25
_DIRK33 = Tableau(_G3, ((), ((1 - _G3) / 2,), (_B1, _B2)), (_G3, (1 + _G3) / 2, 1.0), None, 3)

_SYMPLECTIC = Tableau(0.25, ((), (0.5,)), (0.25, 0.75), (0.5, 0.5), 2)


class BackwardEuler(AbstractScheme):
    """Order 1, L-stable: damps whatever the step does not resolve. The robust default."""

    transmission_rate: str = eqx.field(static=True, default="difference")
    tableau: ClassVar[Tableau] = _EULER
    multistep: ClassVar[Multistep | None] = None


class ImplicitMidpoint(AbstractScheme):
    """Order 2, symplectic, A-stable; keeps quadratic invariants, damps nothing."""

    transmission_rate: str = eqx.field(static=True, default="tangent")
    tableau: ClassVar[Tableau] = _MIDPOINT
    multistep: ClassVar[Multistep | None] = None


class DIRK22(AbstractScheme):
    """Two stages, order 2, L-stable (Alexander 1977, doi:10.1137/0714068)."""

    transmission_rate: str = eqx.field(static=True, default="tangent")
    tableau: ClassVar[Tableau] = _DIRK22
    multistep: ClassVar[Multistep | None] = None


class DIRK23(AbstractScheme):
    """Two stages, order 3, A-stable (Nørsett 1974; Crouzeix 1975); not L-stable."""

    transmission_rate: str = eqx.field(static=True, default="tangent")
    tableau: ClassVar[Tableau] = _DIRK23
    multistep: ClassVar[Multistep | None] = None


class DIRK33(AbstractScheme):
    """Three stages, order 3, L-stable (Alexander 1977, doi:10.1137/0714068)."""

    transmission_rate: str = eqx.field(static=True, default="tangent")
    tableau: ClassVar[Tableau] = _DIRK33
    multistep: ClassVar[Multistep | None] = None


class SymplecticDIRK22(AbstractScheme):
    """Two midpoint steps of half length as one method: order 2, symplectic, A-stable."""

    transmission_rate: str = eqx.field(static=True, default="tangent")
    tableau: ClassVar[Tableau] = _SYMPLECTIC
    multistep: ClassVar[Multistep | None] = None


class BDF2(AbstractScheme):
    """Backward differences over two steps: order 2, L-stable, one stage.

    Started, and restarted after a change of `dt` or of a rotation chart, by `DIRK33` steps.
    """

    transmission_rate: str = eqx.field(static=True, default="tangent")
    tableau: ClassVar[Tableau] = _DIRK33
    multistep: ClassVar[Multistep | None] = Multistep((4 / 3, -1 / 3), 2 / 3, 2)


class BDF3(AbstractScheme):
    """Backward differences over three steps: order 3, stable up to 86 degrees, one stage.

    Started, and restarted after a change of `dt` or of a rotation chart, by `DIRK33` steps.
    """

    transmission_rate: str = eqx.field(static=True, default="tangent")
    tableau: ClassVar[Tableau] = _DIRK33
    multistep: ClassVar[Multistep | None] = Multistep((18 / 11, -9 / 11, 2 / 11), 6 / 11, 3)
