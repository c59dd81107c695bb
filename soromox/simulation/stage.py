"""The equations of one implicit stage, and their structured approximate inverse."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Scalar

from soromox.actuation import ActuatedHost, loads
from soromox.chain import Factor, Mechanics
from soromox.numerics import matmul
from soromox.simulation.linear_solve import ApproximateInverse
from soromox.simulation.root import Measure, Residual


class Stage(Residual):
    """`ID(q, v, a) + elastic + damping - A(q) e(y, rate, u) - other - tau_ext = 0` in `a`.

    `v = v0 + h a`, `q = q0 + h v`. The rate is `(y(q) - y0) / h` if `y0` is given, `A(q)^T v`
    otherwise. States of stateful laws, `z = z0 + h dz/dt`, are eliminated within the effort e.
    """

    robot: ActuatedHost
    mechanics: Mechanics
    h: Scalar
    q0: Float[Array, " dofs"]
    v0: Float[Array, " dofs"]
    y0: Float[Array, " coordinates"] | None
    z0: Float[Array, " states"]
    u: Float[Array, " channels"]
    tau_ext: Float[Array, " dofs"] | None

    @property
    def memory(self) -> loads.Memory:
        return loads.Memory(self.z0, self.h)

    def motion(self, a: Float[Array, " dofs"]) -> tuple[Array, Array]:
        """Configuration and velocity at the end of the stage."""
        v = self.v0 + self.h * a
        return self.q0 + self.h * v, v

    def final_states(self, a: Float[Array, " dofs"]) -> tuple[Array, Bool[Array, ""]]:
        """States of stateful laws at the end of the stage, and whether they were found."""
        if self.z0.size == 0:
            return self.z0, jnp.asarray(True)
        q, v = self.motion(a)
        y, yd = jax.jvp(lambda q: loads.load_coordinates(self.robot, q), (q,), (v,))
        yd = yd if self.y0 is None else (y - self.y0) / self.h
        return loads.final_states(self.robot, y, yd, self.u, self.memory)

    def value(self, x: Float[Array, " dofs"]) -> Float[Array, " dofs"]:
        q, v = self.motion(x)
        force = self.mechanics.inverse_dynamics(q, v, x) - loads.other_force(self.robot, q, v)
        if loads.responsive_mask(self.robot):
            y, rates = jax.linearize(lambda q: loads.load_coordinates(self.robot, q), q)
            yd = rates(v) if self.y0 is None else (y - self.y0) / self.h
            effort = loads.load_efforts(self.robot, y, yd, self.u, self.memory)
            (drive,) = jax.linear_transpose(rates, q)(effort)
            force = force - drive
        return force if self.tau_ext is None else force - self.tau_ext


class StageInverse(ApproximateInverse):
    """`M + h D + h^2 K + A W A^T` with `W = h c + h^2 k`, inverted by elimination and Woodbury.

    `A` are the responsive loads' columns, `c` and `k` minus the derivatives of their efforts with
    respect to rate and coordinate; both may be zero, huge or nonsymmetric. A matrix that couples
    joints beyond the bodies' blocks is one more such term, with the identity for `A`.
    """

    mechanics: Mechanics
    factor: Factor
    A: Float[Array, "dofs columns"]
    Z: Float[Array, "dofs columns"]  # base^-1 A
    core: Float[Array, "columns columns"]  # (I + W A^T Z)^-1 W

    def solve(self, r: Float[Array, " dofs"]) -> Float[Array, " dofs"]:
        return self._apply(r, self.core)

    def solve_transposed(self, r: Float[Array, " dofs"]) -> Float[Array, " dofs"]:
        return self._apply(r, self.core.T)  # the rest is symmetric

    def _apply(self, r: Array, core: Array) -> Array:
        z = self.mechanics.solve(self.factor, r)
        return z - matmul(self.Z, matmul(core, matmul(self.A.T, z))) if core.size else z


def approximate(stage: Stage) -> tuple[StageInverse, Measure]:
    """The matrix of `stage` eliminated at its start, and what is small for its accelerations."""
    stage = jax.lax.stop_gradient(stage)
    robot, mechanics, h, q, v = stage.robot, stage.mechanics, stage.h, stage.q0, stage.v0
    factor = mechanics.factor(q, h)
    A, W, drive, energy = _low_rank(stage)

    forces = [loads.other_force(robot, q, v), drive]
    if stage.tau_ext is not None:
        forces.append(stage.tau_ext)
    solved = mechanics.solve(factor, jnp.concatenate([A, jnp.stack(forces, axis=1)], axis=1))
    Z, kicks = solved[:, : A.shape[1]], h * solved[:, A.shape[1] :]
    core = W
    if W.size:
        core = jnp.linalg.solve(jnp.eye(len(W), dtype=W.dtype) + matmul(W, matmul(A.T, Z)), W)

    # inertias of the joints, so that sizes are in sqrt(J) whatever the unit of a coordinate
    layout = mechanics.chain.topology.layout
    inertia = layout.to_global(jnp.sum(factor.pivot**2, axis=-1))
    weights = jnp.sqrt(jnp.where(jnp.isfinite(inertia), inertia, 1))
    chain = mechanics.chain
    mass = sum(jnp.sum(kind.mass[..., -1, -1]) for kind in chain.kinds)
    # velocities that the forces at the start could cause within the stage if they did not cancel
    sizes = jnp.stack(
        [
            jnp.max(jnp.abs(weights * v)),
            jnp.max(jnp.abs(weights[:, None] * kicks)),
            h * jnp.sqrt(mass * jnp.sum(chain.gravity**2)),
            jnp.sqrt(2 * mechanics.elastic_energy(q)),
            jnp.sqrt(energy),
        ]
    )
    scale = jnp.sum(jnp.where(jnp.isfinite(sizes), sizes, 0))
    return StageInverse(mechanics, factor, A, Z, core), Measure(h * weights, scale)


def _low_rank(stage: Stage) -> tuple[Array, Array, Array, Array]:
    """`A`, `W`, the force `|A| |e|` of all loads, and an energy of the responsive ones."""
    robot, mechanics, h, q = stage.robot, stage.mechanics, stage.h, stage.q0
    mask = loads.responsive_mask(robot)
    responsive = jnp.array([i for i, responds in enumerate(mask) if responds], dtype=int)
    A, W = jnp.zeros((len(q), 0), q.dtype), jnp.zeros((0, 0), q.dtype)
    drive, energy = jnp.zeros_like(q), jnp.zeros((), q.dtype)
    if mask:
        y, pull = jax.vjp(lambda q: loads.load_coordinates(robot, q), q)
        columns = jax.vmap(lambda row: pull(row)[0], out_axes=1)(jnp.eye(len(mask), dtype=q.dtype))
        A = columns[:, responsive]
        yd = jnp.zeros_like(y).at[responsive].set(matmul(A.T, stage.v0))
        effort = loads.load_efforts(robot, y, yd, stage.u, stage.memory)
        drive = matmul(jnp.abs(columns), jnp.abs(effort))

        def response(y_part: Array, yd_part: Array) -> Array:
            moved = y.at[responsive].set(y_part), yd.at[responsive].set(yd_part)
            return -loads.load_efforts(robot, *moved, stage.u, stage.memory)[responsive]

        # where the loads will be: a cable may tauten within the stage
        ahead = (y + h * yd)[responsive], yd[responsive]
        k, c = jax.jacfwd(response, argnums=(0, 1))(*ahead)
        W = h * c + h**2 * k
        energy = jnp.abs(ahead[0] @ matmul(k, ahead[0]))
    couplings = (mechanics.coupling_damping, mechanics.coupling_stiffness)
    for factor, coupling in zip((h, h**2), couplings, strict=True):
        if coupling is not None:
            A = jnp.concatenate([A, jnp.eye(len(q), dtype=q.dtype)], axis=1)
            W = jax.scipy.linalg.block_diag(W, factor * coupling)
    return A, W, drive, energy
