"""One small instance of each kind of transmission, with a robot that carries it.

Adding a kind means adding one line to `TRANSMISSIONS`.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Array, Float

from soromox.actuation import (
    AffineGeneralizedCoordinateTransmission,
    AffineGeneralizedCoordinateTransmissionParams,
    ArticulatedMcKibbenTransmission,
    ArticulatedMcKibbenTransmissionParams,
    ArticulatedTendonTransmission,
    ArticulatedTendonTransmissionParams,
    IdentityTransmission,
    LinearJoint,
    MaterialPoint,
    SpatialTendonTransmission,
    Transmission,
    Waypoint,
)
from soromox.chain.hosts import Host
from soromox.systems import ArticulatedSoftRobot, LinkSpec, PlanarPCS, SoftRobot
from tests.hosts import ROUTING, floating_pendulum, hand, link_params, pendulum


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
    """A straight cable beside two soft segments."""
    link = LinkSpec.circular(
        length=0.1, radius=0.01, density=1000.0, young_modulus=1e5, poisson_ratio=0.5
    )
    points = [MaterialPoint(s, [0.0, 0.008, 0.0]) for s in (0.0, 0.07, 0.15, 0.2)]
    return PlanarPCS.from_links([link, link]), SpatialTendonTransmission(points)


def muscles() -> tuple[SoftRobot, Transmission]:
    """Four muscles across each of two universal joints."""
    angles = np.arange(4) * np.pi / 2
    ring = np.stack([np.cos(angles), np.sin(angles), np.zeros(4)], axis=-1)
    up = np.array([0.0, 0.0, 0.1])
    params = ArticulatedMcKibbenTransmissionParams(
        moving_base_transform=np.tile(np.eye(4), (2, 1, 1)),
        moving_points=np.tile(0.03 * ring + up, (2, 1, 1)),
        fixed_points=np.tile(0.05 * ring, (2, 1, 1)),
        reference_length=0.1,
        length_offset=0.15,
        thread_length=0.2,
        num_turns=1.1,
        joint_pair_indices=[(0, 1), (2, 3)],
    )
    axes = np.zeros((4, 6))
    axes[[0, 2], 0] = axes[[1, 3], 1] = 1
    body = link_params(
        4,
        joint_screw=axes,
        tip_position=np.array([[0, 0, 0], [0, 0, 0.3]] * 2, float),
        parent_to_joint_transform=None,
    )
    return ArticulatedSoftRobot(body), ArticulatedMcKibbenTransmission(params)


TRANSMISSIONS: dict[str, Callable[[], tuple[SoftRobot, Transmission]]] = {
    "identity": lambda: (floating_pendulum(), IdentityTransmission()),
    "affine": affine,
    "gear": gear,
    "articulated_tendon": articulated_tendon,
    "planar_spatial_tendon": planar_spatial_tendon,
    "spatial_tendons": spatial_tendons,
    "material_tendon": material_tendon,
    "muscles": muscles,
    "outsider": lambda: (pendulum(), Square()),
}
