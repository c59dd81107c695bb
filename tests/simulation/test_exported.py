import subprocess
import sys
from pathlib import Path

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import soromox
from soromox.simulation import BDF2, DIRK22, SystemState
from tests.simulation.linear_robots import oscillator


Y, U = jnp.array([0.7, -1.1]), jnp.array([0.4])

ELSEWHERE = """
import sys
from pathlib import Path

import jax
import jax.export
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
step = jax.export.deserialize(Path("step.bin").read_bytes())
start = np.load("start.npz")
y, _, result, residual = step.call(start["y"], jnp.zeros(0), start["u"])
np.savez("end.npz", y=y, result=result, residual=residual)
assert not {"soromox", "equinox"} & set(sys.modules)
"""


@pytest.fixture(scope="module")
def robot():
    return oscillator()


def motion(robot, y):
    state = SystemState(t=0.0, y=y)
    return robot.rollout_to(state, U, num_steps=5, dt=0.01, save_every=5, scheme=DIRK22())


def test_exported_steps_run_without_the_library(robot, tmp_path: Path):
    exported = robot.export(dt=0.01, num_steps=5, scheme=DIRK22())
    (tmp_path / "step.bin").write_bytes(exported.serialize())
    np.savez(tmp_path / "start.npz", y=Y, u=U)
    subprocess.run([sys.executable, "-c", ELSEWHERE], check=True, cwd=tmp_path)
    found = np.load(tmp_path / "end.npz")
    np.testing.assert_allclose(found["y"], motion(robot, Y).y[-1], rtol=1e-12)
    assert found["result"] == 0
    assert found["residual"] < 1e-10


@pytest.mark.slow
def test_exported_steps_can_be_differentiated(robot):
    exported = robot.export(dt=0.01, num_steps=5, scheme=DIRK22())
    step = jax.export.deserialize(exported.serialize(vjp_order=1))
    there = jax.grad(lambda y: jnp.sum(step.call(y, jnp.zeros(0), U)[0]))(Y)
    here = jax.jit(jax.grad(lambda y: jnp.sum(motion(robot, y).y[-1])))(Y)
    np.testing.assert_allclose(there, here, rtol=1e-10)


def test_exported_batch_has_leading_axes(robot):
    exported = robot.export(dt=0.01, batch_size=3, platforms=("cpu", "cuda"))
    assert [x.shape for x in exported.in_avals] == [(3, 2), (3, 0), (3, 1)]
    assert [x.shape for x in exported.out_avals] == [(3, 2), (3, 0), (3,), (3,)]
    assert exported.platforms == ("cpu", "cuda")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scheme": BDF2()}, "must be of one step: BDF2"),
        ({"num_steps": 0}, "`num_steps` must be a positive integer, got 0"),
        ({"batch_size": -1}, "`batch_size` must be a positive integer, got -1"),
        ({"dt": 0.0}, "`dt` must be positive"),
        ({"platforms": ("toaster",)}, "`platforms` must be some of cpu, cuda"),
        ({"platforms": "gpu"}, "`platforms` must be some of cpu, cuda"),
    ],
)
def test_refused_exports(robot, arguments, message):
    with pytest.raises(ValueError, match=message):
        robot.export(**({"dt": 0.01} | arguments))


CACHED = """
import sys

import jax.numpy as jnp

import soromox

assert str(soromox.enable_compilation_cache(sys.argv[1])) == sys.argv[1]
print(jnp.sum(jnp.arange(7.0) ** 3))
"""


def test_programs_are_kept_in_the_folder_asked_for(tmp_path: Path):
    folder = tmp_path / "programs"
    call = [sys.executable, "-c", CACHED, str(folder)]
    run = lambda: subprocess.run(call, check=True, cwd=Path(__file__).parents[2])
    kept = lambda: sorted(path.name for path in folder.glob("*-cache"))
    run()
    first = kept()
    assert first
    run()
    assert kept() == first  # nothing is compiled anew


def test_a_file_is_no_folder_for_programs(tmp_path: Path):
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(ValueError, match="must be a folder"):
        soromox.enable_compilation_cache(path)
