"""Robots."""

from soromox.simulation.state import SystemState as SystemState
from soromox.systems import base_poses as base_poses
from soromox.systems.articulated import (
    ArticulatedSoftRobot as ArticulatedSoftRobot,
    ArticulatedSoftRobotParams as ArticulatedSoftRobotParams,
)
from soromox.systems.continuum_links import (
    ContinuumLinkParams as ContinuumLinkParams,
    ElasticMaterial as ElasticMaterial,
    ExplicitMaterial as ExplicitMaterial,
)
from soromox.systems.continuum_robot import ContinuumRobot as ContinuumRobot
from soromox.systems.gvs import GVS as GVS
from soromox.systems.gvs_structure import (
    GVSParams as GVSParams,
    GVSSegment as GVSSegment,
    GVSStructure as GVSStructure,
)
from soromox.systems.joint_states import (
    JointState as JointState,
    joint_state as joint_state,
    with_joint_state as with_joint_state,
)
from soromox.systems.joints import JointParams as JointParams, JointSpec as JointSpec
from soromox.systems.link_specs import LinkSpec as LinkSpec
from soromox.systems.pcs import (
    PCS as PCS,
    ConstantStrainRod as ConstantStrainRod,
    PCSParams as PCSParams,
    PCSStructure as PCSStructure,
    PlanarPCS as PlanarPCS,
    PlanarPCSParams as PlanarPCSParams,
    PlanarPCSStructure as PlanarPCSStructure,
)
from soromox.systems.pendulum import Pendulum as Pendulum, PendulumParams as PendulumParams
from soromox.systems.plan import BaseLink as BaseLink, BodyPlan as BodyPlan
from soromox.systems.sections import (
    CrossSectionGeometry as CrossSectionGeometry,
    LinearProfile as LinearProfile,
)
from soromox.systems.soft_robot import SoftRobot as SoftRobot
from soromox.systems.strain_bases import StrainBasisSpec as StrainBasisSpec
from soromox.systems.umarm import (
    McKibbenActuatedUMArm as McKibbenActuatedUMArm,
    McKibbenActuatedUMArmParams as McKibbenActuatedUMArmParams,
)
