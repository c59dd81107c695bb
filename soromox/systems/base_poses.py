"""Ways to mount a robot, as `pose7 = [qx, qy, qz, qw, x, y, z]` or `[theta, x, y]`.

The backbone runs along the local +x axis. Quaternions are scalar last.
"""

import numpy as np
from jaxtyping import Float

from soromox.numerics.checks import ArrayLike


_HALF = np.sqrt(0.5)


def upright(*, planar: bool = False) -> Float[np.ndarray, " pose"]:
    """Pointing up; in space local x, y, z lie along world z, y, -x."""
    return _pose([0.0, -_HALF, 0.0, _HALF], np.pi / 2, planar)


def hanging(*, planar: bool = False) -> Float[np.ndarray, " pose"]:
    """Pointing down; in space local x, y, z lie along world -z, y, x."""
    return _pose([0.0, _HALF, 0.0, _HALF], -np.pi / 2, planar)


def horizontal(*, planar: bool = False) -> Float[np.ndarray, " pose"]:
    """Pointing along world x."""
    return _pose([0.0, 0.0, 0.0, 1.0], 0.0, planar)


def as_pose_vector(pose: ArrayLike, is_planar: bool) -> ArrayLike:
    """A pose vector from a pose vector or, in space, a 4x4 homogeneous matrix.

    Raises `ValueError` for other shapes, a zero quaternion or a matrix that is no rigid motion.
    """
    size = 3 if is_planar else 7
    shape = np.shape(pose)
    if shape == (4, 4) and not is_planar:
        return _from_matrix(np.asarray(pose, dtype=np.float64))
    if shape != (size,):
        what = "[theta, x, y]" if is_planar else "[qx, qy, qz, qw, x, y, z] or a 4x4 matrix"
        raise ValueError(f"`base_pose` must be {what}, got shape {shape}.")
    return pose


def _from_matrix(matrix: Float[np.ndarray, "4 4"]) -> Float[np.ndarray, "7"]:
    R = matrix[:3, :3]
    if not (np.allclose(R @ R.T, np.eye(3), atol=1e-5) and np.linalg.det(R) > 0):
        raise ValueError(f"`base_pose` needs a rotation in its upper left, got {R.tolist()}.")
    # the eigenvector of the largest eigenvalue is the quaternion: no branch loses digits
    K = np.array(
        [
            [R[0, 0] - R[1, 1] - R[2, 2], 0, 0, 0],
            [R[0, 1] + R[1, 0], R[1, 1] - R[0, 0] - R[2, 2], 0, 0],
            [R[0, 2] + R[2, 0], R[1, 2] + R[2, 1], R[2, 2] - R[0, 0] - R[1, 1], 0],
            [R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1], np.trace(R)],
        ]
    )
    quaternion = np.linalg.eigh(K)[1][:, -1]
    return np.concatenate([quaternion * np.sign(quaternion[3] or 1.0), matrix[:3, 3]])


def _pose(quaternion: list[float], angle: float, planar: bool) -> Float[np.ndarray, " pose"]:
    return np.array([angle, 0.0, 0.0]) if planar else np.array([*quaternion, 0.0, 0.0, 0.0])
