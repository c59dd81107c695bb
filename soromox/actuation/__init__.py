"""What drives and restrains a robot: transmissions, effort laws, actuators, passive elements."""

from soromox.actuation.actuators import (
    BareTransmission as BareTransmission,
    TransmissionActuator as TransmissionActuator,
)
from soromox.actuation.affine import (
    AffineGeneralizedCoordinateActuator as AffineGeneralizedCoordinateActuator,
    AffineGeneralizedCoordinateTransmission as AffineGeneralizedCoordinateTransmission,
    AffineGeneralizedCoordinateTransmissionParams as AffineGeneralizedCoordinateTransmissionParams,
    AffineJointTransmission as AffineJointTransmission,
    IdentityActuator as IdentityActuator,
    IdentityTransmission as IdentityTransmission,
)
from soromox.actuation.articulated_tendon import (
    ArticulatedTendonActuator as ArticulatedTendonActuator,
    ArticulatedTendonTransmission as ArticulatedTendonTransmission,
    ArticulatedTendonTransmissionParams as ArticulatedTendonTransmissionParams,
)
from soromox.actuation.channels import (
    ActuatorMetadata as ActuatorMetadata,
)
from soromox.actuation.core import (
    ActuatedHost as ActuatedHost,
    Actuator as Actuator,
    ActuatorParams as ActuatorParams,
    PassiveElement as PassiveElement,
)
from soromox.actuation.efforts import (
    DirectEffort as DirectEffort,
    DisplacementControl as DisplacementControl,
    ForceControl as ForceControl,
    McKibbenMuscle as McKibbenMuscle,
    PotentialEffort as PotentialEffort,
)
from soromox.actuation.impedance import (
    AbstractImpedance as AbstractImpedance,
    ArticulatedTendonImpedance as ArticulatedTendonImpedance,
    TransmissionImpedance as TransmissionImpedance,
    TransmissionImpedanceParams as TransmissionImpedanceParams,
)
from soromox.actuation.laws import (
    EffortModel as EffortModel,
    RestoringLaw as RestoringLaw,
    RestrictedControl as RestrictedControl,
    StatefulLaw as StatefulLaw,
)
from soromox.actuation.mckibben import (
    ArticulatedMcKibbenActuator as ArticulatedMcKibbenActuator,
    ArticulatedMcKibbenTransmission as ArticulatedMcKibbenTransmission,
    ArticulatedMcKibbenTransmissionParams as ArticulatedMcKibbenTransmissionParams,
)
from soromox.actuation.spatial_tendon import (
    LinearJoint as LinearJoint,
    MaterialPoint as MaterialPoint,
    SpatialTendonTransmission as SpatialTendonTransmission,
    SpatialTendonTransmissionParams as SpatialTendonTransmissionParams,
    Waypoint as Waypoint,
)
from soromox.actuation.stateful import (
    CapstanFriction as CapstanFriction,
    FirstOrderActivation as FirstOrderActivation,
    HillMuscle as HillMuscle,
    PressureDynamics as PressureDynamics,
    SaturatedControl as SaturatedControl,
)
from soromox.actuation.threadlike import (
    ThreadlikeTransmission as ThreadlikeTransmission,
    ThreadlikeTransmissionParams as ThreadlikeTransmissionParams,
)
from soromox.actuation.threadlike_actuators import (
    ThreadlikeActuator as ThreadlikeActuator,
    ThreadlikeImpedance as ThreadlikeImpedance,
    ThreadlikeImpedanceParams as ThreadlikeImpedanceParams,
)
from soromox.actuation.threadlike_routing import (
    BaseThreadlikeRoutingParams as BaseThreadlikeRoutingParams,
    LinearThreadlikeRoutingParams as LinearThreadlikeRoutingParams,
    ThreadlikeRouting as ThreadlikeRouting,
)
from soromox.actuation.transmission import (
    PathTransmission as PathTransmission,
    SizedTransmission as SizedTransmission,
    Transmission as Transmission,
)
