"""Steps whose length follows an estimate of their error."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Scalar

from soromox.actuation import ActuatedHost
from soromox.chain import Mechanics
from soromox.numerics.checks import check_positive, whole_number
from soromox.simulation import implicit
from soromox.simulation.implicit import Inputs, Point, keep_where
from soromox.simulation.schemes import AbstractScheme
from soromox.simulation.state import RESULTS


SMALLEST_PART = 2.0**-24  # of a step


class Adaptive(eqx.Module):
    """Each step of a rollout in substeps that keep an estimate of their error within a tolerance.

    By step doubling: a substep is taken once as a whole and once in two halves. The difference over
    `2^order - 1` estimates the error of the halves, which are kept. It may be `atol + rtol |x|` for
    an entry x of `y`, as the root mean square over all entries. A substep that does not converge is
    shortened too. None is longer than `dt`, so that samples and controls keep their grid.

    Derivatives are those of the motion with the substeps that were taken.

    - `rtol`, `atol`: tolerances; `atol` in the units of `y`.
    - `max_substeps`: per `dt`, refused ones included; a step that needs more ends with the code
      `too_many_substeps`.
    """

    rtol: float = eqx.field(static=True, default=1e-4)
    atol: float = eqx.field(static=True, default=1e-6)
    max_substeps: int = eqx.field(static=True, default=64)

    def __check_init__(self):
        check_positive(self.rtol, "rtol")
        check_positive(self.atol, "atol")
        whole_number(self.max_substeps, "`max_substeps` must be a positive integer")


class _Progress(NamedTuple):
    point: Point
    part: Scalar  # of the step that is done
    substep: Scalar  # the part that is tried next
    ended: Bool[Array, ""]


def substeps(
    robot: ActuatedHost,
    mechanics: Mechanics,
    scheme: AbstractScheme,
    point: Point,
    dt: Scalar,
    inputs: Inputs,
    first: Scalar,
    adaptive: Adaptive,
) -> tuple[Point, Scalar]:
    """The point one step later, and the part of a step to try first in the next one.

    A scan over `max_substeps`, so that it can be differentiated in either direction; once all
    robots of a batch are done, the rest of it costs nothing.
    """
    dtype = point.q.dtype
    order = scheme.order

    def attempt(progress: _Progress) -> _Progress:
        remaining = 1 - progress.part
        is_last = progress.substep > remaining - SMALLEST_PART
        part = jnp.where(is_last, remaining, progress.substep)

        def one(latest: Point, place: Array) -> tuple[Point, Point]:
            """The whole, then the first half, then the second."""
            base = keep_where(place == 2, latest, progress.point)
            length = jnp.where(place == 0, part, part / 2)
            offset = progress.part + jnp.where(place == 2, part / 2, 0)
            at = lambda node: inputs(offset + node * length)
            new = implicit.step(robot, mechanics, scheme, base, length * dt, at)
            return new, new

        halves, tried = jax.lax.scan(one, progress.point, np.arange(3))
        results = tried.result
        whole = jax.tree.map(lambda x: x[0], tried)
        error = _error(progress.point, whole, halves, adaptive) / (2**order - 1)
        converged = jnp.all(results == RESULTS.successful)
        accepted = converged & (error <= 1)
        growth = 0.9 * jnp.maximum(error, 1e-8) ** (-1 / (order + 1))
        growth = jnp.clip(growth, 0.2, jnp.where(accepted, 5, 0.9))
        growth = jnp.where(converged & jnp.isfinite(error), growth, 0.25)
        substep = part * growth
        # a last substep that was cut short says little about those to come
        substep = jnp.where(accepted & is_last, jnp.maximum(substep, progress.substep), substep)
        code = jnp.where(converged, RESULTS.too_many_substeps, jnp.max(results))
        hopeless = (substep < SMALLEST_PART) | jnp.any(results == RESULTS.rejected_command)
        reached = halves._replace(
            residual=jnp.maximum(progress.point.residual, jnp.max(tried.residual))
        )
        kept = progress.point._replace(result=code.astype(jnp.int32))
        return _Progress(
            keep_where(accepted, reached, kept),
            jnp.where(accepted, jnp.where(is_last, 1, progress.part + part), progress.part),
            jnp.clip(substep, 0, 1),
            jnp.where(accepted, is_last, hopeless),
        )

    def slot(progress: _Progress, _: None) -> tuple[_Progress, None]:
        anyone = eqx.internal.unvmap_any(~progress.ended)
        going = lambda p: keep_where(p.ended, p, attempt(p))
        return jax.lax.cond(anyone, going, lambda p: p, progress), None

    fresh = point._replace(residual=jnp.zeros((), dtype))
    start = _Progress(fresh, jnp.zeros((), dtype), first, jnp.asarray(False))
    end = jax.lax.scan(slot, start, None, adaptive.max_substeps)[0]
    last, complete = end.point, end.part == 1
    code = jnp.where(last.result == RESULTS.successful, RESULTS.too_many_substeps, last.result)
    kept = point._replace(result=code.astype(jnp.int32), residual=last.residual)
    return keep_where(complete, last, kept), end.substep


def _error(start: Point, whole: Point, halves: Point, adaptive: Adaptive) -> Scalar:
    """Difference of two results, relative to what may be; its derivative is never taken."""
    state = lambda point: jax.lax.stop_gradient(jnp.concatenate([point.q, point.qd, point.states]))
    a, b = state(whole), state(halves)
    size = jnp.maximum(jnp.abs(state(start)), jnp.abs(b))
    ratios = (a - b) / (adaptive.atol + adaptive.rtol * size)
    return jnp.sqrt(jnp.mean(ratios**2))
