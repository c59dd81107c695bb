"""An arm of crossed joint pairs, each moved by a group of McKibben muscles."""

import zipfile
import zlib
from os import PathLike
from typing import TypeVar

import numpy as np
from jaxtyping import Array, Float

from soromox.actuation import (
    Actuator,
    ArticulatedMcKibbenActuator,
    ArticulatedMcKibbenTransmissionParams,
    PassiveElement,
)
from soromox.numerics.checks import ArrayLike
from soromox.numerics.parameters import Parameters
from soromox.systems import base_poses
from soromox.systems.articulated import ArticulatedSoftRobotParams, check_inertia, spatial_link_plan
from soromox.systems.installation import (
    install_actuators,
    install_base,
    install_params,
    install_passive_elements,
)
from soromox.systems.links import RigidLinks
from soromox.systems.plan import BaseLink, BodyPlan


# the arm is a serial chain of links; the numbers of its muscles are those of its actuator
McKibbenActuatedUMArmParams = ArticulatedSoftRobotParams

ParamsT = TypeVar("ParamsT", bound=Parameters)

# the axes of a hanging base, in the order of its rows: local x is down
_FROM_HANGING = np.array([[0.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
_METADATA = {
    "schema_version": "mckibben_umarm_params_v1",
    "length_unit": "m",
    "mass_unit": "kg",
    "angle_unit": "rad",
    "pressure_unit": "Pa",
}
_LINK_ARRAYS = {
    "joint_screw": "joint_screw",
    "tip_position": "tip_position",
    "center_of_mass_position": "center_of_mass_position",
    "mass": "mass",
    "center_of_mass_inertia": "center_of_mass_inertia",
    "gravity": "gravity",
    "joint_stiffness": "joint_stiffness",
    "joint_damping": "joint_damping",
    "joint_rest_configuration": "joint_rest_configuration",
    "armature": "joint_armature",
    "parent_to_joint_transform": "parent_to_joint_transform",
    "radius": "radius",
}
_MUSCLE_ARRAYS = {
    name: f"mckibben_{name}"
    for name in (
        "moving_base_transform",
        "moving_points",
        "fixed_points",
        "reference_length",
        "length_offset",
        "thread_length",
        "num_turns",
        "joint_pair_indices",
    )
}


class McKibbenActuatedUMArm(RigidLinks):
    """A serial arm of universal joints (pairs of crossed hinges) between rigid links.

    `actuator` are the muscles across the pairs, an `ArticulatedMcKibbenActuator` as a rule, or any
    other (several in a tuple); `None` installs one torque per joint. The arm is horizontal by
    default (`base_pose` the identity).
    """

    params: McKibbenActuatedUMArmParams
    actuators: tuple[Actuator, ...]
    passive_elements: tuple[PassiveElement, ...]
    base_pose: Float[Array, "7"] | None
    floating_base: BaseLink | None

    def __init__(
        self,
        params: McKibbenActuatedUMArmParams,
        actuator: Actuator | tuple[Actuator, ...] | None = None,
        *,
        passive_elements: PassiveElement | tuple[PassiveElement, ...] | None = None,
        base_pose: ArrayLike | None = None,
        floating_base: bool | BaseLink | None = False,
    ):
        self.params = install_params(params, McKibbenActuatedUMArmParams)
        check_inertia(params, self.joint_parents)
        self.actuators = install_actuators(actuator, params.mass.size)
        self.passive_elements = install_passive_elements(passive_elements)
        self.base_pose, self.floating_base = install_base(
            base_pose,
            floating_base,
            False,
            params.mass.dtype,
            default=base_poses.horizontal(),
            starts_with_joint=True,
        )

    @classmethod
    def from_cached_parameters(
        cls,
        path: str | PathLike,
        *,
        passive_elements: PassiveElement | tuple[PassiveElement, ...] | None = None,
        base_pose: ArrayLike | None = None,
    ) -> "McKibbenActuatedUMArm":
        """The arm whose links and muscles are stored in an npz file.

        The file holds the arrays of `McKibbenActuatedUMArmParams` (`armature` as `joint_armature`)
        and, each with the prefix `mckibben_`, of `ArticulatedMcKibbenTransmissionParams`. Nothing
        in it is unpickled.

        The file describes the arm as it hangs in the world, from the place of its first joint. Here
        `base_pose` mounts it instead: that place is left out, and the backbone of the straight arm
        runs along the local x axis of the base.

        Raises `ValueError`, naming the array that is missing or damaged, and `FileNotFoundError`.
        """
        arrays = _read(path, (*_LINK_ARRAYS.values(), *_MUSCLE_ARRAYS.values()))
        links = {name: arrays[stored] for name, stored in _LINK_ARRAYS.items()}
        muscles = {name: arrays[stored] for name, stored in _MUSCLE_ARRAYS.items()}
        for table in (_LINK_ARRAYS, _MUSCLE_ARRAYS):
            _check_counts({stored: arrays[stored] for stored in table.values()}, path)
        links["parent_to_joint_transform"] = _unmounted(links["parent_to_joint_transform"])
        transmission = _build(ArticulatedMcKibbenTransmissionParams, muscles, _MUSCLE_ARRAYS, path)
        params = _build(McKibbenActuatedUMArmParams, links, _LINK_ARRAYS, path)
        actuator = ArticulatedMcKibbenActuator(transmission)
        return cls(params, actuator, passive_elements=passive_elements, base_pose=base_pose)

    @property
    def is_planar(self) -> bool:
        return False

    @property
    def joint_parents(self) -> tuple[int, ...]:
        return tuple(range(-1, self.num_internal_dofs - 1))

    @property
    def joint_screws(self) -> Float[Array, "n 6"]:
        return self.params.joint_screw

    def body_plan(self) -> BodyPlan:
        return spatial_link_plan(self.params, self.joint_parents)


def _build(
    kind: type[ParamsT], numbers: dict[str, np.ndarray], table: dict[str, str], path: str | PathLike
) -> ParamsT:
    """Params of arrays in a file; errors name them as they are stored."""
    try:
        return kind(**numbers)
    except (ValueError, TypeError) as error:
        text = str(error)
        for name, stored in table.items():
            text = text.replace(f"`{name}`", f"`{stored}`")
        raise ValueError(f"{path} holds no parameters of a UMArm: {text}") from error


def _unmounted(frames: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    if frames.ndim != 3 or frames.shape[1:] != (4, 4):
        return frames  # the params refuse it
    first = np.eye(4)
    first[:3, :3] = _FROM_HANGING @ frames[0, :3, :3]
    return np.concatenate([first[None], frames[1:]])


def _check_counts(arrays: dict[str, np.ndarray], path: str | PathLike) -> None:
    """Names the array with another number of rows than most have; a single number has none."""
    rows = {name: len(x) if x.ndim else 0 for name, x in arrays.items() if name != "gravity"}
    counts = list(rows.values())
    usual = max(counts, key=counts.count, default=0)
    for name, count in rows.items():
        if count != usual:
            raise ValueError(
                f"The array `{name}` in {path} has {count} rows where others have {usual}."
            )


def _read(path: str | PathLike, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    with open(path, "rb") as stream:
        try:
            file = np.load(stream, allow_pickle=False)
        except (ValueError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} is no npz file, or is cut off: {error}") from error
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise ValueError(f"{path} holds one array; an npz file with named arrays is needed.")
        with file:
            for name, needed in _METADATA.items():
                came = str(_array(file, name, path)) if name in file else needed
                if came != needed:
                    raise ValueError(f"{path} has `{name}` {came}; {needed} is needed.")
            missing = [name for name in names if name not in file]
            if missing:
                plural = "s" if len(missing) > 1 else ""
                raise ValueError(f"{path} lacks the array{plural} `{'`, `'.join(missing)}`.")
            return {name: _array(file, name, path) for name in names}


def _array(file: np.lib.npyio.NpzFile, name: str, path: str | PathLike) -> np.ndarray:
    try:
        return file[name]
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"The array `{name}` in {path} is damaged: {error}") from error
