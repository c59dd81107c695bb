"""Joints between links: what moves, about which axis, against which spring and damper."""

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from soromox.numerics import safe
from soromox.numerics.checks import ArrayLike, as_array, check_finite, check_values, float_dtype
from soromox.numerics.parameters import Parameters
from soromox.systems.joint_matrices import joint_matrix


_NUM_COORDINATES = {
    "fixed": 0,
    "revolute": 1,
    "prismatic": 1,
    "helical": 1,
    "cylindrical": 2,
    "planar": 3,
    "spherical": 3,
    "free": 6,
}
_WITH_AXIS = ("revolute", "prismatic", "helical", "cylindrical")
_AXES = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}
# normal, then the two directions of translation
_PLANES = {"xy": "zxy", "yz": "xyz", "xz": "yxz"}


@dataclasses.dataclass(frozen=True)
class JointType:
    """What is fixed about a joint."""

    kind: str
    plane: str | None = None

    @property
    def num_coordinates(self) -> int:
        return _NUM_COORDINATES[self.kind]

    @property
    def is_screw(self) -> bool:
        """Whether the joint is `exp(B q)` with commuting columns."""
        return self.kind in _WITH_AXIS

    @property
    def has_rotation_vector(self) -> bool:
        """Whether the first three coordinates are a rotation vector, subject to chart changes."""
        return self.kind in ("spherical", "free")


class JointSpec(eqx.Module):
    """A joint in front of a link, its frame that of the tip before.

    Made by `fixed`, `revolute`, `prismatic`, `helical`, `cylindrical`, `planar`, `spherical` or
    `free`. An `axis` is `"x"`, `"y"`, `"z"` or a vector (3,), normalised where it is used.
    `stiffness` and `damping` over the joint's coordinates are a number for all, one value each, or
    a matrix.

    Raises `ValueError` for unknown axes or planes, zero axes, NaN, indefinite matrices.
    """

    type: JointType = eqx.field(static=True)
    axis: ArrayLike | None
    pitch: ArrayLike | None
    stiffness: ArrayLike
    damping: ArrayLike

    def __init__(
        self,
        type: JointType,
        axis: ArrayLike | str | None = None,
        pitch: ArrayLike | None = None,
        stiffness: ArrayLike = 0.0,
        damping: ArrayLike = 0.0,
    ):
        self.type = type
        self.axis = None if axis is None else _axis(axis)
        self.pitch, self.stiffness, self.damping = pitch, stiffness, damping
        self.params(float_dtype(self.axis, pitch, stiffness, damping))  # raises for bad numbers

    @classmethod
    def fixed(cls) -> "JointSpec":
        """No motion."""
        return cls(JointType("fixed"))

    @classmethod
    def revolute(
        cls, axis: ArrayLike | str, stiffness: ArrayLike = 0.0, damping: ArrayLike = 0.0
    ) -> "JointSpec":
        """An angle [rad] about the axis."""
        return cls(JointType("revolute"), axis, None, stiffness, damping)

    @classmethod
    def prismatic(
        cls, axis: ArrayLike | str, stiffness: ArrayLike = 0.0, damping: ArrayLike = 0.0
    ) -> "JointSpec":
        """A translation [m] along the axis."""
        return cls(JointType("prismatic"), axis, None, stiffness, damping)

    @classmethod
    def helical(
        cls,
        axis: ArrayLike | str,
        pitch: ArrayLike,
        stiffness: ArrayLike = 0.0,
        damping: ArrayLike = 0.0,
    ) -> "JointSpec":
        """An angle [rad] about the axis that also advances along it by `pitch` [m/rad]."""
        return cls(JointType("helical"), axis, pitch, stiffness, damping)

    @classmethod
    def cylindrical(
        cls, axis: ArrayLike | str, stiffness: ArrayLike = 0.0, damping: ArrayLike = 0.0
    ) -> "JointSpec":
        """`[angle, translation]` about and along the axis."""
        return cls(JointType("cylindrical"), axis, None, stiffness, damping)

    @classmethod
    def planar(
        cls, plane: str, stiffness: ArrayLike = 0.0, damping: ArrayLike = 0.0
    ) -> "JointSpec":
        """`[angle, two translations]` in the plane `"xy"` (about z), `"yz"` (x) or `"xz"` (y).

        Translations are given in the axes before the turn; the angle is never wrapped.
        """
        if plane not in _PLANES:
            raise ValueError(f"`plane` must be one of {', '.join(_PLANES)}, got {plane!r}.")
        return cls(JointType("planar", plane), None, None, stiffness, damping)

    @classmethod
    def spherical(cls, stiffness: ArrayLike = 0.0, damping: ArrayLike = 0.0) -> "JointSpec":
        """A rotation vector."""
        return cls(JointType("spherical"), None, None, stiffness, damping)

    @classmethod
    def free(cls, stiffness: ArrayLike = 0.0, damping: ArrayLike = 0.0) -> "JointSpec":
        """`[r; p]` with the pose `translation(p) exp(hat r)`."""
        return cls(JointType("free"), None, None, stiffness, damping)

    def params(self, dtype: np.dtype) -> "JointParams | None":
        """The joint's numbers; `None` for a fixed one, which has none."""
        if self.type.kind == "fixed":
            return None
        n = self.type.num_coordinates
        return JointParams(
            None if self.axis is None else as_array(self.axis, "axis", dtype, (3,)),
            None if self.pitch is None else as_array(self.pitch, "pitch", dtype, ()),
            joint_matrix(self.stiffness, "stiffness", dtype, n),
            joint_matrix(self.damping, "damping", dtype, n),
        )


class JointParams(Parameters):
    """Numbers of one joint with n coordinates.

    - `axis` (3,) in the joint frame, normalised where it is used; `None` where the joint has none.
    - `pitch` of a helical joint [m/rad].
    - `stiffness`, `damping`: (n, n), or the diagonal (n,).
    """

    axis: Float[Array, "3"] | None
    pitch: Float[Array, ""] | None
    stiffness: Float[Array, "..."]
    damping: Float[Array, "..."]

    def __init__(self, axis: Any, pitch: Any, stiffness: Any, damping: Any):
        self.axis, self.pitch, self.stiffness, self.damping = axis, pitch, stiffness, damping
        if axis is not None:
            check_values(
                axis,
                lambda axis: np.isfinite(axis).all() and axis.any(),
                "`axis` must be finite and not zero.",
            )
        if pitch is not None:
            check_finite(pitch, "pitch")

    def updated(self, changes: dict[str, Any]) -> "JointParams":
        """A copy with the named numbers changed, given as in `JointSpec`."""
        changes = dict(changes)
        if isinstance(changes.get("axis"), str):
            changes["axis"] = _axis(changes["axis"])
        for name in ("stiffness", "damping"):
            if name in changes:
                old = getattr(self, name)
                new = joint_matrix(changes[name], name, old.dtype, len(old))
                changes[name] = jnp.diag(new) if new.ndim < old.ndim else new
        return self.replace(**changes)


def joint_basis(joint: JointType, params: JointParams) -> Float[Array, "6 n"]:
    """`B = [B_rot; B_trans]` of the joint: screws `exp(B q)`, products `[r; p] = B q`."""
    dtype = params.stiffness.dtype
    if joint.has_rotation_vector:
        return jnp.eye(6, joint.num_coordinates, dtype=dtype)
    if joint.kind == "planar":
        normal, *along = (_AXES[name] for name in _PLANES[joint.plane])
        columns = np.zeros((6, 3))
        columns[:3, 0], columns[3:, 1], columns[3:, 2] = normal, *along
        return jnp.asarray(columns.astype(dtype))
    axis = safe.unit(params.axis)
    zero = jnp.zeros_like(axis)
    turn, slide = jnp.concatenate([axis, zero]), jnp.concatenate([zero, axis])
    if joint.kind == "revolute":
        return turn[:, None]
    if joint.kind == "prismatic":
        return slide[:, None]
    if joint.kind == "helical":
        return (turn + params.pitch * slide)[:, None]
    return jnp.stack([turn, slide], axis=1)


def joint_block(matrix: Float[Array, "..."], width: int) -> Float[Array, "width width"]:
    """A joint's matrix (or diagonal) with zeros up to `width` coordinates."""
    matrix = jnp.diag(matrix) if matrix.ndim == 1 else matrix
    return jnp.pad(matrix, (0, width - matrix.shape[0]))


def _axis(axis: ArrayLike | str) -> ArrayLike:
    if isinstance(axis, str):
        if axis not in _AXES:
            raise ValueError(f"`axis` must be 'x', 'y', 'z' or a vector (3,), got {axis!r}.")
        return np.array(_AXES[axis])
    return axis if hasattr(axis, "shape") else np.asarray(axis)
