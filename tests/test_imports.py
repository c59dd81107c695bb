"""Imports point one way, stand at the top of a module, and `import soromox` stays light and silent."""

import ast
import graphlib
import json
import subprocess
import sys
from pathlib import Path

import pytest


ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "soromox"

# A room may import from rooms further up and from rooms of its own line, as long as there is no cycle.
LINES = [
    {"lie", "numerics"},
    {"chain"},
    {"actuation"},
    {"simulation"},
    {"systems"},
    {"control", "identification"},
    {"io", "rendering"},
    {"demo"},
]
RANK = {room: rank for rank, line in enumerate(LINES) for room in line}
# The front doors see every room.
OUTSIDE = {"__init__", "__main__"}
# Extras: loaded by the function that needs them, never by `import soromox`.
OPTIONAL = {"diffrax", "imageio", "matplotlib", "mpl_toolkits", "mujoco", "viser", "yourdfpy"}

MODULES = sorted(PACKAGE.rglob("*.py"))


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def _room(module: str) -> str:
    """The folder (or top-level module) of `soromox` that `module` stands in."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def _imported(path: Path, node: ast.AST) -> list[str]:
    """Absolute names of the modules that an import statement asks for."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = _name(path).split(".")[: -node.level]
            base = ".".join([*package, *([base] if base else [])])
        if base == "soromox":  # `from soromox import lie` asks for the room, not for the front door
            return [f"soromox.{alias.name}" for alias in node.names]
        return [base]
    return []


def _all_imports(path: Path) -> list[tuple[int, str]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [(node.lineno, name) for node in ast.walk(tree) for name in _imported(path, node)]


def _own(name: str) -> bool:
    return name.split(".")[0] == "soromox"


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_imports_point_one_way(path):
    here = _room(_name(path))
    if here in OUTSIDE:
        return
    assert here in RANK, f"{here} is a new room: give it a place in LINES"
    for line, name in _all_imports(path):
        if not _own(name):
            continue
        there = _room(name)
        assert there in RANK, f"{_name(path)}:{line} imports {name}, which is not a room"
        assert RANK[there] <= RANK[here], f"{_name(path)}:{line} imports {name}: wrong direction"


def test_rooms_have_no_cycle():
    graph = {room: set() for room in RANK}
    for path in MODULES:
        here = _room(_name(path))
        if here in RANK:
            graph[here] |= {_room(n) for _, n in _all_imports(path) if _own(n)} & RANK.keys() - {
                here
            }
    graphlib.TopologicalSorter(graph).prepare()
    viewers = {room for room in graph if "rendering" in graph[room]}
    assert not viewers, f"{viewers} must not import rendering"


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_only_optional_packages_are_imported_inside_functions(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    for node in (inner for function in functions for inner in ast.walk(function)):
        for name in _imported(path, node):
            assert name.split(".")[0] in OPTIONAL, (
                f"{_name(path)}:{node.lineno} imports {name} inside a function"
            )


_PROBE = """
import json, sys
import jax
before = jax.config.jax_enable_x64
import soromox
print(json.dumps({"modules": sorted(sys.modules), "x64": [before, jax.config.jax_enable_x64]}))
"""


@pytest.fixture(scope="module")
def fresh_import():
    """What one fresh process, in which warnings are errors, sees after `import soromox`."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _PROBE], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_import_loads_no_optional_package(fresh_import):
    assert "soromox" in fresh_import["modules"]
    assert not OPTIONAL & set(fresh_import["modules"])


def test_import_leaves_the_precision_alone(fresh_import):
    before, after = fresh_import["x64"]
    assert before == after
