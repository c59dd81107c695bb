"""`python -m soromox`: simulates a tendon finger and fits its parameters to a recorded motion."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import numpy as np
from tqdm import tqdm

from soromox import demo


NOISE = 0.005  # [rad], standard deviation of the angles of the demo's own recording
MAX_ITERATIONS = 30


def main(arguments: Sequence[str] | None = None, num_samples: int = 201) -> int:
    """Runs the demo; returns the exit code, 2 for a file or folder that cannot be used."""
    options = _parser().parse_args(arguments)
    try:
        given = None if options.data is None else demo.read(options.data)
        options.output.mkdir(parents=True, exist_ok=True)
    except demo.RecordingError as error:
        return _fail(str(error), 2)
    except OSError as error:
        return _fail(f"the folder {options.output} cannot be made: {error.strerror}.", 2)

    print("A finger of three links, driven by two tendons, is simulated implicitly; moment arms,")
    print(
        "stiffness and offset are fitted to a recorded motion by gradients through the simulation."
    )
    try:
        with tqdm(total=MAX_ITERATIONS + 1, bar_format="{l_bar}{bar}| {elapsed}{postfix}") as bar:
            robot, recording, start, guess, fit = _run(given, num_samples, bar)
            bar.update(bar.total - bar.n)
    except demo.FitError as error:
        return _fail(str(error), 1)

    truth = demo.true_unknowns() if given is None else None
    print(f"\n{demo.table(guess, fit, truth)}\n")
    what = "converged" if fit.converged else "NOT converged"
    print(
        f"{what} in {fit.iterations} steps; measured minus fitted: {1e3 * fit.noise:.2f} mrad rms"
    )
    if not np.all(np.isfinite(fit.standard_error)):
        print("The recording does not determine the values without a standard error.")
    files = demo.write_data(options.output, recording, start, guess, fit)
    try:
        demo.write_figure(options.output / "figure.png", robot, recording, start, fit)
        files.append("figure.png")
    except ImportError:
        print("No figure without matplotlib; `pip install matplotlib` brings it.")
    print(f"{options.output.resolve()}: {', '.join(files)}")
    return 0


def _run(given: demo.Recording | None, num_samples: int, bar: tqdm):
    robot = demo.finger()
    t, u = demo.excitation(num_samples, 0.01) if given is None else (given.t, given.u)
    bar.set_description("compiling simulation and gradient")
    if given is None:
        q = demo.simulate(robot, t, u, demo.true_unknowns()).q
        noise = NOISE * np.random.default_rng(0).normal(size=q.shape)
        recording = demo.Recording(t, q + noise, u)
    else:
        recording = given
    guess = demo.start_values(demo.start_state(recording))
    start = demo.simulate(robot, t, u, guess)
    bar.set_description("fitting")
    bar.update()
    fit = demo.fit(robot, recording, guess, MAX_ITERATIONS, _reporter(bar))
    return robot, recording, start, guess, fit


def _reporter(bar: tqdm) -> Callable[[int, float], None]:
    def report(iteration: int, rms: float) -> None:
        bar.set_postfix_str(f"step {iteration}, {1e3 * rms:.2f} mrad rms", refresh=False)
        bar.update()

    return report


def _fail(message: str, code: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m soromox", description=__doc__)
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FILE",
        help="a recorded motion of such a finger, to be fitted in place of a simulated one: CSV with "
        "the columns t [s], q1, q2, q3 [rad], u1, u2 [N] and uniform times",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        default=Path("soromox-demo"),
        help="folder for figure and data (default: %(default)s)",
    )
    return parser


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    sys.exit(main())
