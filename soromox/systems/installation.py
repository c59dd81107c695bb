"""What every constructor of a robot does with its keywords."""

from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Array, Float

from soromox.actuation import Actuator, IdentityActuator, PassiveElement
from soromox.numerics.checks import ArrayLike, as_array, check_finite, check_values
from soromox.numerics.parameters import Parameters
from soromox.systems import base_poses
from soromox.systems.plan import BaseLink


ParamsT = TypeVar("ParamsT", bound=Parameters)


def install_params(params: ParamsT, kind: type[ParamsT]) -> ParamsT:
    if not isinstance(params, kind):
        raise TypeError(f"`params` needs {kind.__name__}, got {type(params).__name__}.")
    return params


def check_list(parts: Any, kind: type, name: str) -> None:
    """Raises `TypeError` for anything but one of this kind or an iterable."""
    if not isinstance(parts, (kind, Iterable)):
        raise TypeError(
            f"`{name}` needs a {kind.__name__} or a list of them, got {type(parts).__name__}."
        )


def check_moved_inertia(moved: Float[np.ndarray, " joints"], need: str) -> None:
    """Raises `ValueError` for a joint that moves nothing with inertia: `M` would be singular."""
    still = np.flatnonzero(moved == 0)
    if still.size:
        raise ValueError(f"Joint {still[0]} moves no inertia: give {need.format(link=still[0])}.")


def install_actuators(
    actuators: Actuator | tuple[Actuator, ...] | list[Actuator] | None, num_internal_dofs: int
) -> tuple[Actuator, ...]:
    """`None` is identity actuation, one actuator stands for a tuple of one."""
    if actuators is None:
        return (IdentityActuator(num_internal_dofs),)
    return _tuple_of(actuators, Actuator, "actuators")


def install_passive_elements(
    elements: PassiveElement | tuple[PassiveElement, ...] | list[PassiveElement] | None,
) -> tuple[PassiveElement, ...]:
    return () if elements is None else _tuple_of(elements, PassiveElement, "passive_elements")


def install_base(
    base_pose: ArrayLike | None,
    floating_base: bool | BaseLink | None,
    is_planar: bool,
    dtype: np.dtype,
    default: Float[np.ndarray, " pose"] | None = None,
    starts_with_joint: bool = False,
) -> tuple[Float[Array, " pose"] | None, BaseLink | None]:
    """The pose of a fixed base, or the link of a floating one; upright by default.

    A robot that `starts_with_joint` needs inertia in the base link: without it the base and the
    first joint could turn against each other for free, and the inertia matrix were singular.
    """
    if floating_base is None or floating_base is False:
        if base_pose is None:
            base_pose = base_poses.upright(planar=is_planar) if default is None else default
        vector = base_poses.as_pose_vector(base_pose, is_planar)
        vector = as_array(vector, "base_pose", dtype, (3 if is_planar else 7,))
        check_finite(vector, "base_pose")
        if not is_planar:
            check_values(
                vector,
                lambda pose: np.linalg.norm(pose[:4]) > 0,
                "`base_pose` needs a quaternion other than zero.",
            )
        return vector, None
    if base_pose is not None:
        raise ValueError(
            "`base_pose` fixes the base, `floating_base` frees it: give one of them. "
            "The pose of a floating base is in the first coordinates of `q`."
        )
    link = BaseLink(is_planar=is_planar) if floating_base is True else floating_base
    if not isinstance(link, BaseLink):
        raise TypeError(f"`floating_base` needs a bool or a BaseLink, got {link!r}.")
    if link.is_planar != is_planar:
        where = "planar" if is_planar else "spatial"
        raise ValueError(f"`floating_base` needs the inertia of a {where} link.")
    if starts_with_joint:
        need = "A `floating_base` in front of a joint needs BaseLink(mass=..., inertia=...) with "
        check_values(link.mass, lambda m: m > 0, need + "positive mass.")
        check_values(
            link.inertia,
            lambda inertia: np.linalg.eigvalsh(np.atleast_2d(inertia)) > 0,
            need + "positive definite inertia.",
        )
    numbers = [
        as_array(x, name, dtype)
        for name, x in zip(
            ("mass", "inertia", "center_of_mass"),
            (link.mass, link.inertia, link.center_of_mass),
            strict=True,
        )
    ]
    return None, BaseLink(*numbers, is_planar=is_planar)


def _tuple_of(parts, kind: type, name: str) -> tuple:
    parts = parts if isinstance(parts, (tuple, list)) else (parts,)
    for part in parts:
        if not isinstance(part, kind):
            raise TypeError(f"`{name}` needs {kind.__name__} objects, got {type(part).__name__}.")
    return tuple(parts)
