"""Segments of constant strain: `g(s) = exp(s xi)` with `xi = reference + B q`."""

from types import ModuleType

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from soromox.chain.bodies import Motion
from soromox.chain.strained import StrainedBodies
from soromox.numerics import apply, matmul


class ConstantStrainBodies(StrainedBodies):
    """Rods that bend, twist, stretch and shear uniformly.

    With `T` the tangent map, a point at arc length s has the body Jacobian `S = s T(-s xi) B` and
    the bias `c = s DT(-s xi)[-s xid] xid`. Bodies with fewer active strains than the widest one
    have zero columns in `B`.
    """

    group: ModuleType = eqx.field(static=True)
    basis: Float[Array, "bodies d n"]  # B
    # if all columns of B pick single strains, the same on all bodies: which ones (no product then)
    picks: tuple[int, ...] | None = eqx.field(static=True)
    reference: Float[Array, "bodies d"]
    length: Float[Array, " bodies"]
    fractions: Float[Array, "bodies nodes"]
    weights: Float[Array, "bodies nodes"]
    mass: Float[Array, "bodies nodes d d"]

    def strain_nodes(
        self, q: Float[Array, "bodies n"]
    ) -> tuple[
        Float[Array, "bodies nodes"], Float[Array, "bodies nodes"], Float[Array, "bodies nodes d"]
    ]:
        xi = self.strain(q)[:, None]
        length = self.length[:, None]
        strain = jnp.broadcast_to(xi, (*self.fractions.shape, xi.shape[-1]))
        return length * self.fractions, length * self.weights, strain

    def strain(self, q: Float[Array, "bodies n"]) -> Float[Array, "bodies d"]:
        """The strain of each body."""
        return self.reference + self._strain_change(q)

    def motion(self, q: Float[Array, "bodies n"], qd: Float[Array, "bodies n"]) -> Motion:
        tips = jnp.ones_like(self.length)[:, None]
        s = self.length[:, None] * jnp.concatenate([self.fractions, tips], axis=1)

        def at(s, xi, rate):
            pose = self.group.exp(s * xi)
            T, dT = jax.jvp(self.group.tangent, (-s * xi,), (-s * rate,))
            return pose, s * T, s * matmul(T, rate), s * matmul(dT, rate)

        every_point = jax.vmap(at, (0, None, None))
        rate = self._strain_change(qd)
        pose, T, nu, c = jax.vmap(every_point)(s, self.strain(q), rate)
        return Motion(pose, self._columns(T, self.basis[:, None]), nu, c)

    def point(
        self, body: int | Int[Array, ""], s: Float[Array, ""], q: Float[Array, " n"]
    ) -> tuple[Float[Array, "*pose"], Float[Array, "d n"]]:
        basis = self.basis[body]
        pose, T = self._point(s, self.reference[body] + matmul(basis, q))
        return pose, self._columns(s * T, basis)

    def _point(self, s: Array, xi: Array) -> tuple[Array, Array]:
        return self.group.exp(s * xi), self.group.tangent(-s * xi)

    def _strain_change(self, q: Float[Array, "bodies n"]) -> Float[Array, "bodies d"]:
        if self.picks is None:
            return apply(self.basis, q)
        if self._picks_all:
            return q
        change = jnp.zeros((q.shape[0], self.group.DIM), q.dtype)
        return change.at[:, jnp.array(self.picks)].set(q)

    def _columns(self, T: Array, basis: Array) -> Array:
        if self.picks is None:
            return matmul(T, basis)
        return T if self._picks_all else T[..., jnp.array(self.picks)]

    @property
    def _picks_all(self) -> bool:
        return self.picks == tuple(range(self.group.DIM))
