"""One small instance of each kind of transmission, with a robot that carries it.

Adding a kind means adding one line to `TRANSMISSIONS`.
"""

from collections.abc import Callable

from jaxtyping import Array, Float

from soromox.actuation import (
    AffineGeneralizedCoordinateTransmission,
    AffineGeneralizedCoordinateTransmissionParams,
    ArticulatedMcKibbenTransmission,
    ArticulatedTendonTransmission,
    ArticulatedTendonTransmissionParams,
    IdentityTransmission,
    LinearJoint,
    MaterialPoint,
    SpatialTendonTransmission,
    ThreadlikeRouting,
    ThreadlikeTransmission,
    Transmission,
    Waypoint,
)
from soromox.chain.hosts import Host
from soromox.systems import (
    GVS,
    GVSSegment,
    JointSpec,
    LinkSpec,
    PlanarPCS,
    SoftRobot,
    StrainBasisSpec,
)
from tests.hosts import ROUTING, floating_pendulum, hand, muscle_params, pendulum, umarm


class Square(Transmission):
    """What an outsider writes: `y = q^2` of each coordinate."""

    orientation = "generic"

    def coordinates(self, robot: Host, q: Float[Array, " dofs"]) -> Float[Array, " dofs"]:
        return q**2


def affine() -> tuple[SoftRobot, Transmission]:
    params = AffineGeneralizedCoordinateTransmissionParams(
        [[0.1, 0.0, -0.3], [0.2, 0.0, -0.6]], [0.1, 0.2, 0.3], [0.01, -0.02]
    )
    return floating_pendulum(), AffineGeneralizedCoordinateTransmission(params)


def gear() -> tuple[SoftRobot, Transmission]:
    return pendulum(), AffineGeneralizedCoordinateTransmission.linear(
        3, (2, 0, 2), (0.4, -0.3, 0.6)
    )


def articulated_tendon() -> tuple[SoftRobot, Transmission]:
    params = ArticulatedTendonTransmissionParams(ROUTING, coordinate_offset=[0.018, 0.025])
    return pendulum(), ArticulatedTendonTransmission(params)


def planar_spatial_tendon() -> tuple[SoftRobot, Transmission]:
    return pendulum(), SpatialTendonTransmission(
        [
            Waypoint(-1, [-0.05, 0.06, 0.0]),
            Waypoint(0, [0.1, 0.05, 0.0]),
            Waypoint(2, [0.2, 0.02, 0.0]),
        ]
    )


def spatial_tendons() -> tuple[SoftRobot, Transmission]:
    """Two tendons on a tree; the second breaks at a joint that it wraps around."""
    first = [
        Waypoint(-1, [0.1, 0.0, 0.05]),
        Waypoint(0, [0.0, 0.1, 0.0]),
        Waypoint(1, [0.1, 0.2, 0.3]),
    ]
    second = [
        Waypoint(3, [0.02, 0.0, 0.01]),
        Waypoint(3, [0.2, 0.1, 0.0]),
        LinearJoint(4, 0.02),
        Waypoint(4, [0.0, 0.1, 0.1]),
        Waypoint(5, [0.1, 0.1, 0.0]),
    ]
    return hand(), SpatialTendonTransmission(first, second)


def material_tendon() -> tuple[SoftRobot, Transmission]:
    """A straight cable from the floating base beside two soft segments."""
    link = LinkSpec.circular(
        length=0.1, radius=0.01, density=1000.0, young_modulus=1e5, poisson_ratio=0.5
    )
    points = [MaterialPoint(s, [0.0, 0.008, 0.0]) for s in (0.0, 0.07, 0.15, 0.2)]
    robot = PlanarPCS.from_links([link, link], floating_base=True)
    return robot, SpatialTendonTransmission([Waypoint(-1, [-0.03, 0.02, 0.0]), *points])


def threadlike_paths() -> tuple[SoftRobot, Transmission]:
    """Two paths on both sides of a rod; one crosses a joint with a rotation and a translation."""
    link = LinkSpec.circular(
        length=0.1, radius=0.01, density=1000.0, young_modulus=1e5, poisson_ratio=0.5
    )
    soft = GVSSegment(link, basis=StrainBasisSpec("legendre", ["kappa_y", "kappa_z"], 1))
    rigid = GVSSegment(link, JointSpec.helical([1.0, 1.0, 2.0], 0.01))
    routing = ThreadlikeRouting.linear(
        [[0.0, 0.006, 0.002], [0.0, -0.005, 0.001]],
        [[0.0, 0.01, 0.0], [0.0, 0.0, -0.01]],
        0,
        (1, 0),
    )
    robot = GVS.from_segments([soft, rigid], floating_base=True)
    return robot, ThreadlikeTransmission(routing)


def muscles() -> tuple[SoftRobot, Transmission]:
    return umarm(), ArticulatedMcKibbenTransmission(muscle_params())


TRANSMISSIONS: dict[str, Callable[[], tuple[SoftRobot, Transmission]]] = {
    "identity": lambda: (floating_pendulum(), IdentityTransmission()),
    "affine": affine,
    "gear": gear,
    "articulated_tendon": articulated_tendon,
    "planar_spatial_tendon": planar_spatial_tendon,
    "spatial_tendons": spatial_tendons,
    "material_tendon": material_tendon,
    "threadlike_paths": threadlike_paths,
    "muscles": muscles,
    "outsider": lambda: (pendulum(), Square()),
}
