"""Static equilibrium by Newton's method, with load continuation and a test of stability."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Scalar

from soromox.actuation import ActuatedHost, loads
from soromox.chain import Mechanics
from soromox.chain.inertia import total_mass
from soromox.numerics import matmul
from soromox.numerics.checks import ArrayLike, as_array, whole_number
from soromox.simulation.inputs import dtype_for, in_dtype
from soromox.simulation.linear_solve import ApproximateInverse
from soromox.simulation.root import (
    Diagnostics,
    Measure,
    Residual,
    harmless,
    implicit_tangent,
    search_root,
)
from soromox.simulation.state import RESULTS, first_failure


TRUSTED_TRIALS = 4  # Newton iterations after which a part is trusted to be on its branch
SURE_PART = 2.0**-7  # of the load: trusted anyhow
SMALLEST_PART = 2.0**-20  # of the load


class Equilibrium(eqx.Module):
    """A configuration at rest.

    - `q`: the configuration; that of the last load reached if the search failed.
    - `residual`: size of the last Newton correction relative to the configuration.
    - `result`: code of `RESULTS`: `successful`, `unstable` (solved, but the robot would leave it),
      or why it was not found.
    - `actuator_state`: the states of stateful laws that last, `dz/dt = 0`; `None` without any.
    - `smallest_stiffness`: smallest eigenvalue of the symmetric part of the tangent stiffness
      `d(gravity + elastic - actuation - ...)/dq`. Its sign decides stability, zero (to rounding)
      being neutral and no failure; its unit is that of the coordinates.
    """

    q: Float[Array, " dofs"]
    residual: Scalar
    result: Int[Array, ""]
    smallest_stiffness: Scalar
    actuator_state: Float[Array, " states"] | None

    @property
    def is_stable(self) -> Bool[Array, ""]:
        return self.result == RESULTS.successful


def static_equilibrium(
    robot: ActuatedHost,
    u: ArrayLike | None = None,
    tau_ext: ArrayLike | None = None,
    q0: ArrayLike | None = None,
    steps: int = 1,
    throw: bool = False,
) -> Equilibrium:
    """The equilibrium under control `u` (m,) and generalized force `tau_ext` (n,).

    States of stateful laws are those that last under `u`: a lag has come to its end.
    Newton's method from `q0` (default: the rest shape `q = 0`). With `steps > 1` the load grows in
    as many equal parts, so that the search follows one branch of solutions from `q0` on: `u` and
    `tau_ext` grow from zero (the target of a `DisplacementControl` from the extension at `q0`), and
    the force that is out of balance at `q0` without them is released.
    Where a part is too large for Newton's method, smaller ones are taken. Differentiable in `u`,
    `tau_ext` and all parameters, in any mode; works under `vmap`. Check `result`: an unstable
    equilibrium is reported as such; `throw=True` raises `RuntimeError` for any result but success,
    unless the call is being traced.

    Raises `ValueError` for wrong shapes.
    """
    dtype = dtype_for(robot, q0)
    n = robot.num_dofs
    u = loads.control_vector(robot, u, dtype)
    q0 = as_array(np.zeros(n) if q0 is None else q0, "q0", dtype, (n,))
    if tau_ext is not None:
        tau_ext = as_array(tau_ext, "tau_ext", dtype, (n,))
    steps = whole_number(steps, "`steps` must be a positive integer")
    found = _equilibrium(in_dtype(robot, dtype), u, tau_ext, q0, steps)
    if throw and first_failure(found.result) is not None:
        code = RESULTS(int(found.result))
        raise RuntimeError(f"The search for equilibrium failed ({code.name}). {code.message}")
    return found


class Statics(Residual):
    """`gravity + elastic - A e(y, 0, u) - other - tau_ext = 0` in `q`.

    Partly loaded, `u` is on its way from `idle`, `tau_ext` counts by `part`, and `1 - part` of
    `unbalanced` is held.
    """

    robot: ActuatedHost
    mechanics: Mechanics
    u: Float[Array, " channels"]
    tau_ext: Float[Array, " dofs"] | None
    part: Scalar
    idle: Float[Array, " channels"]
    unbalanced: Float[Array, " dofs"]
    memory: loads.Memory

    @classmethod
    def loaded(
        cls,
        robot: ActuatedHost,
        u: Float[Array, " channels"],
        tau_ext: Float[Array, " dofs"] | None,
        dtype: np.dtype,
    ) -> "Statics":
        """Under all of the load."""
        free = jnp.zeros(robot.num_dofs, dtype)
        one = jnp.ones((), dtype)
        memory = loads.Memory(loads.stored_states(robot, dtype), jnp.full((), jnp.inf, dtype))
        return cls(robot, robot.mechanics(), u, tau_ext, one, jnp.zeros_like(u), free, memory)

    @property
    def command(self) -> Float[Array, " channels"]:
        return (1 - self.part) * self.idle + self.part * self.u

    def efforts(self, y: Float[Array, " coordinates"]) -> Float[Array, " coordinates"]:
        """Of all loads at rest."""
        return loads.load_efforts(self.robot, y, jnp.zeros_like(y), self.command, self.memory)

    def states(self, q: Float[Array, " dofs"]) -> tuple[Float[Array, " states"], Bool[Array, ""]]:
        """Those of stateful laws that last, and whether they were found."""
        y = loads.load_coordinates(self.robot, q)
        return loads.final_states(self.robot, y, jnp.zeros_like(y), self.command, self.memory)

    def value(self, x: Float[Array, " dofs"]) -> Float[Array, " dofs"]:
        rest = jnp.zeros_like(x)
        force = self.mechanics.inverse_dynamics(x, rest, rest)
        force = force - loads.other_force(self.robot, x, rest) - (1 - self.part) * self.unbalanced
        if loads.responsive_mask(self.robot):
            y, pull = jax.vjp(lambda q: loads.load_coordinates(self.robot, q), x)
            efforts = self.efforts(y)
            force = force - pull(efforts)[0]
        return force if self.tau_ext is None else force - self.part * self.tau_ext


@eqx.filter_jit
def _equilibrium(
    robot: ActuatedHost,
    u: Array,
    tau_ext: Array | None,
    q0: Array,
    steps: int,
) -> Equilibrium:
    valid = loads.controls_valid(robot, u)
    is_usable, (u, tau_ext, start) = harmless((u, tau_ext, q0))
    statics = Statics.loaded(robot, u, tau_ext, q0.dtype)
    q, found, tangent = _follow(statics, jax.lax.stop_gradient(start), steps)
    code, states = jnp.where(is_usable, found.result, RESULTS.non_finite), None
    q = jnp.where(is_usable, q, q0)
    if statics.memory.start.size:
        states, settled = statics.states(q)
        valid = valid & loads.states_valid(robot, states, u, states)
        code = jnp.maximum(code, jnp.where(settled, code, RESULTS.not_converged))
    code = jnp.where(valid, code, RESULTS.rejected_command).astype(jnp.int32)
    tangent = jax.lax.stop_gradient(tangent)
    eigenvalues = jnp.linalg.eigvalsh((tangent + tangent.T) / 2)
    smallest, largest = eigenvalues[0], jnp.max(jnp.abs(eigenvalues))
    slack = len(q0) * jnp.finfo(q0.dtype).eps * largest
    solved = code == RESULTS.successful
    code = jnp.where(solved & ~(smallest >= -slack), RESULTS.unstable, code).astype(jnp.int32)
    return Equilibrium(q, found.residual, code, smallest, states)


class _Branch(NamedTuple):
    """A branch of equilibria under growing load, as far as it is known."""

    q: Float[Array, " dofs"]
    part: Scalar  # of the load reached
    stride: Scalar  # the part that is added next
    tangent: Float[Array, "dofs dofs"]  # at `q`, under all of the load, once done
    found: Diagnostics  # of the latest search
    ended: Bool[Array, ""]


@eqx.filter_custom_jvp
def _follow(
    statics: Statics, q0: Float[Array, " dofs"], steps: int
) -> tuple[Float[Array, " dofs"], Diagnostics, Float[Array, "dofs dofs"]]:
    """The equilibrium that is reached from `q0`, and the tangent stiffness there.

    Under no load, with the force that is then out of balance held, `q0` is one. All of the load is
    applied in `steps` parts; where Newton's method fails or takes long, parts become smaller.
    """
    none = jnp.zeros((), q0.dtype)
    y = loads.load_coordinates(statics.robot, q0)
    idle = loads.idle_control(statics.robot, y)
    unloaded = eqx.tree_at(lambda s: (s.part, s.idle), statics, (none, idle)).value(q0)

    def loaded(part: Scalar) -> Statics:
        new = (part, idle, unloaded)
        return eqx.tree_at(lambda s: (s.part, s.idle, s.unbalanced), statics, new)

    def advance(branch: _Branch) -> _Branch:
        tangent = jax.jacfwd(loaded(branch.part).value)(branch.q)
        last = (branch.part == 1) | (branch.stride < SMALLEST_PART)
        drive = _uncancelled_drive(loaded(branch.part), branch.q)
        measure, inverse = _approximate(statics, tangent, drive)
        part = jnp.minimum(branch.part + branch.stride, 1)
        part = jnp.where(part > 1 - SMALLEST_PART, 1, part)

        def search(branch: _Branch) -> _Branch:
            q, found = search_root(loaded(part), branch.q, measure, inverse)
            # Newton's method that takes long may come out on another branch
            trusted = (found.trials <= TRUSTED_TRIALS) | (branch.stride < SURE_PART)
            reached = (found.code == RESULTS.successful) & trusted
            return branch._replace(
                q=jnp.where(reached, q, branch.q),
                part=jnp.where(reached, part, branch.part),
                stride=jnp.where(
                    reached, jnp.minimum(2 * branch.stride, 1 / steps), branch.stride / 4
                ),
                found=found,
            )

        branch = jax.lax.cond(last, lambda b: b, search, branch)
        return branch._replace(tangent=tangent, ended=last)

    start = _Branch(
        q0,
        none,
        jnp.asarray(1 / steps, q0.dtype),
        jnp.zeros((len(q0), len(q0)), q0.dtype),
        Diagnostics(none, none, none, none),
        jnp.asarray(False),
    )
    branch = jax.lax.while_loop(lambda branch: ~branch.ended, advance, start)
    return branch.q, branch.found, branch.tangent


@_follow.def_jvp
def _follow_jvp(primals: tuple, tangents: tuple) -> tuple:
    statics, _, _ = primals
    moved, _, _ = tangents
    q, found, tangent = _follow(*primals)
    inverse = _approximate(statics, tangent, jnp.zeros_like(q))[1]
    reached = found.code == RESULTS.successful
    shift = implicit_tangent(statics, moved, q, reached, inverse)
    return (q, found, tangent), (shift, jax.tree.map(lambda _: None, found), None)


class _Tangent(ApproximateInverse):
    """The tangent stiffness of one configuration, eliminated."""

    factors: tuple[Float[Array, "dofs dofs"], Int[Array, " dofs"]]

    def solve(self, r: Float[Array, " dofs"]) -> Float[Array, " dofs"]:
        return jax.scipy.linalg.lu_solve(self.factors, r)

    def solve_transposed(self, r: Float[Array, " dofs"]) -> Float[Array, " dofs"]:
        return jax.scipy.linalg.lu_solve(self.factors, r, trans=1)


def _uncancelled_drive(statics: Statics, q: Array) -> Float[Array, " dofs"]:
    """`|A| |e| + |tau_ext|`: the force of all loads if none pulled against another.

    Loads that respond to the configuration are those of `q` under the part of the load that is
    applied: away from balance, that of a stiff cable means nothing.
    """
    drive = jnp.zeros_like(q) if statics.tau_ext is None else jnp.abs(statics.tau_ext)
    y, columns = loads.load_columns(statics.robot, q)
    if not y.size:
        return drive
    # channels come first among the loads
    responds = np.asarray(loads.responsive_mask(statics.robot))[: statics.u.size]
    u = jnp.where(responds, statics.command, statics.u)
    rest = jnp.zeros_like(y)
    effort = loads.load_efforts(statics.robot, y, rest, u, statics.memory)
    return drive + matmul(jnp.abs(columns), jnp.abs(effort))


def _approximate(statics: Statics, tangent: Array, drive: Array) -> tuple[Measure, _Tangent]:
    """Sizes are in sqrt(J); what matters is the energy that the robot can store."""
    rows = jnp.sum(jnp.abs(tangent), axis=1)
    limits = jnp.finfo(tangent.dtype)
    floor = jnp.maximum(limits.eps * jnp.max(rows), limits.tiny)
    weights = jnp.sqrt(jnp.maximum(rows, floor))
    chain = statics.mechanics.chain
    mass = total_mass(chain)
    weight = mass * jnp.sqrt(jnp.sum(chain.gravity**2))
    sizes = jnp.stack([jnp.sqrt(weight * jnp.sum(chain.lengths)), jnp.max(drive / weights)])
    scale = jnp.sum(jnp.where(jnp.isfinite(sizes), sizes, 0))
    # at a singular point, such as the onset of buckling, some direction is as good as another
    tangent = tangent + floor * jnp.eye(len(tangent), dtype=tangent.dtype)
    return Measure(weights, scale), _Tangent(jax.scipy.linalg.lu_factor(tangent))
