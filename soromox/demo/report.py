"""What the demo leaves behind: a table, data files and a figure."""

from pathlib import Path

import jax
import numpy as np

from soromox.demo.finger import QUANTITIES, Unknowns
from soromox.demo.fitting import Fit, Motion
from soromox.demo.recording import COLUMNS, Recording, write
from soromox.systems import Pendulum


JOINTS = COLUMNS[1:4]
COLORS = ("#0072B2", "#D55E00", "#009E73")  # told apart also by colour-blind readers


def values(unknowns: Unknowns) -> np.ndarray:
    """The numbers of interest in the units of the table."""
    flat = np.concatenate([np.asarray(leaf) for leaf in jax.tree.leaves(unknowns)])
    return flat[: len(QUANTITIES)] * np.array([scale for *_, scale in QUANTITIES])


def table(guess: Unknowns, fit: Fit, truth: Unknowns | None) -> str:
    """True (where known), start and fitted values with their standard errors."""
    errors = fit.standard_error[: len(QUANTITIES)] * np.array([scale for *_, scale in QUANTITIES])
    columns = {"start": values(guess), "fitted": values(fit.unknowns), "std. error": errors}
    if truth is not None:
        columns = {"true": values(truth)} | columns
    lines = [" " * 36 + "".join(f"{name:>12s}" for name in columns)]
    for row, (name, unit, scale) in enumerate(QUANTITIES):
        digits = 1 if scale == 1 else 4
        cells = "".join(f" {_cell(column[row], digits):>11s}" for column in columns.values())
        lines.append(f"{name:30s}{'[' + unit + ']':6s}{cells}")
    return "\n".join(lines)


def _cell(number: float, digits: int) -> str:
    return f"{number:.{digits}f}" if np.isfinite(number) else "unknown"


def write_data(
    folder: Path, recording: Recording, start: Motion, guess: Unknowns, fit: Fit
) -> list[str]:
    """Writes the recording, the simulated motions and the table; returns the names of the files."""
    write(folder / "recording.csv", recording)
    names = ["t", *JOINTS, *(f"{q}_start" for q in JOINTS), *(f"{q}_fitted" for q in JOINTS)]
    motions = np.column_stack([recording.t, recording.q, start.q, fit.motion.q])
    np.savetxt(
        folder / "motion.csv",
        motions,
        fmt="%.9g",
        delimiter=",",
        header=",".join(names),
        comments="",
    )
    lines = ["quantity,unit,start,fitted,standard_error"]
    errors = fit.standard_error[: len(QUANTITIES)]
    rows = zip(QUANTITIES, values(guess), values(fit.unknowns), errors, strict=True)
    for (name, unit, scale), first, fitted, error in rows:
        lines.append(f'"{name}",{unit},{first:.9g},{fitted:.9g},{error * scale:.3g}')
    (folder / "parameters.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ["recording.csv", "motion.csv", "parameters.csv"]


def write_figure(
    path: Path, robot: Pendulum, recording: Recording, start: Motion, fit: Fit
) -> None:
    """Measured, first and fitted motion, the tensions, and the finger on its way.

    Raises `ImportError` without matplotlib.
    """
    # an extra; `Figure` instead of `pyplot` needs no display and leaves its settings alone
    from matplotlib import colormaps  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(10, 5.6), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=[2.2, 1], height_ratios=[2, 1])
    angles, tensions = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[1, 0])
    shapes = figure.add_subplot(grid[:, 1])

    for joint, color in enumerate(COLORS):
        shown = slice(0, None, max(1, len(recording.t) // 60))
        measured = recording.q[shown, joint]
        angles.plot(recording.t[shown], measured, "o", ms=4.5, mfc="none", color=color, alpha=0.7)
        angles.plot(recording.t, start.q[:, joint], ":", lw=1.2, color=color)
        angles.plot(recording.t, fit.motion.q[:, joint], lw=1.3, color=color)
        angles.plot([], [], lw=4, color=color, label=f"joint {joint + 1}")
    angles.plot([], [], "o", ms=4.5, mfc="none", color="0.4", label="measured")
    angles.plot([], [], ":", color="0.4", label="start values")
    angles.plot([], [], "-", color="0.4", label="fitted")
    angles.set(ylabel="joint angle [rad]", title="Motion")
    angles.legend(
        ncols=6, loc="upper center", fontsize="small", columnspacing=1.0, handlelength=1.4
    )
    low, high = angles.get_ylim()
    angles.set_ylim(low, high + 0.15 * (high - low))  # room for the legend
    angles.sharex(tensions)
    angles.tick_params(labelbottom=False)

    for tendon, (name, style) in enumerate((("flexor", "-"), ("extensor", "--"))):
        tensions.step(
            recording.t, recording.u[:, tendon], style, where="post", color="0.25", label=name
        )
    tensions.set(xlabel="time [s]", ylabel="tension [N]")
    tensions.legend(ncols=2, loc="upper right", fontsize="small")
    low, high = tensions.get_ylim()
    tensions.set_ylim(low, high + 0.25 * (high - low))

    samples = np.linspace(0, len(recording.t) - 1, 6).round().astype(int)
    tips = np.asarray(jax.vmap(robot.forward_kinematics_tips)(fit.motion.q[samples]))
    for order, (sample, points) in enumerate(zip(samples, tips[:, :, 1:], strict=True)):
        line = 1e3 * np.concatenate([np.zeros((1, 2)), points])
        color = colormaps["viridis"](0.95 * order / (len(samples) - 1))
        label = f"{recording.t[sample]:.2f} s"
        shapes.plot(*line.T, "o-", ms=4, lw=2.5, color=color, label=label)
    shapes.set(xlabel="x [mm]", ylabel="y [mm]", title="Finger, fitted motion", aspect="equal")
    shapes.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.18), fontsize="small")
    for axes in (angles, tensions, shapes):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
