"""The equation of motion of the bodies: inertia, gravity, elasticity, damping, armature."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Scalar

from soromox.chain import inertia
from soromox.chain.dynamics import body_loads, chain_inverse_dynamics
from soromox.chain.elimination import Factor, diagonal_blocks, eliminate, solve, solve_bodies
from soromox.chain.kinematics import Chain, configuration
from soromox.numerics import apply


class Mechanics(eqx.Module):
    """A chain with linear elasticity and damping: everything derived from parameters, once.

    `K` and `D` are one block per body; articulated hosts may couple joints through a full matrix,
    whose part outside the blocks is `coupling_*` (otherwise `None`).
    """

    chain: Chain
    stiffness: Float[Array, "levels lanes n n"]
    damping: Float[Array, "levels lanes n n"]
    armature: Float[Array, " dofs"]
    rest: Float[Array, " dofs"]  # configuration without elastic force
    coupling_stiffness: Float[Array, "dofs dofs"] | None = None
    coupling_damping: Float[Array, "dofs dofs"] | None = None

    @property
    def num_dofs(self) -> int:
        return self.chain.topology.num_dofs

    def elastic_force(self, q: Float[Array, " dofs"]) -> Float[Array, " dofs"]:
        """`K (q - rest)`."""
        return self._apply(self.stiffness, self.coupling_stiffness, q - self.rest)

    def damping_force(self, qd: Float[Array, " dofs"]) -> Float[Array, " dofs"]:
        """`D qd`."""
        return self._apply(self.damping, self.coupling_damping, qd)

    def elastic_energy(self, q: Float[Array, " dofs"]) -> Scalar:
        return 0.5 * (q - self.rest) @ self.elastic_force(q)

    def kinetic_energy(self, q: Float[Array, " dofs"], qd: Float[Array, " dofs"]) -> Scalar:
        return inertia.kinetic_energy(self.chain, q, qd) + 0.5 * qd @ (self.armature * qd)

    def inertia_matrix(self, q: Float[Array, " dofs"]) -> Float[Array, "dofs dofs"]:
        return inertia.inertia_matrix(self.chain, q) + jnp.diag(self.armature)

    def stiffness_matrix(self) -> Float[Array, "dofs dofs"]:
        return self._dense(self.stiffness, self.coupling_stiffness)

    def damping_matrix(self) -> Float[Array, "dofs dofs"]:
        return self._dense(self.damping, self.coupling_damping)

    def inertial_force(
        self, q: Float[Array, " dofs"], qd: Float[Array, " dofs"], qdd: Float[Array, " dofs"]
    ) -> Float[Array, " dofs"]:
        """`M qdd + C qd + G`, armature included."""
        config = configuration(self.chain, q, qd)
        return chain_inverse_dynamics(self.chain, config, qd, qdd) + self.armature * qdd

    def inverse_dynamics(
        self, q: Float[Array, " dofs"], qd: Float[Array, " dofs"], qdd: Float[Array, " dofs"]
    ) -> Float[Array, " dofs"]:
        """`M qdd + C qd + G + K (q - rest) + D qd`."""
        return self.inertial_force(q, qd, qdd) + self.elastic_force(q) + self.damping_force(qd)

    def forward_acceleration(
        self, q: Float[Array, " dofs"], qd: Float[Array, " dofs"], tau: Float[Array, " dofs"]
    ) -> Float[Array, " dofs"]:
        """The acceleration under the generalized force `tau`."""
        chain, layout = self.chain, self.chain.topology.layout
        config = configuration(chain, q, qd)
        wrenches, forces = body_loads(chain, config, qd)
        rest = layout.to_local(tau - self.elastic_force(q) - self.damping_force(qd)) - forces
        factor = eliminate(chain, config, self._armature_blocks())
        return layout.to_global(solve_bodies(chain, factor, wrenches, rest))

    def factor(self, q: Float[Array, " dofs"], h: Scalar) -> Factor:
        """Elimination of `M(q) + armature + h D + h^2 K`, the blocks of the implicit stage."""
        config = configuration(self.chain, q, jnp.zeros_like(q))
        H = self._armature_blocks() + h * self.damping + h**2 * self.stiffness
        return eliminate(self.chain, config, H)

    def solve(
        self, factor: Factor, rhs: Float[Array, "dofs *columns"]
    ) -> Float[Array, "dofs *columns"]:
        return solve(self.chain, factor, rhs)

    def _apply(self, blocks: Array, coupling: Array | None, x: Array) -> Array:
        layout = self.chain.topology.layout
        force = layout.to_global(apply(blocks, layout.to_local(x)))
        return force if coupling is None else force + coupling @ x

    def _dense(self, blocks: Array, coupling: Array | None) -> Array:
        layout = self.chain.topology.layout
        identity = jnp.eye(self.num_dofs, dtype=blocks.dtype)
        matrix = layout.to_global(blocks @ layout.to_local(identity))
        return matrix if coupling is None else matrix + coupling

    def _armature_blocks(self) -> Array:
        return diagonal_blocks(self.chain.topology.layout.to_local(self.armature))
