"""Roots of a residual, found by two phases of Newton's method, with implicit derivatives."""

import abc
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Bool, Float, Int, Scalar

from soromox.simulation.linear_solve import ApproximateInverse, linear_solve
from soromox.simulation.state import RESULTS
from soromox.simulation.tolerances import Tolerances


# Name of the solution for checkpoint policies: with it saved, no solve is repeated backwards.
SOLUTION = "soromox_solution"

MAX_CHORDS = 25
MAX_TRIALS = 80
SMALLEST_FRACTION = 2.0**-30


class Residual(eqx.Module):
    """Equations `value(x) = 0`. Its inputs are its fields: derivatives are taken through them."""

    @abc.abstractmethod
    def value(self, x: Float[Array, " n"]) -> Float[Array, " n"]: ...


class Measure(eqx.Module):
    """What counts as small: `x` has the size `max |weights x|`, compared with `scale` plus its own.

    Never differentiated.
    """

    weights: Float[Array, " n"]
    scale: Scalar

    def size(self, x: Float[Array, " n"]) -> Scalar:
        return jnp.max(jnp.abs(self.weights * x))


class Diagnostics(NamedTuple):
    """How a search ended. Floats, because they leave a function with a derivative rule."""

    code: Scalar  # of `RESULTS`
    residual: Scalar  # last correction over scale
    chords: Scalar  # evaluations with the approximate inverse
    trials: Scalar  # evaluations with the exact Jacobian

    @property
    def result(self) -> Int[Array, ""]:
        return self.code.astype(jnp.int32)


@eqx.filter_custom_jvp
def find_root(
    problem: Residual,
    start: Float[Array, " n"],
    measure: Measure,
    inverse: ApproximateInverse | None,
) -> tuple[Float[Array, " n"], Diagnostics]:
    """Solves `problem.value(x) = 0` to rounding; returns `start` where that fails.

    First a chord iteration with the approximate inverse, if there is one. Where it contracts poorly, Newton's method
    with the exact Jacobian and damped steps: a step is taken as far as the *next* Newton step,
    computed at its end, is shorter (scale-free, and kinks such as slack cables do not stall it).
    The phases are two loops, so that under `vmap` neither costs anything once all lanes are done.

    The derivative is that of the implicit function theorem at the solution, in any mode and order.
    Where the search failed it is zero.
    """
    search = _unstarted(start)
    if inverse is not None:
        search = _chord_phase(problem, search, measure, inverse)
    newton = _newton_phase(problem, search, measure)
    x, size = newton.best, newton.size
    scale = measure.scale + measure.size(x)
    residual = size / jnp.where(scale > 0, scale, 1)
    finite = jnp.isfinite(size) & jnp.all(jnp.isfinite(x))
    failure = jnp.where(finite, float(RESULTS.not_converged), float(RESULTS.non_finite))
    code = jnp.where(newton.done, float(RESULTS.successful), failure).astype(start.dtype)
    x = jnp.where(newton.done, x, start)
    counts = (newton.chords.astype(start.dtype), newton.trials.astype(start.dtype))
    return x, Diagnostics(code, residual, *counts)


@find_root.def_jvp
def _find_root_jvp(primals, tangents):
    problem, _, _, inverse = primals
    moved, *_ = tangents
    x, diagnostics = checkpoint_name(find_root(*primals), SOLUTION)
    no_tangents = jax.tree.map(lambda _: None, diagnostics)
    if not jax.tree.leaves(moved):
        return (x, diagnostics), (None, no_tangents)
    found = diagnostics.code == RESULTS.successful
    push = eqx.filter_jvp(lambda problem: problem.value(x), (problem,), (moved,))[1]
    matvec = jax.linearize(problem.value, x)[1]
    shift = linear_solve(matvec, jnp.where(found, push, 0), inverse)
    return (x, diagnostics), (-jnp.where(found, shift, 0), no_tangents)


class _Search(NamedTuple):
    x: Float[Array, " n"]
    best: Float[Array, " n"]  # where the correction was smallest; the solution once done
    size: Scalar  # of the correction at `best`
    previous: Scalar  # size of the correction before
    step: Float[Array, " n"]  # Newton step from `best`
    fraction: Scalar  # of the step that is tried next
    chords: Int[Array, ""]
    trials: Int[Array, ""]
    done: Bool[Array, ""]
    stuck: Bool[Array, ""]


def _unstarted(start: Float[Array, " n"]) -> _Search:
    infinite = jnp.asarray(jnp.inf, start.dtype)
    none, no = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
    return _Search(
        x=start,
        best=start,
        size=infinite,
        previous=infinite,
        step=jnp.zeros_like(start),
        fraction=jnp.ones((), start.dtype),
        chords=none,
        trials=none,
        done=no,
        stuck=no,
    )


def _chord_phase(
    problem: Residual, search: _Search, measure: Measure, inverse: ApproximateInverse
) -> _Search:
    tolerances = Tolerances.of(search.x.dtype)

    def body(search: _Search) -> _Search:
        correction = -inverse.solve(problem.value(search.x))
        size = measure.size(correction)
        x = search.x + correction
        ratio = size / search.previous
        done = tolerances.reached(size, ratio, measure.scale + measure.size(x))
        better = done | (size < search.size)
        return search._replace(
            x=x,
            best=jnp.where(done, x, jnp.where(better, search.x, search.best)),
            size=jnp.where(better, size, search.size),
            previous=size,
            chords=search.chords + 1,
            done=done,
            stuck=~done & ~(ratio < 0.7),
        )

    return jax.lax.while_loop(lambda s: ~s.done & ~s.stuck & (s.chords < MAX_CHORDS), body, search)


def _newton_phase(problem: Residual, search: _Search, measure: Measure) -> _Search:
    tolerances = Tolerances.of(search.x.dtype)
    identity = jnp.eye(search.x.shape[0], dtype=search.x.dtype)

    def body(search: _Search) -> _Search:
        x = search.best + search.fraction * search.step
        jvp = lambda column: jax.jvp(problem.value, (x,), (column,))
        r, jacobian = jax.vmap(jvp, out_axes=(None, 1))(identity)
        step = -jnp.linalg.solve(jacobian, r)
        size = measure.size(step)
        shorter = jnp.isfinite(size) & (size <= (1 - search.fraction / 4) * search.size)
        ratio = jnp.where(search.fraction == 1, size / search.size, 1)
        done = tolerances.reached(size, ratio, measure.scale + measure.size(x))
        taken = done | shorter
        smaller = search.fraction * jnp.where(jnp.isfinite(size), 0.5, 0.125)
        fraction = jnp.where(taken, jnp.minimum(4 * search.fraction, 1), smaller)
        return search._replace(
            best=jnp.where(done, x + step, jnp.where(taken, x, search.best)),
            size=jnp.where(taken, size, search.size),
            step=jnp.where(taken, step, search.step),
            fraction=fraction.astype(x.dtype),
            trials=search.trials + 1,
            done=done,
            stuck=fraction < SMALLEST_FRACTION,
        )

    infinite = jnp.asarray(jnp.inf, search.x.dtype)
    search = search._replace(
        size=jnp.where(search.done, search.size, infinite), stuck=jnp.zeros((), bool)
    )
    return jax.lax.while_loop(lambda s: ~s.done & ~s.stuck & (s.trials < MAX_TRIALS), body, search)
