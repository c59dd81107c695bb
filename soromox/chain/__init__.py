"""The recursion over a tree of bodies, generic in the group and in the body."""

from soromox.chain.bodies import (
    AbstractBodies as AbstractBodies,
    FreeBodies as FreeBodies,
    Motion as Motion,
    ScrewBodies as ScrewBodies,
)
from soromox.chain.constant_strain import ConstantStrainBodies as ConstantStrainBodies
from soromox.chain.dynamics import chain_inverse_dynamics as chain_inverse_dynamics
from soromox.chain.elimination import Factor as Factor, eliminate as eliminate, solve as solve
from soromox.chain.hosts import (
    Host as Host,
    JointCrossed as JointCrossed,
    JointCrossings as JointCrossings,
    JointRouted as JointRouted,
    LinkFramed as LinkFramed,
    MaterialFramed as MaterialFramed,
    StrainNodes as StrainNodes,
)
from soromox.chain.joint_bodies import ProductJoints as ProductJoints
from soromox.chain.kinematics import (
    Chain as Chain,
    Configuration as Configuration,
    configuration as configuration,
)
from soromox.chain.mechanics import Mechanics as Mechanics
from soromox.chain.strained import Continuum as Continuum, StrainedBodies as StrainedBodies
from soromox.chain.topology import Topology as Topology
from soromox.chain.variable_strain import VariableStrainBodies as VariableStrainBodies
