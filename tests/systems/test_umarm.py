"""The McKibben-driven arm: recorded results, files of parameters, and what is refused."""

import io
import zipfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.actuation import ArticulatedMcKibbenActuator, IdentityActuator
from soromox.systems import ArticulatedSoftRobot, McKibbenActuatedUMArm, base_poses
from tests.hosts import umarm
from tests.rods import disagreements
from tests.systems.test_articulated_reference import explicit_rollout


def test_recorded_quantities_and_motion(shared_reference: Path):
    rods = shared_reference / "rods"
    robot = McKibbenActuatedUMArm.from_cached_parameters(rods / "umarm_reference_parameters.npz")
    data = dict(np.load(rods / "umarm.npz"))
    assert (robot.num_dofs, robot.num_actuators) == (12, 24)
    assert robot.actuator_input_labels[-1] == "mckibben_pressure_23"
    np.testing.assert_allclose(robot.base_pose, data["fixed_base_pose"], atol=1e-15)
    assert disagreements(robot, data) == {}
    given = (jnp.asarray(data[f"rollout_{name}"]) for name in ("y0", "u", "t"))
    motion = explicit_rollout(robot, *given)
    scale = np.max(np.abs(data["rollout_y"]))
    np.testing.assert_allclose(motion, data["rollout_y"], atol=1e-6 * scale, rtol=0)


def stored(robot: McKibbenActuatedUMArm) -> dict[str, np.ndarray]:
    """The arrays of a file."""
    links = {name: np.asarray(value) for name, value in vars(robot.params).items()}
    links["joint_armature"] = links.pop("armature")
    frames = links["parent_to_joint_transform"].copy()
    hanging = ArticulatedSoftRobot(robot.params, base_pose=base_poses.hanging())
    frames[0] = hanging.mechanics().chain.base_pose @ frames[0]
    frames[0, :3, 3] = [0.1, 0.2, 1.2]
    links["parent_to_joint_transform"] = frames
    muscles = vars(robot.actuators[0].transmission.params)
    return links | {f"mckibben_{name}": np.asarray(value) for name, value in muscles.items()}


def test_parameters_come_back_from_a_file(tmp_path: Path):
    robot = umarm()
    np.savez(tmp_path / "arm.npz", **stored(robot))
    read = McKibbenActuatedUMArm.from_cached_parameters(tmp_path / "arm.npz")
    assert jax.tree.structure(read) == jax.tree.structure(robot)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-15), read, robot)


def test_it_is_an_articulated_robot_with_muscles():
    robot = umarm()
    q, qd, u = jnp.linspace(-0.3, 0.3, 4), jnp.linspace(1, -1, 4), jnp.linspace(1e4, 2e5, 8)
    pose = np.array([0, 0, 0, 1.0, 0, 0, 0])
    same = ArticulatedSoftRobot(robot.params, actuators=robot.actuators, base_pose=pose)
    np.testing.assert_allclose(
        robot.forward_acceleration(q, qd, u), same.forward_acceleration(q, qd, u), rtol=1e-12
    )
    assert isinstance(robot.actuators[0], ArticulatedMcKibbenActuator)
    assert isinstance(McKibbenActuatedUMArm(robot.params).actuators[0], IdentityActuator)


@pytest.mark.parametrize("name", ["mass", "joint_armature", "mckibben_thread_length"])
def test_an_incomplete_or_damaged_file_names_the_array(tmp_path: Path, name):
    path = tmp_path / "arm.npz"
    arrays = stored(umarm())
    load = McKibbenActuatedUMArm.from_cached_parameters

    np.savez(path, **{key: value for key, value in arrays.items() if key != name})
    with pytest.raises(ValueError, match=f"arm.npz lacks the array `{name}`"):
        load(path)

    np.savez(path, **(arrays | {name: np.array([None, "x"], object)}))
    with pytest.raises(ValueError, match=f"The array `{name}` in .* is damaged"):
        load(path)

    np.savez(path, **(arrays | {name: np.full_like(arrays[name], np.nan)}))
    with pytest.raises(ValueError, match=f"holds no parameters .*`{name}`"):
        load(path)

    content = io.BytesIO()
    np.savez(content, **arrays)
    data = bytearray(content.getvalue())
    with zipfile.ZipFile(content) as archive:
        start = archive.getinfo(f"{name}.npy").header_offset
    data[start + 200] ^= 0xFF  # within the numbers: the checksum fails
    path.write_bytes(data)
    with pytest.raises(ValueError, match=f"The array `{name}` in .* is damaged"):
        load(path)


def test_a_contradicting_array_or_unit_is_named(tmp_path: Path):
    path = tmp_path / "arm.npz"
    arrays = stored(umarm())
    pairs = arrays["mckibben_joint_pair_indices"]
    for name, value in (
        ("joint_screw", arrays["joint_screw"][:-1]),
        ("mckibben_moving_points", arrays["mckibben_moving_points"][:-1]),
        ("mckibben_joint_pair_indices", pairs.astype(float)),
        ("mckibben_joint_pair_indices", np.full(pairs.shape, np.nan)),
        ("mass", np.array(1.0)),
        ("length_unit", np.array("mm")),
    ):
        np.savez(path, **(arrays | {name: value}))
        with pytest.raises(ValueError, match=f"`{name}`"):
            McKibbenActuatedUMArm.from_cached_parameters(path)


def test_what_is_no_such_file(tmp_path: Path):
    load = McKibbenActuatedUMArm.from_cached_parameters
    path = tmp_path / "arm.npz"
    with pytest.raises(FileNotFoundError):
        load(path)
    for content in (b"", b"PK\x03\x04 cut off", b"some text"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is no npz file, or is cut off"):
            load(path)
    np.savez(path, **(stored(umarm()) | {"schema_version": "v0"}))
    with pytest.raises(ValueError, match="has `schema_version` v0"):
        load(path)
