"""Roots of a residual, by chord and Newton iterations, with implicit derivatives."""

import abc
from typing import Any, NamedTuple, TypeGuard

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Bool, Float, Int, PyTree, Scalar

from soromox.numerics import matmul
from soromox.simulation.linear_solve import ApproximateInverse, linear_solve
from soromox.simulation.state import RESULTS
from soromox.simulation.tolerances import Tolerances


# Name of the solution for checkpoint policies: with it saved, no solve is repeated backwards.
SOLUTION = "soromox_solution"

MAX_CHORDS = 25
MAX_FULL_STEPS = 12
MAX_TRIALS = 60
SMALLEST_FRACTION = 2.0**-30


class Residual(eqx.Module):
    """Equations `value(x) = 0`. Its inputs are its fields: derivatives are taken through them."""

    @abc.abstractmethod
    def value(self, x: Float[Array, " n"]) -> Float[Array, " n"]: ...


class RenewableInverse(ApproximateInverse):
    """An approximate inverse that can follow the search by a linear model of what is stiff.

    The model holds some inner quantities of the residual (`problem.value_under(x, held)`) and
    predicts where its correction will bring them.
    """

    @abc.abstractmethod
    def unknown(self, problem: Any) -> tuple[Any, Any]:
        """What is held and what is predicted where nothing is: NaN."""

    @abc.abstractmethod
    def renewed(self, problem: Any, x: Float[Array, " n"], predicted: Any) -> tuple[Any, Any]:
        """The inverse at x with its model made at `predicted`, and what it holds."""

    @abc.abstractmethod
    def predict(self, problem: Any, held: Any, correction: Float[Array, " n"]) -> Any:
        """What the model expects after a correction."""

    @abc.abstractmethod
    def agrees(self, problem: Any, held: Any, predicted: Any) -> Bool[Array, ""]:
        """Whether the model holds where it expects to be: no kink lies between, for instance."""


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
    trials: Scalar  # Newton iterations, each with a Jacobian

    @property
    def result(self) -> Int[Array, ""]:
        return self.code.astype(jnp.int32)


@eqx.filter_jit
def _value(problem: Residual, x: Float[Array, " n"]) -> Float[Array, " n"]:
    """`problem.value(x)`, traced and linearised once however often a program does so."""
    return problem.value(x)


@eqx.filter_custom_jvp
def find_root(
    problem: Residual,
    start: Float[Array, " n"],
    measure: Measure,
    inverse: ApproximateInverse,
) -> tuple[Float[Array, " n"], Diagnostics]:
    """Solves `problem.value(x) = 0` to rounding; returns `start` where that fails.

    First a chord iteration with the approximate inverse P. If P can be renewed it is made anew at
    every point, and Broyden's update adds what steps have shown of the rest of the Jacobian. Where
    this contracts poorly, Newton's method: some full steps, which find their way across kinks such
    as that of a cable that tautens, though a step may be longer than the one before. Where they do
    not end, damped steps from the best point seen: a step is taken as far as the *next* Newton
    step, computed at its end, is shorter, which is scale-free.

    The matrix of a Newton step is `P J`, close to the identity in all but a few directions however
    stiff the system, so forward differences of `P value` give it well: the result depends on it
    only through the number of steps. One loop evaluates chords, trial points and differences at one
    place: a residual is the largest part of a compiled program, its derivative larger still.
    Lanes of a `vmap` that are done cost nothing once all are.

    The derivative is that of the implicit function theorem at the solution, in any mode and order.
    Where the search failed it is zero.
    """
    return search_root(problem, start, measure, inverse)


def search_root(
    problem: Residual,
    start: Float[Array, " n"],
    measure: Measure,
    inverse: ApproximateInverse,
) -> tuple[Float[Array, " n"], Diagnostics]:
    """`find_root` without its derivative, for use within one that has it."""
    arrays, static = eqx.partition(inverse, eqx.is_array)
    predicted = inverse.unknown(problem)[1] if _can_renew(inverse, problem) else None
    search = jax.lax.while_loop(
        lambda s: ~s.done & ~s.stuck & (s.trials < MAX_TRIALS),
        lambda s: _advance(problem, s, measure, static, arrays),
        _unstarted(start, arrays, predicted),
    )
    x, size = search.best, search.size
    scale = measure.scale + measure.size(x)
    residual = size / jnp.where(scale > 0, scale, 1)
    finite = jnp.isfinite(size) & jnp.all(jnp.isfinite(x))
    failure = jnp.where(finite, float(RESULTS.not_converged), float(RESULTS.non_finite))
    code = jnp.where(search.done, float(RESULTS.successful), failure).astype(start.dtype)
    x = jnp.where(search.done, x, start)
    counts = (search.chords.astype(start.dtype), search.trials.astype(start.dtype))
    return x, Diagnostics(code, residual, *counts)


@find_root.def_jvp
def _find_root_jvp(primals, tangents):
    problem, _, _, inverse = primals
    moved, *_ = tangents
    x, diagnostics = checkpoint_name(find_root(*primals), SOLUTION)
    found = diagnostics.code == RESULTS.successful
    shift = implicit_tangent(problem, moved, x, found, inverse)
    return (x, diagnostics), (shift, jax.tree.map(lambda _: None, diagnostics))


def implicit_tangent(
    problem: Residual,
    moved: Residual,
    x: Float[Array, " n"],
    found: Bool[Array, ""],
    inverse: ApproximateInverse,
) -> Float[Array, " n"] | None:
    """How the root x shifts when the inputs of `problem` move by `moved`; 0 where none was found."""
    if not jax.tree.leaves(moved):
        return None
    if _can_renew(inverse, problem):
        # a load that answers now may not have where the search began
        at_root = jax.lax.stop_gradient((problem, x))
        inverse = inverse.renewed(*at_root, inverse.unknown(problem)[1])[0]
    push = eqx.filter_jvp(lambda problem: _value(problem, x), (problem,), (moved,))[1]
    matvec = jax.linearize(lambda x: _value(problem, x), x)[1]
    shift = linear_solve(matvec, jnp.where(found, push, 0), inverse)
    return -jnp.where(found, shift, 0)


def _can_renew(inverse: ApproximateInverse, problem: Residual) -> TypeGuard[RenewableInverse]:
    """Whether there is anything to renew."""
    if not isinstance(inverse, RenewableInverse):
        return False
    return any(x.size for x in jax.tree.leaves(inverse.unknown(problem)[1]))


def harmless(given: Any) -> tuple[Bool[Array, ""], Any]:
    """Whether squares of these numbers are finite, and the numbers, or others where they are not.

    What is found from the others does not count; but its derivative, which is zero, would be the
    product of zero and NaN if it was computed from those given.
    """
    limit = lambda x: jnp.sqrt(jnp.finfo(x.dtype).max)
    is_usable = jnp.stack([jnp.all(jnp.abs(x) < limit(x)) for x in jax.tree.leaves(given)]).all()
    # single numbers are lengths of steps
    return is_usable, jax.tree.map(lambda x: jnp.where(is_usable, x, float(x.ndim == 0)), given)


class _Search(NamedTuple):
    x: Float[Array, " n"]  # where the chord is, or the point that Newton's method tries
    correction: Float[Array, " n"]  # `-P value(x)`, once known
    matrix: Float[Array, "n n"]  # `P J` at `x`, its first `column` columns; before: Broyden's
    column: Int[Array, ""]  # -1: `x` itself is to be evaluated
    best: Float[Array, " n"]  # best point taken; the solution once done
    size: Scalar  # of the correction or Newton step at `best`
    previous: Scalar  # size of the chord or of the full Newton step before
    step: Float[Array, " n"]  # Newton step from `best`; before: the latest step
    fraction: Scalar  # of the step that is tried
    inverse: PyTree  # P, its arrays
    predicted: PyTree  # by a renewed P; `None` if it cannot be renewed
    phase: Int[Array, ""]
    chords: Int[Array, ""]
    trials: Int[Array, ""]
    done: Bool[Array, ""]
    stuck: Bool[Array, ""]


_CHORD, _NEWTON = 0, 1


def _unstarted(start: Float[Array, " n"], inverse: PyTree, predicted: PyTree) -> _Search:
    infinite = jnp.asarray(jnp.inf, start.dtype)
    none, no = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
    return _Search(
        x=start,
        correction=jnp.zeros_like(start),
        matrix=jnp.eye(len(start), dtype=start.dtype),
        column=jnp.asarray(-1, jnp.int32),
        best=start,
        size=infinite,
        previous=infinite,
        step=jnp.zeros_like(start),
        fraction=jnp.ones((), start.dtype),
        inverse=inverse,
        predicted=predicted,
        phase=none,
        chords=none,
        trials=none,
        done=no,
        stuck=no,
    )


def _advance(
    problem: Residual,
    search: _Search,
    measure: Measure,
    static: ApproximateInverse,
    first: PyTree,
) -> _Search:
    """One evaluation of the residual, and what follows from it."""
    n, dtype = len(search.x), search.x.dtype
    is_renewable = search.predicted is not None
    scale = measure.scale + measure.size(search.x)
    scale = jnp.where((scale > 0) & jnp.isfinite(scale), scale, 1)
    offsets = jnp.finfo(dtype).eps ** 0.5 * scale / measure.weights
    chosen = jnp.arange(n, dtype=jnp.int32) == search.column
    offset = jnp.where(chosen, offsets, 0)
    residual, held, agrees = lambda x: _value(problem, x), None, jnp.asarray(True)
    if is_renewable:

        def renew(search: _Search) -> tuple[PyTree, PyTree]:
            inverse = eqx.combine(search.inverse, static)
            renewed, held = inverse.renewed(problem, search.x, search.predicted)
            return eqx.filter(renewed, eqx.is_array), held

        unknown = eqx.combine(search.inverse, static).unknown(problem)[0]
        renews = search.phase == _CHORD
        arrays, held = jax.lax.cond(renews, renew, lambda s: (s.inverse, unknown), search)
        search = search._replace(inverse=arrays)
        residual = lambda x: problem.value_under(x, held)
    inverse = eqx.combine(search.inverse, static)
    correction = -inverse.solve(residual(search.x + offset))
    if is_renewable:
        predicted = inverse.predict(problem, held, correction)
        agrees = inverse.agrees(problem, held, predicted)
        search = search._replace(predicted=predicted)

    at_point = search.column < 0
    column = (search.correction - correction) / jnp.where(at_point, 1, jnp.sum(offset))
    matrix = jnp.where(chosen[None, :], column[:, None], search.matrix)
    is_finite = jnp.all(jnp.isfinite(correction))
    probing = search._replace(
        matrix=matrix,
        correction=jnp.where(at_point, correction, search.correction),
        # nothing can be learned around a point without a finite value
        column=jnp.where(at_point & ~is_finite, n, search.column + 1),
    )
    newton = jax.lax.cond(
        probing.column == n, lambda s: _newton_step(s, measure), lambda s: s, probing
    )
    if is_renewable:
        search, correction = _secant_step(search, correction, measure)
    chord = _chord_step(search, correction, measure, agrees, is_renewable)
    if is_renewable:
        # what was renewed last, far away perhaps, is of no use to Newton's method
        leaves = chord.phase == _NEWTON
        kept = jax.tree.map(lambda a, b: jnp.where(leaves, a, b), first, chord.inverse)
        chord = chord._replace(inverse=kept)
    is_newton = search.phase == _NEWTON
    return jax.tree.map(lambda a, b: jnp.where(is_newton, a, b), newton, chord)


def _secant_step(
    search: _Search, correction: Float[Array, " n"], measure: Measure
) -> tuple[_Search, Float[Array, " n"]]:
    """Broyden's "good" update of an inverse Jacobian (1965, doi:10.2307/2003941), and its step.

    The correction is that of a preconditioned residual, so the matrix starts as the identity; it
    does so anew where steps do not shrink, as what was learned then is not of this neighbourhood.
    """
    weigh = lambda x: measure.weights * x
    last, step = weigh(search.step), matmul(search.matrix, correction)
    length, overlap = last @ last, last @ weigh(step)
    shrinks = jnp.sum(weigh(step) ** 2) < length / 4
    row = matmul(weigh(last), search.matrix) / jnp.where(shrinks, length - overlap, 1)
    learned = search.matrix + jnp.outer(step, row)
    step = step * length / jnp.where(shrinks, length - overlap, 1)
    step = jnp.where(shrinks, step, correction)
    matrix = jnp.where(shrinks, learned, jnp.eye(len(step), dtype=step.dtype))
    return search._replace(matrix=matrix, step=step), step


def _chord_step(
    search: _Search,
    correction: Float[Array, " n"],
    measure: Measure,
    agrees: Bool[Array, ""],
    is_renewable: bool,
) -> _Search:
    size = measure.size(correction)
    x = search.x + correction
    ratio = size / search.previous
    done = Tolerances.of(x.dtype).reached(size, ratio, measure.scale + measure.size(x)) & agrees
    better = done | (size < search.size)
    best = jnp.where(done, x, jnp.where(better, search.x, search.best))
    chords = search.chords + 1
    if is_renewable:
        fails = ~jnp.isfinite(size)
    else:
        fails = ~(ratio < 0.7)
    leaves = ~done & (fails | (chords >= MAX_CHORDS))
    return search._replace(
        x=jnp.where(leaves, best, x),
        best=best,
        size=jnp.where(leaves, jnp.inf, jnp.where(better, size, search.size)),
        previous=jnp.where(leaves, jnp.inf, size),
        phase=jnp.where(leaves, _NEWTON, search.phase).astype(jnp.int32),
        step=jnp.where(leaves, 0, search.step),
        chords=chords,
        done=done,
    )


def _newton_step(search: _Search, measure: Measure) -> _Search:
    x = search.x
    step = jnp.linalg.solve(search.matrix, search.correction)
    size = jnp.where(jnp.all(jnp.isfinite(search.correction)), measure.size(step), jnp.nan)
    is_finite = jnp.isfinite(size)
    is_full = search.fraction == 1
    shorter = is_finite & (size <= (1 - search.fraction / 4) * search.size)
    ratio = jnp.where(is_full, size / search.previous, 1)
    done = Tolerances.of(x.dtype).reached(size, ratio, measure.scale + measure.size(x))
    taken = done | shorter
    best = jnp.where(done, x + step, jnp.where(taken, x, search.best))
    best_step = jnp.where(taken, step, search.step)

    free = is_finite & is_full & (search.trials < MAX_FULL_STEPS)
    smaller = search.fraction * jnp.where(is_finite, 0.5, 0.125)
    fraction = jnp.where(taken, jnp.minimum(4 * search.fraction, 1), smaller)
    fraction = jnp.where(free, 1, fraction).astype(x.dtype)
    damped = best + fraction * best_step
    return search._replace(
        x=jnp.where(free & ~done, x + step, damped),
        column=jnp.asarray(-1, jnp.int32),
        best=best,
        size=jnp.where(taken, size, search.size),
        previous=size,
        step=best_step,
        fraction=fraction,
        trials=search.trials + 1,
        done=done,
        stuck=fraction < SMALLEST_FRACTION,
    )
