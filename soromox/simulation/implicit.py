r"""One implicit step of any scheme: a scan over its stages.

Stage i has the duration $h = \gamma\,\Delta t$, a start built from earlier stages,
$v_0 = v_n + \Delta t \sum_{j<i} a_{ij}\,a_j$ and $q_0 = q_n + \Delta t \sum_{j<i} a_{ij}\,v_j$, and
one unknown, its acceleration. Backward difference formulas are one stage with
$v_0 = \sum_j \alpha_j v_{n-j}$ and $q_0$ alike.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Scalar

from soromox.actuation import ActuatedHost, loads
from soromox.chain import Mechanics
from soromox.chain.charts import change_chart
from soromox.simulation.root import Diagnostics, find_root, harmless
from soromox.simulation.schemes import AbstractScheme
from soromox.simulation.stage import Stage
from soromox.simulation.stage_inverse import approximate
from soromox.simulation.state import RESULTS


# control and external force at a fraction of the step (the node of a stage)
Inputs = Callable[[Scalar], tuple[Float[Array, " channels"], Float[Array, " dofs"] | None]]


class History(NamedTuple):
    """The points before the present one, latest first, of a multi-step scheme."""

    q: Float[Array, "past dofs"]
    qd: Float[Array, "past dofs"]
    states: Float[Array, "past states"]
    count: Int[Array, ""]  # how many of them are filled, a step `dt` apart
    dt: Scalar


class Point(NamedTuple):
    """What goes from step to step."""

    q: Float[Array, " dofs"]
    qd: Float[Array, " dofs"]
    states: Float[Array, " states"]  # of stateful laws
    qdd: Float[Array, " dofs"]  # where the next search starts; no result depends on it
    history: History | None
    result: Int[Array, ""]
    residual: Scalar


def start(
    scheme: AbstractScheme, q: Array, qd: Array, states: Array, history: History | None = None
) -> Point:
    """A point without (or with) history."""
    if scheme.multistep is None:
        history = None
    elif history is None:
        count = len(scheme.multistep.past) - 1
        past = [jnp.zeros((count, len(x)), q.dtype) for x in (q, qd, states)]
        history = History(*past, jnp.zeros((), jnp.int32), jnp.zeros((), q.dtype))
    zero = jnp.zeros((), q.dtype)
    return Point(q, qd, states, jnp.zeros_like(q), history, jnp.zeros((), jnp.int32), zero)


def step(
    robot: ActuatedHost,
    mechanics: Mechanics,
    scheme: AbstractScheme,
    point: Point,
    dt: Scalar,
    inputs: Inputs,
) -> Point:
    """The point one step later; the same point, with a result code, if the step fails."""
    table = scheme.tableau
    count = table.num_stages
    dtype = point.q.dtype
    base_q, base_qd, base_z = point.q, point.qd, point.states
    diagonal = jnp.asarray(table.diagonal, dtype)
    nodes = jnp.asarray(table.nodes, dtype)
    active = None
    if scheme.multistep is not None:
        # with enough history one stage is left of the tableau that starts the scheme
        past = len(scheme.multistep.past) - 1
        same = jnp.abs(dt - point.history.dt) <= 1e-6 * dt
        ready = same & (point.history.count == past)
        base_q = jnp.where(ready, _combine(scheme, point.q, point.history.q), base_q)
        base_qd = jnp.where(ready, _combine(scheme, point.qd, point.history.qd), base_qd)
        base_z = jnp.where(ready, _combine(scheme, base_z, point.history.states), base_z)
        diagonal = jnp.where(ready, scheme.multistep.diagonal, diagonal).astype(dtype)
        nodes = jnp.where(ready, 1, nodes).astype(dtype)
        active = ~ready | (jnp.arange(count) == 0)
    h = diagonal * dt
    at_nodes = [inputs(nodes[i]) for i in range(count)]
    is_valid = jnp.stack([loads.controls_valid(robot, u) for u, _ in at_nodes]).all()
    given = (base_q, base_qd, base_z, at_nodes)
    is_usable, ((base_q, base_qd, base_z, at_nodes), h, dt) = harmless((given, h, dt))

    def stage_at(q0: Array, qd0: Array, z0: Array, u: Array, tau_ext: Array | None) -> Stage:
        differs = scheme.transmission_rate == "difference" and any(loads.responsive_mask(robot))
        y0 = loads.load_coordinates(robot, q0) if differs else None
        return Stage(robot, mechanics, h, q0, qd0, y0, z0, u, tau_ext)

    inverse, measure = approximate(stage_at(base_q, base_qd, base_z, *at_nodes[0]))

    def solve(carry: "_Stages", row: Array, u: Array, tau_ext: Array | None, place: Any):
        q0 = base_q + dt * (row @ carry.velocities)
        qd0 = base_qd + dt * (row @ carry.accelerations)
        z0 = base_z + dt * (row @ carry.state_rates)
        stage = stage_at(q0, qd0, z0, u, tau_ext)
        a, found = find_root(stage, carry.last[2], measure, inverse)
        q, qd = stage.motion(a)
        z, settled = stage.final_states(a)
        return _Stages(
            carry.velocities.at[place].set(qd),
            carry.accelerations.at[place].set(a),
            carry.state_rates.at[place].set((z - z0) / h),
            (q, qd, a, z),
            carry.settled & settled,
            _worse(carry.found, found),
        )

    zeros = jnp.zeros((count, len(base_q)), dtype)
    zero = jnp.zeros((), dtype)
    carry = _Stages(
        zeros,
        zeros,
        jnp.zeros((count, len(base_z)), dtype),
        (base_q, base_qd, point.qdd, base_z),
        jnp.asarray(True),
        Diagnostics(zero, zero, zero, zero),
    )
    rows = jnp.asarray([(*row, *[0.0] * (count - len(row))) for row in table.lower], dtype)
    if count == 1:
        carry = solve(carry, rows[0], *at_nodes[0], 0)
    else:
        u = jnp.stack([u for u, _ in at_nodes])
        tau_ext = None if at_nodes[0][1] is None else jnp.stack([tau for _, tau in at_nodes])

        def body(carry: _Stages, xs: tuple) -> tuple[_Stages, None]:
            row, u, tau_ext, place, active = xs
            if active is None:
                return solve(carry, row, u, tau_ext, place), None
            return jax.lax.cond(
                active, lambda c: solve(c, row, u, tau_ext, place), lambda c: c, carry
            ), None

        carry = jax.lax.scan(body, carry, (rows, u, tau_ext, np.arange(count), active))[0]

    q, qd, qdd, z = carry.last
    if table.weights is not None:
        weights = jnp.asarray(table.weights, dtype)
        q = base_q + dt * (weights @ carry.velocities)
        qd = base_qd + dt * (weights @ carry.accelerations)
        z = base_z + dt * (weights @ carry.state_rates)
    q_chart, qd_chart = change_chart(mechanics.chain, q, qd)
    z_valid = loads.states_valid(robot, point.states, at_nodes[0][0], point.states)
    z_valid = z_valid & loads.states_valid(robot, z, at_nodes[-1][0], point.states)
    finite = is_usable & jnp.all(jnp.isfinite(jnp.concatenate([q_chart, qd_chart, z])))
    code = jnp.where(carry.settled, carry.found.result, RESULTS.not_converged)
    code = jnp.where(z_valid, code, RESULTS.rejected_command)
    code = jnp.where(finite, code, RESULTS.non_finite)
    code = jnp.where(is_valid, code, RESULTS.rejected_command).astype(jnp.int32)
    history = None
    if scheme.multistep is not None:
        history = _remember(point, dt, jnp.all(q_chart == q))
    reached = Point(q_chart, qd_chart, z, qdd, history, code, carry.found.residual)
    kept = point._replace(result=code, residual=carry.found.residual)
    return keep_where(code == RESULTS.successful, reached, kept)


def keep_where(predicate: Bool[Array, ""], new: Any, old: Any) -> Any:
    """`new` where true, else `old`, over a tree."""
    return jax.tree.map(lambda a, b: jnp.where(predicate, a, b), new, old)


class _Stages(NamedTuple):
    velocities: Float[Array, "stages dofs"]
    accelerations: Float[Array, "stages dofs"]
    state_rates: Float[Array, "stages states"]
    last: tuple[Array, Array, Array, Array]  # q, qd, qdd, states of the latest stage
    settled: Bool[Array, ""]  # whether the states were found
    found: Diagnostics


def _worse(a: Diagnostics, b: Diagnostics) -> Diagnostics:
    return Diagnostics(
        jnp.maximum(a.code, b.code),
        jnp.maximum(a.residual, b.residual),
        a.chords + b.chords,
        a.trials + b.trials,
    )


def _combine(scheme: AbstractScheme, present: Array, past: Array) -> Array:
    first, *others = scheme.multistep.past
    return first * present + jnp.asarray(others, present.dtype) @ past


def _remember(point: Point, dt: Scalar, same_chart: Bool[Array, ""]) -> History:
    history = point.history
    same = jnp.abs(dt - history.dt) <= 1e-6 * dt
    # a jump of the rotation chart, or a new `dt`, starts the scheme anew
    count = jnp.where(same, jnp.minimum(history.count + 1, len(history.q)), 1)
    return History(
        jnp.concatenate([point.q[None], history.q[:-1]]),
        jnp.concatenate([point.qd[None], history.qd[:-1]]),
        jnp.concatenate([point.states[None], history.states[:-1]]),
        jnp.where(same_chart, count, 0).astype(jnp.int32),
        dt,
    )
