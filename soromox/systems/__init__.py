"""Robots."""

from soromox.systems import base_poses as base_poses
from soromox.systems.articulated import (
    ArticulatedSoftRobot as ArticulatedSoftRobot,
    ArticulatedSoftRobotParams as ArticulatedSoftRobotParams,
)
from soromox.systems.pendulum import Pendulum as Pendulum, PendulumParams as PendulumParams
from soromox.systems.plan import BaseLink as BaseLink, BodyPlan as BodyPlan
from soromox.systems.soft_robot import SoftRobot as SoftRobot
