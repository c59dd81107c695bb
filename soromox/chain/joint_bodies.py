"""Bare joints that are no screws: planar in space, spherical, free."""

from types import ModuleType

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from soromox.chain.bodies import AbstractBodies, Motion, free_joint
from soromox.numerics import matmul


class ProductJoints(AbstractBodies):
    """Joints `g = translation(p) exp(hat r)` with `[r; p] = B q`, without link, inertia or length.

    A constant `B` chooses what moves: rotation vectors (spherical), all six (free), or an angle
    about one axis and two translations across it (planar; the angle is never wrapped). The
    translation is given in the axes before the turn. Joints with fewer coordinates than the widest
    have zero columns.
    """

    group: ModuleType = eqx.field(static=True)
    B: Float[Array, "bodies d n"]

    @property
    def mass(self) -> Float[Array, "bodies 0 d d"]:
        bodies, d, _ = self.B.shape
        return jnp.zeros((bodies, 0, d, d), self.B.dtype)

    @property
    def length(self) -> Float[Array, " bodies"]:
        return jnp.zeros(self.B.shape[0], self.B.dtype)

    def motion(self, q: Float[Array, "bodies n"], qd: Float[Array, "bodies n"]) -> Motion:
        def one(B, q, qd):
            rate = matmul(B, qd)
            pose, S, c = free_joint(self.group, matmul(B, q), rate)
            return Motion(pose[None], matmul(S, B)[None], matmul(S, rate)[None], c[None])

        return jax.vmap(one)(self.B, q, qd)

    def point(
        self, body: int | Int[Array, ""], s: Float[Array, ""], q: Float[Array, " n"]
    ) -> tuple[Float[Array, "*pose"], Float[Array, "d n"]]:
        B = self.B[body]
        pose, S, _ = free_joint(self.group, matmul(B, q), jnp.zeros(B.shape[0], q.dtype))
        return pose, matmul(S, B)
