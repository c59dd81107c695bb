"""Rigid links, straight or bent: their strain never changes."""

from types import ModuleType

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from soromox.chain.bodies import Motion
from soromox.chain.strained import StrainedBodies


class FrozenStrainBodies(StrainedBodies):
    """Links `g(s) = exp(s xi)` with constant strain and no coordinates."""

    group: ModuleType = eqx.field(static=True)
    strain: Float[Array, "bodies d"]
    length: Float[Array, " bodies"]  # [m]
    fractions: Float[Array, "bodies nodes"]  # s / length of the nodes
    weights: Float[Array, "bodies nodes"]  # sum to 1
    mass: Float[Array, "bodies nodes d d"]

    def strain_nodes(
        self, q: Float[Array, "bodies 0"]
    ) -> tuple[
        Float[Array, "bodies nodes"], Float[Array, "bodies nodes"], Float[Array, "bodies nodes d"]
    ]:
        length = self.length[:, None]
        strain = jnp.broadcast_to(
            self.strain[:, None], (*self.fractions.shape, self.strain.shape[-1])
        )
        return length * self.fractions, length * self.weights, strain

    def motion(self, q: Float[Array, "bodies 0"], qd: Float[Array, "bodies 0"]) -> Motion:
        tips = jnp.ones_like(self.length)[:, None]
        s = self.length[:, None] * jnp.concatenate([self.fractions, tips], axis=1)
        pose = jax.vmap(jax.vmap(self._pose, (0, None)))(s, self.strain)
        still = jnp.zeros((*s.shape, self.group.DIM), s.dtype)
        return Motion(pose, jnp.zeros((*still.shape, 0), s.dtype), still, still)

    def point(
        self, body: int | Int[Array, ""], s: Float[Array, ""], q: Float[Array, "0"]
    ) -> tuple[Float[Array, "*pose"], Float[Array, "d 0"]]:
        return self._pose(s, self.strain[body]), jnp.zeros((self.group.DIM, 0), s.dtype)

    def _pose(self, s: Array, strain: Array) -> Array:
        return self.group.exp(s * strain)
