"""The main job: `python -m soromox`, in this process and on a short recording."""

import csv

import jax.numpy as jnp
import numpy as np
import pytest

from soromox import demo
from soromox.__main__ import main


NUM_SAMPLES = 81


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a run that fits the demo's own recording."""
    folder = tmp_path_factory.mktemp("demo") / "new" / "folder"
    assert main(["--output", str(folder)], num_samples=NUM_SAMPLES) == 0
    return folder


def parameters(folder) -> tuple[np.ndarray, np.ndarray]:
    """Fitted values and standard errors that a run has written."""
    rows = csv.DictReader((folder / "parameters.csv").read_text(encoding="utf-8").splitlines())
    pairs = [(float(row["fitted"]), float(row["standard_error"])) for row in rows]
    return tuple(np.array(pairs).T)


def true_values() -> np.ndarray:
    truth = demo.true_unknowns()
    arms, offset = 1e3 * truth.moment_arms, 1e3 * truth.offset
    return np.concatenate([arms, truth.stiffness, offset])


def test_the_fit_finds_the_true_numbers_within_their_errors(folder):
    fitted, error = parameters(folder)
    assert np.all(np.abs(fitted - true_values()) < 3.5 * error)
    assert np.all(error < 0.05 * np.abs(true_values()))


def test_the_figure_and_the_motion_are_written(folder):
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    motion = np.loadtxt(folder / "motion.csv", delimiter=",", skiprows=1)
    assert motion.shape == (NUM_SAMPLES, 10)


def test_the_written_recording_can_be_fitted_as_data(folder, tmp_path, capsys):
    assert main(["--data", str(folder / "recording.csv"), "--output", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "fitted" in output
    assert "true" not in output
    for again, before in zip(parameters(tmp_path), parameters(folder), strict=True):
        np.testing.assert_allclose(again, before, rtol=1e-2)


def test_a_free_swing_leaves_the_moment_arms_unknown(folder, tmp_path, capsys):
    truth = demo.true_unknowns()
    swing = demo.Unknowns(
        moment_arms=truth.moment_arms,
        stiffness=truth.stiffness,
        offset=truth.offset,
        start=jnp.array([0.6, 0.4, 0.3, 0.0, 0.0, 0.0]),
    )
    t = demo.read(folder / "recording.csv").t
    slack = np.zeros((len(t), 2))
    q = demo.simulate(demo.finger(), t, slack, swing).q
    noise = 1e-3 * np.random.default_rng(0).normal(size=q.shape)
    demo.write(tmp_path / "swing.csv", demo.Recording(t, q + noise, slack))

    assert main(["--data", str(tmp_path / "swing.csv"), "--output", str(tmp_path)]) == 0
    fitted, error = parameters(tmp_path)
    assert np.all(np.isinf(error[:5]))
    assert np.all(np.abs(fitted - true_values())[5:] < 3.5 * error[5:])
    assert "unknown" in capsys.readouterr().out


HEADER = "t,q1,q2,q3,u1,u2"


def _rows(count: int = 30, dt: float = 0.01) -> list[str]:
    return [f"{k * dt:.4f},0.1,0.2,0.3,1.0,2.0" for k in range(count)]


def _with(row: int, text: str) -> str:
    rows = _rows()
    rows[row] = text
    return "\n".join([HEADER, *rows])


BAD_FILES = {
    "empty": ("", "empty"),
    "only blank lines": ("\n \n\n", "empty"),
    "only a header": (HEADER, "at least 20 rows"),
    "too few rows": ("\n".join([HEADER, *_rows(19)]), "at least 20 rows are needed, got 19"),
    "no header": ("\n".join(_rows()), "column t is missing"),
    "missing column": ("\n".join(["t,q1,q2,q3,u1", *_rows()]), "column u2 is missing"),
    "column twice": ("\n".join([HEADER + ",q2", *_rows()]), "column q2 is there more than once"),
    "unknown column": ("\n".join([HEADER + ",q4", *_rows()]), "column 'q4' is not known"),
    "semicolons": (_with(0, _rows()[0]).replace(",", ";"), "column t is missing"),
    "short row": (_with(4, "0.04,0.1,0.2"), "line 6 has 3 entries, not 6"),
    "long row": (_with(4, _rows()[4] + ",1"), "line 6 has 7 entries, not 6"),
    "word": (_with(4, "0.04,0.1,left,0.3,1,2"), "line 6, column q2: 'left' is not a number"),
    "blank entry": (_with(4, "0.04,0.1,,0.3,1,2"), "line 6, column q2: '' is not a number"),
    "nan": (_with(4, "0.04,0.1,nan,0.3,1,2"), "line 6, column q2: 'nan' is not finite"),
    "infinite": (_with(4, "0.04,0.1,0.2,0.3,inf,2"), "line 6, column u1: 'inf' is not finite"),
    "step back in time": (_with(4, "0.03,0.1,0.2,0.3,1,2"), "t = 0.03 in row 5 does not"),
    "gap": (
        "\n".join([HEADER, *_rows()[:10], *_rows()[12:]]),
        "times must be uniform, but the step after t = 0.09 is 0.03 s",
    ),
    "binary": (b"\x89PNG\r\n\x1a\n\x00\x00\xff\xfe", "is not a text file"),
    "binary that is text": (b"\x00\x01\x02\n\x00" * 30, "column t is missing"),
    "UTF-16": (HEADER.encode("utf-16"), "is not a text file"),
    "endless entry": (HEADER + "\n" + "1" * 200_000, "field larger than field limit"),
}


@pytest.mark.parametrize(("content", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_gives_one_line_and_code_2(content, message, tmp_path, capsys):
    path = tmp_path / "data.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    _check_refused(path, message, tmp_path / "output", capsys)


@pytest.mark.parametrize("name", ["missing.csv", ".", "missing/data.csv"])
def test_a_path_that_is_no_file_gives_one_line_and_code_2(name, tmp_path, capsys):
    _check_refused(tmp_path / name, "cannot be read", tmp_path / "output", capsys)


def _check_refused(path, message, output, capsys):
    assert main(["--data", str(path), "--output", str(output)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err
    assert str(path) in err
    assert not output.exists()


def test_a_folder_that_cannot_be_made_gives_one_line_and_code_2(tmp_path, capsys):
    (tmp_path / "taken").write_text("")
    assert main(["--output", str(tmp_path / "taken")]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "cannot be made" in err


def test_columns_may_stand_in_any_order_and_clocks_may_be_rounded(tmp_path):
    t = np.round(np.arange(40) / 60, 3)
    lines = ["u2, q1,t,q2,q3,u1", *(f"2,0.1,{x},0.2,0.3,1" for x in t), ""]
    path = tmp_path / "data.csv"
    path.write_text("\ufeff" + "\r\n".join(lines), encoding="utf-8")
    recording = demo.read(path)
    np.testing.assert_array_equal(recording.t, t)
    np.testing.assert_array_equal(recording.q[0], [0.1, 0.2, 0.3])
    np.testing.assert_array_equal(recording.u[0], [1, 2])
