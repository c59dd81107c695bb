"""Recorded motions, as CSV files with the columns t, q1, q2, q3, u1, u2."""

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float


COLUMNS = ("t", "q1", "q2", "q3", "u1", "u2")
MIN_ROWS = 20


class RecordingError(ValueError):
    """A file that is no recording of the finger; the message is one line."""


class Recording(NamedTuple):
    """Joint angles at uniform times; the tensions of a row hold until the time of the next."""

    t: Float[np.ndarray, " times"]  # [s]
    q: Float[np.ndarray, "times 3"]  # [rad]
    u: Float[np.ndarray, "times 2"]  # [N]

    @property
    def dt(self) -> float:
        return float(self.t[-1] - self.t[0]) / (len(self.t) - 1)


def excitation(num_samples: int, dt: float) -> tuple[np.ndarray, np.ndarray]:
    """Times and tensions of the demo: tones that move every joint and never slacken a tendon."""
    t = np.arange(num_samples) * dt
    flexor = 8 - 5 * np.cos(2 * np.pi * 0.9 * t) + 2.5 * np.sin(2 * np.pi * 2.6 * t)
    extensor = 4 - 2 * np.cos(2 * np.pi * 1.4 * t) + 1.8 * np.sin(2 * np.pi * 3.7 * t)
    return t, np.stack([flexor, extensor], axis=1)


def write(path: Path, recording: Recording) -> None:
    table = np.column_stack([recording.t, recording.q, recording.u])
    np.savetxt(path, table, fmt="%.9g", delimiter=",", header=",".join(COLUMNS), comments="")


def read(path: Path) -> Recording:
    """The recording in a file.

    Raises `RecordingError` for a file that cannot be read, columns that are missing or unknown,
    entries that are no finite numbers, and times that are too few or not uniform.
    """
    try:
        return _parse(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError:
        raise RecordingError(f"{path} is not a text file.") from None
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror}.") from None
    except (RecordingError, csv.Error) as error:
        raise RecordingError(f"{path}: {error}") from None


def _parse(text: str) -> Recording:
    reader = csv.reader(text.splitlines())
    lines = [(reader.line_num, row) for row in reader if any(entry.strip() for entry in row)]
    if not lines:
        raise RecordingError("the file is empty.")
    header = [name.strip() for name in lines[0][1]]
    _check_header(header)
    table = np.array([_numbers(line, row, header) for line, row in lines[1:]])
    if len(table) < MIN_ROWS:
        raise RecordingError(f"at least {MIN_ROWS} rows are needed, got {len(table)}.")
    table = table[:, [header.index(name) for name in COLUMNS]]
    recording = Recording(table[:, 0], table[:, 1:4], table[:, 4:])
    _check_times(recording)
    return recording


def _check_header(header: list[str]) -> None:
    needed = f"the columns must be {', '.join(COLUMNS)}"
    for name in COLUMNS:
        if header.count(name) != 1:
            what = "missing" if name not in header else "there more than once"
            raise RecordingError(f"column {name} is {what}; {needed}.")
    for name in header:
        if name not in COLUMNS:
            raise RecordingError(f"column {name[:20]!r} is not known; {needed}.")


def _numbers(line: int, row: list[str], header: list[str]) -> list[float]:
    if len(row) != len(header):
        raise RecordingError(f"line {line} has {len(row)} entries, not {len(header)}.")
    numbers = []
    for name, entry in zip(header, row, strict=True):
        try:
            number = float(entry)
        except ValueError:
            number = None
        if number is None or not np.isfinite(number):
            what = "is not a number" if number is None else "is not finite"
            raise RecordingError(f"line {line}, column {name}: {entry.strip()[:20]!r} {what}.")
        numbers.append(number)
    return numbers


def _check_times(recording: Recording) -> None:
    t = recording.t
    if np.any(np.diff(t) <= 0):
        row = int(np.argmax(np.diff(t) <= 0)) + 2
        raise RecordingError(f"times must increase, but t = {t[row - 1]:g} in row {row} does not.")
    # recorders round their clocks: a twentieth of a step is let pass
    off = np.abs(t - np.linspace(t[0], t[-1], len(t)))
    if np.max(off) > 0.05 * recording.dt:
        steps = np.diff(t)
        usual = np.median(steps)
        worst = int(np.argmax(np.abs(steps - usual)))
        raise RecordingError(
            f"times must be uniform, but the step after t = {t[worst]:g} is {steps[worst]:g} s "
            f"where the usual one is {usual:g} s."
        )
