r"""Bodies whose strain varies along their length, $\xi(s) = \xi_{ref} + B(s)\,q$.

The cells of a body lie between `0, Gauss nodes, L`. Each takes one fourth-order Magnus step with
strains at the two Gauss points of the cell (Zanna 1999; Hairer, Lubich, Wanner 2006, IV.7):

$$\Omega = \frac h2 (\xi_1 + \xi_2) + \frac{\sqrt3 h^2}{12} [\xi_1, \xi_2], \qquad g \leftarrow g \exp \Omega$$

(the sign of the bracket is that for $g' = g \hat\xi$). Jacobian and bias follow by differentiating
this very product: they belong to the discrete pose, not only to the exact one.
"""

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from soromox.chain.bodies import Motion
from soromox.chain.strained import StrainedBodies
from soromox.numerics import einsum, gauss_legendre, matmul


# From X = s / length (...) to `B` (..., d, n), NumPy to NumPy and JAX to JAX. Hashable: a basis is
# part of the structure of a robot.
Basis = Callable[[Any], Any]

_CELL_POINTS = gauss_legendre(2)[0]
_BRACKET = np.sqrt(3) / 12


class VariableStrainBodies(StrainedBodies):
    """A batch of bodies with strain `reference_strain + basis(s / length) q`, nodes at Gauss points.

    Bodies may differ in basis, number of coordinates and number of nodes: all are padded to the
    widest (zero columns of `S`) and to the most nodes (massless nodes at the tip).
    """

    group: ModuleType = eqx.field(static=True)
    bases: tuple[Basis, ...] = eqx.field(static=True)
    num_nodes: tuple[int, ...] = eqx.field(static=True)  # Gauss nodes of each body
    reference_strain: Float[Array, "bodies d"]
    length: Float[Array, " bodies"]  # [m]
    mass: Float[Array, "bodies nodes d d"]

    @property
    def cells(self) -> "Cells":
        return _cells(self.bases, self.num_nodes)

    def motion(self, q: Float[Array, "bodies n"], qd: Float[Array, "bodies n"]) -> Motion:
        width, B = _cast(q.dtype, self.cells.width, self.cells.B)

        def one(width, B, length, reference, q, qd):
            step = functools.partial(_step, self.group, reference=reference, q=q, qd=qd)
            return _compose(self.group, jax.vmap(lambda h, B: step(h, B))(length * width, B))

        return jax.vmap(one)(width, B, self.length, self.reference_strain, q, qd)

    def point(
        self, body: int | Int[Array, ""], s: Float[Array, ""], q: Float[Array, " n"]
    ) -> tuple[Float[Array, "*pose"], Float[Array, "d n"]]:
        """Pose and `S` at `s` [m]: one Magnus step from the node before."""
        start, width, B = (
            table[body]
            for table in _cast(q.dtype, self.cells.start, self.cells.width, self.cells.B)
        )
        group, length, reference = self.group, self.length[body], self.reference_strain[body]
        step = functools.partial(_step, group, reference=reference, q=q, qd=jnp.zeros_like(q))
        steps = jax.vmap(lambda h, B: step(h, B))(length * width, B)
        motion = _compose(group, steps)

        X = s / length
        cell = jnp.clip(jnp.sum(start <= X) - 1, 0, len(start) - 1)
        first = cell == 0
        pose = jnp.where(first, group.identity(q.dtype), motion.pose[cell - 1])
        S = jnp.where(first, 0, motion.S[cell - 1])
        fraction = X - start[cell]
        points = start[cell] + fraction * _cast(q.dtype, _CELL_POINTS)[0]
        B = jnp.stack([self.basis(body, points[0]), self.basis(body, points[1])])
        last = step(length * fraction, B)
        return group.compose(pose, last.pose), matmul(last.X, S) + last.S

    def basis(self, body: int | Int[Array, ""], X: Float[Array, ""]) -> Float[Array, "d n"]:
        """`B` of one body at `X = s / length`."""
        distinct = tuple(dict.fromkeys(self.bases))
        widest = self.cells.B.shape[-1]
        tables = [_pad(jnp, basis(X), widest) for basis in distinct]
        if len(tables) == 1:
            return tables[0]
        return jnp.stack(tables)[jnp.array([distinct.index(basis) for basis in self.bases])[body]]

    def strain_nodes(
        self, q: Float[Array, "bodies n"]
    ) -> tuple[
        Float[Array, "bodies nodes"], Float[Array, "bodies nodes"], Float[Array, "bodies nodes d"]
    ]:
        X, weight, B = _cast(q.dtype, *gauss_nodes(self.bases, self.num_nodes))
        strain = self.reference_strain[:, None] + einsum("bkdn,bn->bkd", B, q)
        length = self.length[:, None]
        return length * X, length * weight, strain

    def strain(
        self, body: int | Int[Array, ""], s: Float[Array, ""], q: Float[Array, " n"]
    ) -> Float[Array, " d"]:
        """Strain of one body at arc length `s` [m] from its base."""
        return self.reference_strain[body] + matmul(self.basis(body, s / self.length[body]), q)


class Cells(NamedTuple):
    """Where the Magnus steps of a batch of bodies lie, in `X = s / length`: NumPy constants."""

    start: Float[np.ndarray, "bodies cells"]
    width: Float[np.ndarray, "bodies cells"]
    B: Float[np.ndarray, "bodies cells 2 d n"]  # basis at the two Gauss points of each cell


class Nodes(NamedTuple):
    """Where a batch of bodies carries inertia: NumPy constants."""

    X: Float[np.ndarray, "bodies nodes"]  # s / length
    weight: Float[np.ndarray, "bodies nodes"]  # sums to 1; 0 where padded
    B: Float[np.ndarray, "bodies nodes d n"]


@functools.lru_cache(maxsize=256)
def gauss_nodes(bases: tuple[Basis, ...], num_nodes: tuple[int, ...]) -> Nodes:
    """Gauss nodes of each body, then massless ones at its tip up to the most nodes of all."""
    most = max(num_nodes)
    rules = [gauss_legendre(count) for count in num_nodes]
    X = np.stack([np.pad(x, (0, most - len(x)), constant_values=1.0) for x, _ in rules])
    weight = np.stack([np.pad(w, (0, most - len(w))) for _, w in rules])
    return Nodes(X, weight, _tables(bases, X))


@functools.lru_cache(maxsize=256)
def _cells(bases: tuple[Basis, ...], num_nodes: tuple[int, ...]) -> Cells:
    X = np.pad(gauss_nodes(bases, num_nodes).X, ((0, 0), (1, 1)))
    X[:, -1] = 1.0
    start, width = X[:, :-1], np.diff(X, axis=1)
    return Cells(start, width, _tables(bases, start[..., None] + width[..., None] * _CELL_POINTS))


def _tables(bases: tuple[Basis, ...], X: np.ndarray) -> np.ndarray:
    tables = [basis(x) for basis, x in zip(bases, X, strict=True)]
    widest = max(table.shape[-1] for table in tables)
    return np.stack([_pad(np, table, widest) for table in tables])


class _Step(NamedTuple):
    """One Magnus step relative to its start. `S` stands apart from `[nu, c]`: queries that need
    only one of them compute only that."""

    pose: Float[Array, "*pose"]
    X: Float[Array, "d d"]  # Ad(pose^-1)
    S: Float[Array, "d n"]
    rates: Float[Array, "d 2"]  # nu and c


def _step(
    group: ModuleType,
    h: Float[Array, ""],
    B: Float[Array, "2 d n"],
    reference: Float[Array, " d"],
    q: Float[Array, " n"],
    qd: Float[Array, " n"],
) -> _Step:
    linear, quadratic = h / 2, _BRACKET.astype(q.dtype) * h**2
    xi_1, xi_2 = reference + matmul(B[0], q), reference + matmul(B[1], q)
    Omega = linear * (xi_1 + xi_2) + quadratic * group.bracket(xi_1, xi_2)
    turned = matmul(group.ad(xi_1), B[1]) - matmul(group.ad(xi_2), B[0])
    dOmega = linear * (B[0] + B[1]) + quadratic * turned
    T = group.tangent(-Omega)
    rate = matmul(dOmega, qd)
    # the second derivative of Omega along qd: only the bracket is quadratic in q
    bend = 2 * quadratic * group.bracket(matmul(B[0], qd), matmul(B[1], qd))
    c = matmul(group.tangent_derivative(-Omega, -rate), rate) + matmul(T, bend)
    pose = group.exp(Omega)
    rates = jnp.stack([matmul(T, rate), c], axis=1)
    return _Step(pose, group.Ad_inverse(pose), matmul(T, dOmega), rates)


def _compose(group: ModuleType, steps: _Step) -> Motion:
    """The motion of the ends of all cells from that of each cell alone."""

    def advance(carry, step):
        pose, S, rates = carry
        carried = matmul(step.X, rates)
        # Ad(exp(-Omega)) turns against the step's own twist: its rate is -ad(w) X
        turning = group.bracket(step.rates[:, 0], carried[:, 0])
        rates = (carried + step.rates).at[:, 1].add(-turning)
        moved = (group.compose(pose, step.pose), matmul(step.X, S) + step.S, rates)
        return moved, moved

    start = (
        group.identity(steps.S.dtype),
        jnp.zeros_like(steps.S[0]),
        jnp.zeros_like(steps.rates[0]),
    )
    pose, S, rates = jax.lax.scan(advance, start, steps)[1]
    return Motion(pose, S, rates[:, :, 0], rates[:, :, 1])


def _pad(numpy: ModuleType, table, width: int):
    return numpy.pad(table, [(0, 0)] * (table.ndim - 1) + [(0, width - table.shape[-1])])


def _cast(dtype, *tables: np.ndarray) -> list[Array]:
    return [jnp.asarray(table.astype(dtype)) for table in tables]
