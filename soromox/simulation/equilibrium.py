"""Static equilibrium by Newton's method, with load continuation and a test of stability."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Scalar

from soromox.actuation import ActuatedHost, loads
from soromox.chain import Mechanics
from soromox.numerics.checks import ArrayLike, as_array
from soromox.simulation.inputs import dtype_for, in_dtype
from soromox.simulation.linear_solve import ApproximateInverse
from soromox.simulation.root import Measure, Residual, find_root
from soromox.simulation.state import RESULTS


class Equilibrium(eqx.Module):
    """A configuration at rest.

    - `q`: the configuration; that of the last load reached if the search failed.
    - `residual`: size of the last Newton correction relative to the configuration.
    - `result`: code of `RESULTS`: `successful`, `unstable` (solved, but the robot would leave it),
      or why it was not found.
    - `smallest_stiffness`: smallest eigenvalue of the symmetric part of the tangent stiffness
      `d(gravity + elastic - actuation - ...)/dq`. Its sign decides stability; its unit is that of
      the coordinates.
    """

    q: Float[Array, " dofs"]
    residual: Scalar
    result: Int[Array, ""]
    smallest_stiffness: Scalar

    @property
    def is_stable(self) -> Bool[Array, ""]:
        return self.result == RESULTS.successful


def static_equilibrium(
    robot: ActuatedHost,
    u: ArrayLike | None = None,
    tau_ext: ArrayLike | None = None,
    q0: ArrayLike | None = None,
    steps: int = 1,
) -> Equilibrium:
    """The equilibrium under control `u` (m,) and generalized force `tau_ext` (n,).

    Newton's method from `q0` (default: the rest shape `q = 0`). With `steps > 1` the force that is
    out of balance at `q0` is released in as many equal parts, so that the search follows one branch
    of solutions. Differentiable in `u`, `tau_ext` and all parameters, in any mode; works under
    `vmap`. Check `result`: an unstable equilibrium is reported as such.

    Raises `ValueError` for wrong shapes.
    """
    dtype = dtype_for(robot, q0)
    n = robot.num_dofs
    u = loads.control_vector(robot, u, dtype)
    q0 = as_array(np.zeros(n) if q0 is None else q0, "q0", dtype, (n,))
    if tau_ext is not None:
        tau_ext = as_array(tau_ext, "tau_ext", dtype, (n,))
    if int(steps) != steps or steps < 1:
        raise ValueError(f"`steps` must be a positive integer, got {steps}.")
    return _equilibrium(in_dtype(robot, dtype), u, tau_ext, q0, int(steps))


class Statics(Residual):
    """`gravity + elastic - A e(y, 0, u) - other - tau_ext - unbalanced = 0` in `q`."""

    robot: ActuatedHost
    mechanics: Mechanics
    u: Float[Array, " channels"]
    tau_ext: Float[Array, " dofs"] | None
    unbalanced: Float[Array, " dofs"]  # the part of the force that is not yet released

    def value(self, x: Float[Array, " dofs"]) -> Float[Array, " dofs"]:
        rest = jnp.zeros_like(x)
        force = self.mechanics.inverse_dynamics(x, rest, rest)
        force = force - loads.other_force(self.robot, x, rest) - self.unbalanced
        if loads.responsive_mask(self.robot):
            y, pull = jax.vjp(lambda q: loads.load_coordinates(self.robot, q), x)
            force = force - pull(loads.load_efforts(self.robot, y, jnp.zeros_like(y), self.u))[0]
        return force if self.tau_ext is None else force - self.tau_ext


@eqx.filter_jit
def _equilibrium(
    robot: ActuatedHost,
    u: Array,
    tau_ext: Array | None,
    q0: Array,
    steps: int,
) -> Equilibrium:
    mechanics = robot.mechanics()
    statics = Statics(robot, mechanics, u, tau_ext, jnp.zeros_like(q0))
    q0 = jax.lax.stop_gradient(q0)
    at_start = jax.lax.stop_gradient(statics.value(q0))

    def follow(carry: tuple[Array, Array, Array], part: Array) -> tuple[tuple, None]:
        q, code, _ = carry
        problem = eqx.tree_at(lambda s: s.unbalanced, statics, part * at_start)
        new, found = find_root(problem, q, *_approximate(problem, q))
        going = code == RESULTS.successful
        return (
            jnp.where(going, new, q),
            jnp.where(going, found.result, code),
            jnp.where(going, found.residual, carry[2]),
        ), None

    parts = jnp.asarray(1 - np.arange(1, steps + 1) / steps, q0.dtype)
    start = (q0, jnp.zeros((), jnp.int32), jnp.zeros((), q0.dtype))
    (q, code, residual), _ = jax.lax.scan(follow, start, parts)

    valid = loads.controls_valid(robot, u)
    code = jnp.where(valid, code, RESULTS.rejected_command).astype(jnp.int32)
    smallest, largest = _stiffness_range(jax.lax.stop_gradient(statics), jax.lax.stop_gradient(q))
    slack = len(q0) * jnp.finfo(q0.dtype).eps * largest
    solved = code == RESULTS.successful
    code = jnp.where(solved & ~(smallest > -slack), RESULTS.unstable, code).astype(jnp.int32)
    return Equilibrium(q, residual, code, smallest)


def _stiffness_range(statics: Statics, q: Array) -> tuple[Array, Array]:
    tangent = jax.jacfwd(statics.value)(q)
    eigenvalues = jnp.linalg.eigvalsh((tangent + tangent.T) / 2)
    return eigenvalues[0], jnp.max(jnp.abs(eigenvalues))


class _Tangent(ApproximateInverse):
    """The tangent stiffness of one configuration, eliminated."""

    factors: tuple[Float[Array, "dofs dofs"], Int[Array, " dofs"]]

    def solve(self, r: Float[Array, " dofs"]) -> Float[Array, " dofs"]:
        return jax.scipy.linalg.lu_solve(self.factors, r)

    def solve_transposed(self, r: Float[Array, " dofs"]) -> Float[Array, " dofs"]:
        return jax.scipy.linalg.lu_solve(self.factors, r, trans=1)


def _approximate(statics: Statics, q: Array) -> tuple[Measure, _Tangent]:
    """Sizes are in sqrt(J); what matters is the energy that the robot can store."""
    statics, q = jax.lax.stop_gradient((statics, q))
    tangent = jax.jacfwd(statics.value)(q)
    rows = jnp.sum(jnp.abs(tangent), axis=1)
    floor = jnp.finfo(q.dtype).eps * jnp.max(rows)
    weights = jnp.sqrt(jnp.where(rows > floor, rows, jnp.maximum(floor, jnp.finfo(q.dtype).tiny)))
    chain = statics.mechanics.chain
    mass = sum(jnp.sum(kind.mass[..., -1, -1]) for kind in chain.kinds)
    weight = mass * jnp.sqrt(jnp.sum(chain.gravity**2))
    scale = jnp.sqrt(weight * jnp.sum(chain.lengths))
    measure = Measure(weights, jnp.where(jnp.isfinite(scale), scale, 0))
    # at a singular point, such as the onset of buckling, some direction is as good as another
    tangent = tangent + floor * jnp.eye(len(q), dtype=q.dtype)
    return measure, _Tangent(jax.scipy.linalg.lu_factor(tangent))
