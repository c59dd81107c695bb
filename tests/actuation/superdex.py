"""Robots and tendons of the cases in `reference/superdex`."""

import json
from pathlib import Path

import numpy as np

from soromox.actuation import (
    Actuator,
    AffineJointTransmission,
    DisplacementControl,
    EffortModel,
    ForceControl,
    LinearJoint,
    McKibbenMuscle,
    SpatialTendonTransmission,
    Transmission,
    Waypoint,
)
from soromox.systems import ArticulatedSoftRobot, ArticulatedSoftRobotParams


def load(folder: Path, case: str) -> dict:
    return json.loads((folder / "superdex" / f"{case}.json").read_text())


def rotation(quaternion: list[float]) -> np.ndarray:
    x, y, z, w = np.array(quaternion) / np.linalg.norm(quaternion)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + 2 * w * cross + 2 * cross @ cross


def robot(
    mechanism: dict, actuators: tuple[Actuator, ...] = (), gravity: tuple = (0.0, 0.0, 0.0)
) -> ArticulatedSoftRobot:
    """The mechanism with our link frames, which stand at the joints."""
    joints, links = mechanism["joints"], mechanism["links"]
    shift = link_shifts(mechanism)
    screws, frames, inertias = [], [], []
    for joint, link in zip(joints, links, strict=True):
        axis = np.array(joint["axis"], float) / np.linalg.norm(joint["axis"])
        moves = joint["type"] == "prismatic"
        screws.append(np.concatenate([np.zeros(3), axis] if moves else [axis, np.zeros(3)]))
        frame = np.eye(4)
        frame[:3, :3] = rotation(joint["parent_link_from_joint_quat_xyzw"])
        frame[:3, 3] = joint["parent_link_from_joint_translation"]
        if link["parent"] >= 0:
            frame[:3, 3] += shift[link["parent"]]
        frames.append(frame)
        ixx, ixy, ixz, iyy, iyz, izz = link["inertia_com_ixx_ixy_ixz_iyy_iyz_izz"]
        inertias.append([[ixx, ixy, ixz], [ixy, iyy, iyz], [ixz, iyz, izz]])
    params = ArticulatedSoftRobotParams(
        joint_screw=np.array(screws),
        tip_position=np.zeros((len(links), 3)),
        center_of_mass_position=np.array([link["center_of_mass"] for link in links]) + shift,
        mass=np.array([link["mass"] for link in links]),
        center_of_mass_inertia=np.array(inertias),
        gravity=np.array(gravity, float),
        parent_to_joint_transform=np.array(frames),
    )
    base = mechanism["world_from_root_quat_xyzw"] + mechanism["world_from_root_translation"]
    parents = tuple(link["parent"] for link in links)
    return ArticulatedSoftRobot(params, parents, actuators=actuators, base_pose=np.array(base))


def link_shifts(mechanism: dict) -> np.ndarray:
    """Their link frames in ours."""
    return np.array([link["parent_joint_from_link_translation"] for link in mechanism["links"]])


def elements(transmission: dict, mechanism: dict) -> list[Waypoint | LinearJoint]:
    shift = link_shifts(mechanism)
    return [
        Waypoint(element["link"], np.array(element["local_position"]) + shift[element["link"]])
        if element["type"] == "waypoint"
        else LinearJoint(element["joint"], element["coefficient"])
        for element in transmission["elements"]
    ]


def transmission(record: dict, mechanism: dict) -> Transmission:
    if record["kind"] == "spatial":
        return SpatialTendonTransmission(elements(record, mechanism))
    count = len(mechanism["joints"])
    return AffineJointTransmission.linear(count, record["joints"], record["coefficients"])


def law(record: dict) -> tuple[EffortModel, float]:
    """The law and its command."""
    if record["kind"] == "force_control":
        return ForceControl(record["allow_compressive_force"]), record["force"]
    if record["kind"] == "displacement_control":
        allow = record["allow_compressive_force"]
        law = DisplacementControl(record["stiffness"], record["damping"], allow)
        return law, record["target_displacement"]
    names = ("minimum_pressure", "deflated_stiffness", "deflated_equilibrium_length")
    law = McKibbenMuscle(
        thread_length=record["thread_length"],
        number_of_turns=record["number_of_wraps"],
        **{name: record[name] for name in names},
    )
    return law, record["pressure"]
