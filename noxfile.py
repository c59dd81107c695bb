"""What CI runs: `nox -s lint types tests docs examples`; `nox -s bench` measures."""

import os
import shutil
import subprocess
from pathlib import Path

import nox


PYTHONS = ["3.11", "3.12", "3.13"]
RUFF = "ruff==0.17.6"
PYRIGHT = "pyright[nodejs]==1.1.414"

nox.options.sessions = ["lint", "types", "tests", "docs", "examples"]
nox.options.default_venv_backend = "uv|virtualenv"
# Skip an interpreter that is not there, also under CI, where nox would otherwise fail.
nox.options.error_on_missing_interpreters = False

# The shims of pyenv answer only for versions that are switched on: switch on all that are installed.
if shutil.which("pyenv"):
    listed = subprocess.run(["pyenv", "versions", "--bare"], capture_output=True, text=True)
    installed = [name for name in listed.stdout.split() if "/" not in name]
    os.environ.setdefault("PYENV_VERSION", ":".join(reversed(installed)))


@nox.session
def lint(session: nox.Session) -> None:
    """Formatting, import order and likely mistakes."""
    session.install(RUFF)
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Static types."""
    session.install("-e", ".[test]", PYRIGHT)
    session.run("pyright", *session.posargs)


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The tests without the slow ones, on every interpreter found."""
    session.install("-e", ".[test]")
    session.run("pytest", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation; a broken reference fails."""
    # The builder reads the sources and does not import them.
    project = nox.project.load_toml("pyproject.toml")["project"]
    session.install(*project["optional-dependencies"]["docs"], RUFF)  # formats signatures
    session.env["NO_MKDOCS_2_WARNING"] = "1"
    session.run("mkdocs", *(session.posargs or ("build", "--strict", "--clean")))


@nox.session
def examples(session: nox.Session) -> None:
    """Every example, in a process and a folder of its own."""
    session.install("-e", ".[test]")
    session.run("pytest", "tests/test_examples.py", "-m", "example", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """The benchmarks named after `--`, or all of them."""
    session.install("-e", ".[test]")
    scripts = session.posargs or sorted(
        str(path) for path in Path("benchmarks").glob("*.py") if path.stem != "timing"
    )
    for script in scripts:
        session.run("python", script)
