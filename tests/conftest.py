"""Settings and fixtures of the whole test run.

Nothing of `soromox` is imported here: `--jaxtyping-packages` must see its first import.
Warnings are turned into errors in `pyproject.toml`.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.random as jr
import pytest
from xdist.scheduler import LoadScopeScheduling


os.environ["MPLBACKEND"] = "Agg"  # no window, also on a desktop
# most tests compile for seconds what runs for milliseconds
jax.config.update("jax_disable_most_optimizations", True)
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")


class SharedPrograms(LoadScopeScheduling):
    """The tests of a file in one process, so that what they share is compiled once.

    The laws, a third of all work, are split by robot, and the examples share nothing.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::")[0]
        is_split = file.endswith(("tests/test_laws.py", "tests/test_examples.py"))
        return nodeid.split("[")[-1] if is_split else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return SharedPrograms(config, log)


@pytest.fixture(autouse=True, scope="module")
def forget_programs() -> Iterator[None]:
    """Drops the compiled programs of a file: a process may hold only so many of them."""
    yield
    jax.clear_caches()


@pytest.fixture
def getkey() -> Callable[[], jax.Array]:
    """A function that returns a new random key at each call, the same ones in every run."""
    key = jr.key(0)

    def next_key() -> jax.Array:
        nonlocal key
        key, subkey = jr.split(key)
        return subkey

    return next_key


@pytest.fixture(scope="session")
def shared_reference(pytestconfig: pytest.Config) -> Path:
    """The folder of reference data (`rods/`, `superdex/`, ...), kept beside the checkout.

    Without it the tests that ask for it are skipped.
    """
    folder = pytestconfig.rootpath.parent / "shared" / "reference"
    if not folder.is_dir():
        pytest.skip("reference data not found: it is expected in ../shared/reference")
    return folder
