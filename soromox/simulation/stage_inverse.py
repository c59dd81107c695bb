"""The structured approximate inverse of a stage, and what is small for its accelerations."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from soromox.actuation import loads
from soromox.chain import Factor, Mechanics
from soromox.chain.inertia import total_mass
from soromox.numerics import matmul
from soromox.simulation.root import Measure, RenewableInverse
from soromox.simulation.stage import Held, Motion, Stage


class StageInverse(RenewableInverse):
    """`M + h D + h^2 K + A W A^T` with `W = h c + h^2 k`, inverted by elimination and Woodbury.

    `A` are the responsive loads' columns, `c` and `k` minus the derivatives of their efforts with
    respect to rate and coordinate; both may be zero, huge or nonsymmetric. A matrix that couples
    joints beyond the bodies' blocks is one more such term, with the identity for `A`.

    Renewed, it takes the loads as unknowns of their own: their laws are linearised where the
    latest linear model expects their coordinates to be. At the coordinates that were reached, the
    load of a stiff cable is the stiffness times an error of second order: it means nothing, not
    even whether the cable is taut.
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

    def unknown(self, problem: Stage) -> tuple[Held, Motion]:
        mask = loads.responsive_mask(problem.robot)
        nan = lambda count: jnp.full(count, jnp.nan, self.A.dtype)
        motion = Motion(nan(sum(mask)), nan(sum(mask)))
        slopes = jnp.full((sum(mask), sum(mask)), jnp.nan, self.A.dtype)
        return Held(nan(len(mask)), motion, slopes, slopes), motion

    def renewed(
        self, problem: Stage, x: Float[Array, " dofs"], predicted: Motion
    ) -> tuple["StageInverse", Held]:
        q, v = problem.motion(x)
        y, columns = loads.load_columns(problem.robot, q)
        yd = matmul(columns.T, v) if problem.y0 is None else (y - problem.y0) / problem.h
        responsive = np.flatnonzero(loads.responsive_mask(problem.robot))
        reached = Motion(y[responsive], yd[responsive])
        expected = jax.tree.map(lambda a, b: jnp.where(jnp.isnan(a), b, a), predicted, reached)
        effort, k, c = _responses(problem, y, yd, expected)
        linear = matmul(k, expected.y - reached.y) + matmul(c, expected.yd - reached.yd)
        effort = effort.at[responsive].add(linear)
        A, W = _low_rank(problem, q, v, columns[:, responsive], k, c)
        inverse = _woodbury(self.mechanics, self.factor, A, W, self.mechanics.solve(self.factor, A))
        return inverse, Held(effort, reached, k, c)

    def predict(self, problem: Stage, held: Held, correction: Float[Array, " dofs"]) -> Motion:
        shift = matmul(self.A[:, : len(held.motion.y)].T, correction)
        h = problem.h
        return Motion(held.motion.y + h**2 * shift, held.motion.yd + h * shift)

    def agrees(self, problem: Stage, held: Held, predicted: Motion) -> Bool[Array, ""]:
        responsive = np.flatnonzero(loads.responsive_mask(problem.robot))
        if not responsive.size:
            return jnp.asarray(True)
        y, yd = (jnp.zeros_like(held.effort).at[responsive].set(part) for part in predicted)
        law = loads.load_efforts(problem.robot, y, yd, problem.u, problem.memory)[responsive]
        shift = jax.tree.map(jnp.subtract, predicted, held.motion)
        model = held.effort[responsive] - matmul(held.k, shift.y) - matmul(held.c, shift.yd)
        noise = matmul(jnp.abs(held.k), jnp.abs(predicted.y))
        noise = noise + matmul(jnp.abs(held.c), jnp.abs(predicted.yd))
        eps = jnp.finfo(law.dtype).eps
        size = jnp.maximum(jnp.abs(law), jnp.abs(model))
        return jnp.all(jnp.abs(law - model) <= eps ** (1 / 3) * size + 64 * eps * noise)


def approximate(stage: Stage) -> tuple[StageInverse, Measure]:
    """The matrix of `stage` eliminated at its start, and what is small for its accelerations."""
    stage = jax.lax.stop_gradient(stage)
    robot, mechanics, h, q, v = stage.robot, stage.mechanics, stage.h, stage.q0, stage.v0
    factor = mechanics.factor(q, h)
    y, columns = loads.load_columns(robot, q)
    yd = matmul(columns.T, v)
    responsive = np.flatnonzero(loads.responsive_mask(robot))
    # where the loads will be: a cable may tauten within the stage
    ahead = Motion((y + h * yd)[responsive], yd[responsive])
    effort, k, c = _responses(stage, y, yd, ahead)
    A, W = _low_rank(stage, q, v, columns[:, responsive], k, c)

    # forces that may cancel each other, and those whose rounding stands for that of coordinates
    chain = mechanics.chain
    reach = jnp.sum(chain.lengths)
    stiff = matmul(jnp.abs(columns[:, responsive]), reach * jnp.sum(jnp.abs(k), axis=1))
    forces = [stiff, loads.other_force(robot, q, v), matmul(jnp.abs(columns), jnp.abs(effort))]
    if stage.tau_ext is not None:
        forces.append(stage.tau_ext)
    forces = jnp.stack(forces, axis=1)
    solved = mechanics.solve(factor, jnp.concatenate([A, forces], axis=1))
    Z, kicks = solved[:, : A.shape[1]], solved[:, A.shape[1] :]
    inverse = _woodbury(mechanics, factor, A, W, Z)
    kicks = h * (kicks - matmul(Z, matmul(inverse.core, matmul(A.T, kicks))))

    # inertias of the joints, so that sizes are in sqrt(J) whatever the unit of a coordinate
    layout = mechanics.chain.topology.layout
    inertia = layout.to_global(jnp.sum(factor.pivot**2, axis=-1))
    weights = jnp.sqrt(jnp.where(jnp.isfinite(inertia), inertia, 1))
    mass = total_mass(chain)
    # velocities that these forces could cause within the stage
    sizes = jnp.stack(
        [
            jnp.max(jnp.abs(weights * v)),
            jnp.max(jnp.abs(weights[:, None] * kicks)),
            h * jnp.sqrt(mass * jnp.sum(chain.gravity**2)),
            jnp.sqrt(2 * mechanics.elastic_energy(q)),
            jnp.sqrt(jnp.abs(ahead.y @ matmul(k, ahead.y))),
        ]
    )
    scale = jnp.sum(jnp.where(jnp.isfinite(sizes), sizes, 0))
    return inverse, Measure(h * weights, scale)


def _responses(stage: Stage, y: Array, yd: Array, at: Motion) -> tuple[Array, Array, Array]:
    """Efforts of all loads with the responsive ones at `at`, and `k`, `c` of those."""
    responsive = np.flatnonzero(loads.responsive_mask(stage.robot))
    if not len(y):
        none = jnp.zeros((0, 0), y.dtype)
        return y, none, none

    def efforts(y_part: Array, yd_part: Array) -> tuple[Array, Array]:
        moved = y.at[responsive].set(y_part), yd.at[responsive].set(yd_part)
        found = loads.load_efforts(stage.robot, *moved, stage.u, stage.memory)
        return found[responsive], found

    (k, c), found = jax.jacfwd(efforts, argnums=(0, 1), has_aux=True)(*at)
    return found, -k, -c


def _low_rank(
    stage: Stage, q: Array, v: Array, A: Array, k: Array, c: Array
) -> tuple[Array, Array]:
    """All columns, and `W = h c + h^2 k`, with what couples joints beyond the bodies' blocks."""
    mechanics, h = stage.mechanics, stage.h
    W = h * c + h**2 * k
    couplings = [(h, mechanics.coupling_damping), (h**2, mechanics.coupling_stiffness)]
    if loads.has_other_force(stage.robot):
        other = lambda q, v: -loads.other_force(stage.robot, q, v)
        stiffness, damping = jax.jacfwd(other, argnums=(0, 1))(q, v)
        couplings += [(h, damping), (h**2, stiffness)]
    terms = [power * matrix for power, matrix in couplings if matrix is not None]
    if terms:
        A = jnp.concatenate([A, jnp.eye(len(A), dtype=A.dtype)], axis=1)
        W = jax.scipy.linalg.block_diag(W, sum(terms[1:], terms[0]))
    return A, W


def _woodbury(mechanics: Mechanics, factor: Factor, A: Array, W: Array, Z: Array) -> StageInverse:
    core = W
    if W.size:
        core = jnp.linalg.solve(jnp.eye(len(W), dtype=W.dtype) + matmul(W, matmul(A.T, Z)), W)
    return StageInverse(mechanics, factor, A, Z, core)
