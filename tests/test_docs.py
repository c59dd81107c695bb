"""The README and every page of the documentation: their Python runs as written.

The blocks of one page share a namespace and run in order. A block right after the line
`<!-- not run -->` is left out.
"""

import ast
import re
from pathlib import Path

import jax
import pytest


ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = "<!-- not run -->"


def _blocks(page: Path) -> list[tuple[int, str]]:
    """Line number and text of each block of `page` that is meant to run."""
    text = page.read_text(encoding="utf-8")
    return [
        (text[: block.start(1)].count("\n"), block[1])
        for block in BLOCK.finditer(text)
        if not text[: block.start()].rstrip().endswith(NOT_RUN)
    ]


PAGES = [
    page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if _blocks(page)
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_snippets_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    # The reader has JAX's own settings, not the strict ones of the test run.
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        for line, block in _blocks(page):
            # Blank lines in front let a traceback point into the page.
            exec(compile("\n" * line + block, str(page), "exec"), namespace)


def test_ci_runs_the_test_command_of_the_readme():
    command = 'pip install -e ".[test]" && pytest'
    assert command in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert f"bash -c '{command}'" in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", ["PositionServo", "Crank"])
def test_a_new_law_and_a_new_transmission_are_short(name):
    """The page that shows them runs above."""
    text = "".join(block for _, block in _blocks(ROOT / "docs" / "extending.md"))
    (definition,) = [node for node in ast.parse(text).body if getattr(node, "name", "") == name]
    assert definition.end_lineno - definition.lineno + 1 < 20
