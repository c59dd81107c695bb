"""Passive elements that act along a transmission: springs and dampers of its coordinates."""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from equinox import AbstractVar
from jaxtyping import Array, Float, Scalar

from soromox.actuation.articulated_tendon import (
    ArticulatedTendonTransmission,
    ArticulatedTendonTransmissionParams,
)
from soromox.actuation.core import PassiveElement
from soromox.actuation.transmission import SizedTransmission, Transmission
from soromox.chain.hosts import Host
from soromox.numerics.checks import (
    ArrayLike,
    as_array,
    broadcast,
    check_finite,
    check_non_negative,
    float_dtype,
)
from soromox.numerics.parameters import Parameters


def needs_installed_transmission(element: "AbstractImpedance", host: Host) -> None:
    """The transmission must fit the host, and the element the transmission."""
    element.transmission.install_check(host)
    count = element.transmission.num_coordinates(host)
    if element.num_coordinates != count:
        raise ValueError(
            f"`{type(element).__name__}` has numbers for {element.num_coordinates} coordinates, "
            f"but its `{type(element.transmission).__name__}` has {count} on this "
            f"{type(host).__name__}."
        )


class AbstractImpedance(PassiveElement):
    """A passive element that is a function of a transmission's coordinates.

    The implicit step treats these like actuators, so stiff ones cost no small steps.
    """

    transmission: AbstractVar[Transmission]
    requirements: ClassVar[tuple] = (needs_installed_transmission,)

    @property
    @abc.abstractmethod
    def num_coordinates(self) -> int:
        """Number of coordinates that the element has numbers for."""

    @abc.abstractmethod
    def stored(self, y: Float[Array, " coordinates"]) -> Scalar:
        """Energy U(y) [J]."""

    @abc.abstractmethod
    def dissipated(self, yd: Float[Array, " coordinates"]) -> Scalar:
        """Dissipation potential R(yd) [W]."""

    def effort(
        self, y: Float[Array, " coordinates"], yd: Float[Array, " coordinates"]
    ) -> Float[Array, " coordinates"]:
        """`e = -(dU/dy + dR/dyd)`."""
        return -jax.grad(self.stored)(y) - jax.grad(self.dissipated)(yd)

    def energy(self, robot: Host, q: Float[Array, " dofs"]) -> Scalar:
        return self.stored(self.transmission.coordinates(robot, q))

    def dissipation(
        self, robot: Host, q: Float[Array, " dofs"], qd: Float[Array, " dofs"]
    ) -> Scalar:
        return self.dissipated(self.transmission.velocities(robot, q, qd))


class TransmissionImpedanceParams(Parameters):
    """The numbers of linear springs and dampers, one for each coordinate.

    `transmission` is the params node of the transmission (or the transmission, if it has none).
    """

    transmission: Parameters
    stiffness: Float[Array, " coordinates"]
    damping: Float[Array, " coordinates"]
    rest_coordinate: Float[Array, " coordinates"]

    # `Any`, because tree operations read params of robots whose leaves are no arrays
    def __init__(self, transmission: Any, stiffness: Any, damping: Any, rest_coordinate: Any):
        self.transmission = transmission
        self.stiffness = stiffness
        self.damping = damping
        self.rest_coordinate = rest_coordinate
        check_impedance(stiffness, damping, rest_coordinate)


class TransmissionImpedance(AbstractImpedance):
    """A linear spring and damper on each coordinate of any transmission.

    `U = 1/2 sum k (y - y_rest)^2`, `R = 1/2 sum c yd^2`.
    """

    params_type: ClassVar[type[Parameters]] = TransmissionImpedanceParams

    transmission: Transmission
    stiffness: Float[Array, " coordinates"]  # [N/m] for a length
    damping: Float[Array, " coordinates"]  # [N s/m] for a length
    rest_coordinate: Float[Array, " coordinates"]

    def __init__(
        self,
        transmission: Transmission,
        stiffness: ArrayLike,
        damping: ArrayLike = 0.0,
        rest_coordinate: ArrayLike = 0.0,
    ):
        """Scalars hold for all coordinates."""
        if not isinstance(transmission, Transmission):
            raise TypeError(
                f"`transmission` needs a `Transmission`, got {type(transmission).__name__}."
            )
        values = impedance_numbers(transmission, stiffness, damping, rest_coordinate)
        self.transmission = transmission
        self.stiffness, self.damping, self.rest_coordinate = values

    @property
    def num_coordinates(self) -> int:
        return self.stiffness.shape[0]

    def stored(self, y: Float[Array, " coordinates"]) -> Scalar:
        return quadratic(self.stiffness, y - self.rest_coordinate)

    def dissipated(self, yd: Float[Array, " coordinates"]) -> Scalar:
        return quadratic(self.damping, yd)


class ArticulatedTendonImpedance(AbstractImpedance):
    """Elastic, viscous tendons of constant moment arms.

    `U = 1/2 sum k (y - y_rest)^2` with `y = R (q - q_ref) + y_0` (the offset counts) and
    `y_rest = 0` by default.
    """

    params_type: ClassVar[type[Parameters]] = TransmissionImpedanceParams

    transmission: ArticulatedTendonTransmission
    stiffness: Float[Array, " tendons"]  # [N/m]
    damping: Float[Array, " tendons"]  # [N s/m]
    rest_coordinate: Float[Array, " tendons"]  # [m]

    @classmethod
    def from_routing(
        cls,
        routing_matrix: ArrayLike,
        stiffness: ArrayLike,
        damping: ArrayLike = 0.0,
        reference_configuration: ArrayLike | None = None,
        coordinate_offset: ArrayLike | None = None,
        rest_coordinate: ArrayLike = 0.0,
    ) -> "ArticulatedTendonImpedance":
        """One row of moment arms [m] for each tendon; scalars hold for all tendons."""
        params = ArticulatedTendonTransmissionParams(
            routing_matrix, reference_configuration, coordinate_offset
        )
        transmission = ArticulatedTendonTransmission(params)
        values = impedance_numbers(transmission, stiffness, damping, rest_coordinate)
        return cls(transmission, *values)

    @property
    def num_coordinates(self) -> int:
        return self.stiffness.shape[0]

    def stored(self, y: Float[Array, " tendons"]) -> Scalar:
        return quadratic(self.stiffness, y - self.rest_coordinate)

    def dissipated(self, yd: Float[Array, " tendons"]) -> Scalar:
        return quadratic(self.damping, yd)


def quadratic(weights: Float[Array, " n"], x: Float[Array, " n"]) -> Scalar:
    """`1/2 sum_i weights_i x_i^2`."""
    return jnp.sum(weights * x**2) / 2


def impedance_numbers(
    transmission: Transmission,
    stiffness: ArrayLike,
    damping: ArrayLike,
    rest_coordinate: ArrayLike,
) -> tuple[Float[Array, " m"], Float[Array, " m"], Float[Array, " m"]]:
    """Stiffness, damping and rest coordinate, one for each coordinate, checked."""
    leaves = jax.tree.leaves(transmission)
    dtype = float_dtype(*leaves, stiffness, damping, rest_coordinate)
    stiffness = as_array(stiffness, "stiffness", dtype)
    damping = as_array(damping, "damping", dtype)
    rest = as_array(rest_coordinate, "rest_coordinate", dtype)
    if isinstance(transmission, SizedTransmission):
        count = transmission.size
    else:
        count = max([1, *(value.shape[0] for value in (stiffness, damping, rest) if value.ndim)])
    values = (
        broadcast(stiffness, "stiffness", dtype, count),
        broadcast(damping, "damping", dtype, count),
        broadcast(rest, "rest_coordinate", dtype, count),
    )
    check_impedance(*values)
    return values


def check_impedance(stiffness: Any, damping: Any, rest: Any, is_length: bool = False) -> None:
    """Raises unless stiffness, damping and a rest length are non-negative and all are finite."""
    if not all(eqx.is_array_like(value) for value in (stiffness, damping, rest)):
        return  # stand-ins within a tree operation
    check_non_negative(stiffness, "stiffness")
    check_non_negative(damping, "damping")
    if is_length:
        check_non_negative(rest, "rest_length")
    else:
        check_finite(rest, "rest_coordinate")
