"""A nonlinear least-squares fit by gradients through the simulation."""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, Scalar

from soromox.demo.finger import Unknowns, with_unknowns
from soromox.demo.recording import Recording
from soromox.simulation import RESULTS, ImplicitMidpoint, SystemState
from soromox.simulation.state import first_failure
from soromox.systems import Pendulum


LONGEST_STEP = 5e-3  # [s]
INDETERMINATE = 1e-8  # relative singular value below which a direction is not determined


class FitError(RuntimeError):
    """A simulation that failed at the start values; the message is one line."""


class Motion(NamedTuple):
    """Joint angles of a simulation, and how they depend on the unknowns."""

    q: Float[np.ndarray, "times 3"]
    jacobian: Float[np.ndarray, "times 3 unknowns"]
    result: Int[np.ndarray, " times"]

    @property
    def succeeded(self) -> bool:
        return bool(np.all(self.result == RESULTS.successful) and np.all(np.isfinite(self.q)))


class Fit(NamedTuple):
    unknowns: Unknowns
    standard_error: Float[np.ndarray, " unknowns"]  # infinite where nothing is determined
    singular_values: Float[np.ndarray, " unknowns"]  # of the Jacobian with columns of length 1
    noise: float  # [rad], standard deviation of what is left
    motion: Motion
    iterations: int
    converged: bool


def simulate(
    robot: Pendulum,
    t: Float[np.ndarray, " times"],
    u: Float[np.ndarray, "times 2"],
    unknowns: Unknowns,
) -> Motion:
    """The motion at uniform times, under tensions that hold from one to the next."""
    dt = float(t[-1] - t[0]) / (len(t) - 1)
    substeps = max(1, math.ceil(dt / LONGEST_STEP - 1e-6))
    held = np.repeat(u[:-1], substeps, axis=0)
    found = _simulate(unknowns, robot, held, dt / substeps, substeps)
    return Motion(*(np.asarray(x) for x in found))


@partial(jax.jit, static_argnames="substeps")
def _simulate(
    unknowns: Unknowns, robot: Pendulum, u: Float[Array, "steps 2"], dt: Scalar, substeps: int
) -> tuple[Array, Array, Array]:
    def angles(unknowns: Unknowns) -> tuple[Array, tuple[Array, Array]]:
        trajectory = with_unknowns(robot, unknowns).rollout_to(
            SystemState(t=0.0, y=unknowns.start),
            u=u,
            num_steps=len(u),
            dt=dt,
            save_every=substeps,
            scheme=ImplicitMidpoint(),
        )
        return trajectory.q, (trajectory.q, trajectory.result)

    by_field, (q, result) = jax.jacfwd(angles, has_aux=True)(unknowns)
    return q, jnp.concatenate(jax.tree.leaves(by_field), axis=-1), result


def start_state(recording: Recording) -> Float[np.ndarray, "6"]:
    """Angles and velocities at the first sample, from a parabola through the first few."""
    few = slice(0, 7)
    curve = np.polynomial.polynomial.polyfit(recording.t[few] - recording.t[0], recording.q[few], 2)
    return np.concatenate([curve[0], curve[1]])


def fit(
    robot: Pendulum,
    recording: Recording,
    guess: Unknowns,
    max_iterations: int = 30,
    report: Callable[[int, float], None] = lambda iteration, rms: None,
) -> Fit:
    """Levenberg-Marquardt; damping is relative to the columns of the Jacobian, so units do not matter.

    Raises `FitError` if the simulation fails at the guess.
    """
    x, unravel = ravel_pytree(guess)
    x = np.asarray(x)
    size = len(x)
    motion = simulate(robot, recording.t, recording.u, guess)
    if not motion.succeeded:
        failure = first_failure(jnp.asarray(motion.result))
        t = recording.t[failure[0]] if failure else recording.t[0]
        raise FitError(f"the simulation of this recording fails at t = {t:g} s.")
    damping, converged, iteration = 1e-2, False, 0
    for iteration in range(1, max_iterations + 1):
        r = (motion.q - recording.q).ravel()
        J, scale = _scaled(motion.jacobian)
        step = np.linalg.lstsq(
            np.concatenate([J, math.sqrt(damping) * np.eye(size)]),
            np.concatenate([r, np.zeros(size)]),
        )[0]
        trial = x - step / scale
        moved = simulate(robot, recording.t, recording.u, unravel(jnp.asarray(trial)))
        cost = float(np.sum((moved.q - recording.q) ** 2)) if moved.succeeded else math.inf
        best = float(r @ r)
        report(iteration, math.sqrt(min(cost, best) / r.size))
        converged = abs(best - cost) <= 1e-8 * best
        if cost < best:
            x, motion, damping = trial, moved, max(damping / 10, 1e-12)
        else:
            damping *= 10
        if converged or damping > 1e10:
            break
    return _fit(unravel(jnp.asarray(x)), motion, recording, iteration, converged)


def _scaled(jacobian: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The Jacobian as a matrix with columns of length 1 (or 0), and the lengths."""
    J = jacobian.reshape(-1, jacobian.shape[-1])
    scale = np.linalg.norm(J, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    return J / scale, scale


def _fit(
    unknowns: Unknowns, motion: Motion, recording: Recording, iterations: int, converged: bool
) -> Fit:
    r = motion.q - recording.q
    J, scale = _scaled(motion.jacobian)
    _, singular, rows = np.linalg.svd(J, full_matrices=False)
    noise = math.sqrt(np.sum(r**2) / (r.size - J.shape[1]))
    weak = singular <= INDETERMINATE * singular[0]
    # in the covariance s^2 (J^T J)^-1, a direction without effect has an infinite variance
    variance = np.sum((rows / np.where(weak, np.inf, singular)[:, None]) ** 2, axis=0)
    lost = np.any(weak[:, None] & (np.abs(rows) > 1e-6), axis=0)
    error = noise * np.where(lost, np.inf, np.sqrt(variance)) / scale
    return Fit(unknowns, error, singular, noise, motion, iterations, converged)
