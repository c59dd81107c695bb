"""Actuators and passive elements: with transmissions and effort laws, the seams of actuation.

A transmission maps the configuration to coordinates `y`; a law turns control, coordinate and
velocity into the conjugate effort `e`; the generalized force is `A e` with `A = (dy/dq)^T`, so that
`qd . tau = yd . e`.
"""

import abc
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from equinox import AbstractVar
from jaxtyping import Array, Float, Scalar

from soromox.actuation.channels import (
    ActuatorMetadata,
    at_rest,
    channel_bounds,
    check_bounds,
)
from soromox.actuation.laws import (
    EffortModel,
    LengthLaw,
    RestoringLaw,
    StatefulLaw,
    layers,
    num_states,
)
from soromox.actuation.parametrised import Composed
from soromox.actuation.transmission import Transmission, check_dtype, sign
from soromox.chain.hosts import Host
from soromox.numerics.checks import ArrayLike
from soromox.numerics.parameters import Parameters


# not `typing.Self`, which a runtime type checker refuses here
ActuatorT = TypeVar("ActuatorT", bound="Actuator")


def law_sign(transmission: Transmission, law: EffortModel) -> int:
    """The sign of the coordinate that a law sees: restoring laws act on `sigma y`."""
    return sign(transmission) if isinstance(law, RestoringLaw) else 1


def law_effort(
    transmission: Transmission,
    law: EffortModel,
    control: Float[Array, " channels"],
    y: Float[Array, " channels"],
    yd: Float[Array, " channels"],
    states: Float[Array, "states channels"] | None = None,
) -> Float[Array, " channels"]:
    """The effort of a law on a transmission, of restoring laws at `sigma y` (see `LengthLaw`)."""
    if isinstance(law, StatefulLaw):
        if states is None:
            states = jnp.zeros((num_states(law), *control.shape), control.dtype)
        own, inner = states[: law.num_states], states[law.num_states :]
        return law_effort(transmission, law.law, law.drive(own, control), y, yd, inner)
    sigma = law_sign(transmission, law)
    x, innermost = sigma * y, layers(law)[-1]
    if transmission.is_whole and isinstance(innermost, LengthLaw):
        x = x - innermost.rest_length
    return sigma * law.effort(control, x, sigma * yd)


class ActuatorParams(Parameters):
    """The numbers of an actuator.

    `transmission` is the params node of the transmission (or the transmission, if it has none).
    """

    transmission: Parameters
    effort_model: EffortModel
    lower_bounds: Float[Array, " channels"]
    upper_bounds: Float[Array, " channels"]

    # `Any`, because tree operations read params of robots whose leaves are no arrays
    def __init__(
        self,
        transmission: Any,
        effort_model: Any,
        lower_bounds: Any,
        upper_bounds: Any,
    ):
        self.transmission = transmission
        self.effort_model = effort_model
        self.lower_bounds = lower_bounds
        self.upper_bounds = upper_bounds
        check_bounds(lower_bounds, upper_bounds)


class Actuator(Composed):
    """A transmission, the law that drives it, and what its channels are.

    Bounds are metadata for controllers and optimisers: inputs are never clipped. `state_variables`
    are the command that holds where a call is given none, then the states of a `StatefulLaw`, state
    by state.
    """

    transmission: AbstractVar[Transmission]
    effort_model: AbstractVar[EffortModel]
    lower_bounds: AbstractVar[Float[Array, " channels"]]
    upper_bounds: AbstractVar[Float[Array, " channels"]]
    state_variables: AbstractVar[Float[Array, " variables"]]
    labels: AbstractVar[tuple[str, ...]]
    units: AbstractVar[tuple[str, ...]]
    kind: AbstractVar[str]
    params_type: ClassVar[type[Parameters]] = ActuatorParams

    @property
    def num_channels(self) -> int:
        """Length of this actuator's part of `u`."""
        return len(self.labels)

    @property
    def command(self) -> Float[Array, " channels"]:
        """The stored command."""
        return self.state_variables[: self.num_channels]

    @property
    def states(self) -> Float[Array, "states channels"]:
        """The stored states of the law."""
        count = num_states(self.effort_model)
        return self.state_variables[self.num_channels :].reshape(count, self.num_channels)

    @property
    def metadata(self) -> ActuatorMetadata:
        return ActuatorMetadata(
            self.kind, self.labels, self.units, self.lower_bounds, self.upper_bounds
        )

    def coordinates(self, robot: Host, q: Float[Array, " dofs"]) -> Float[Array, " coordinates"]:
        """The transmission's coordinates `y(q)`."""
        return self.transmission.coordinates(robot, q)

    def velocities(
        self, robot: Host, q: Float[Array, " dofs"], qd: Float[Array, " dofs"]
    ) -> Float[Array, " coordinates"]:
        """`yd`."""
        return self.transmission.velocities(robot, q, qd)

    def efforts(
        self,
        robot: Host,
        q: Float[Array, " dofs"],
        u: Float[Array, " channels"],
        qd: Float[Array, " dofs"],
    ) -> Float[Array, " channels"]:
        """The efforts `e` conjugate to the coordinates."""
        if self.num_channels == 0:
            return jnp.zeros(0, q.dtype)
        y, yd = jax.jvp(lambda q: self.coordinates(robot, q), (q,), (qd,))
        return law_effort(self.transmission, self.effort_model, u, y, yd, self.states)

    def loads(
        self,
        robot: Host,
        q: Float[Array, " dofs"],
        u: Float[Array, " channels"],
        qd: Float[Array, " dofs"],
    ) -> Float[Array, " channels"]:
        """The loads `-sigma e`, positive in tension."""
        return -sign(self.transmission) * self.efforts(robot, q, u, qd)

    def force(
        self,
        robot: Host,
        q: Float[Array, " dofs"],
        u: Float[Array, " channels"],
        qd: Float[Array, " dofs"],
    ) -> Float[Array, " dofs"]:
        """The generalized force `A e`."""
        if self.num_channels == 0:
            return jnp.zeros_like(q)
        return self.transmission.force(robot, q, self.efforts(robot, q, u, qd))

    def with_law(
        self: ActuatorT,
        effort_model: EffortModel,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> ActuatorT:
        """The same actuator under another law, with commands and states zero.

        Class, transmission, labels, units and kind stay; `bounds` are those of the new control,
        infinite by default.
        """
        count, dtype = self.num_channels, self.lower_bounds.dtype
        lower, upper = (None, None) if bounds is None else bounds
        return eqx.tree_at(
            lambda a: (a.effort_model, a.lower_bounds, a.upper_bounds, a.state_variables),
            self,
            (
                effort_model,
                *channel_bounds(lower, upper, count, dtype),
                at_rest(effort_model, count, dtype),
            ),
            is_leaf=lambda node: node is self.effort_model,
        )

    def check_requirements(self, robot: Host) -> None:
        """Raises if the robot cannot carry the numbers of this actuator's transmission."""
        self.transmission.check_requirements(robot, self._reads_coordinate)

    @property
    def _reads_coordinate(self) -> bool:
        return self.num_channels == 0 or not self.effort_model.is_feedforward

    def install_check(self, robot: Host) -> None:
        """Raises if the robot cannot carry this actuator, before anything is computed."""
        self.transmission.install_check(robot, self._reads_coordinate)
        count = self.transmission.num_coordinates(robot)
        if self.num_channels not in (0, count):
            raise ValueError(
                f"`{type(self).__name__}` has {self.num_channels} channels {self.labels}, but its "
                f"`{type(self.transmission).__name__}` has {count} coordinates on this "
                f"{type(robot).__name__} with {robot.num_internal_dofs} internal dofs. Give one "
                "label and one pair of bounds for each coordinate."
            )
        check_dtype(self.effort_model, robot)
        if self.num_channels:
            y = jax.ShapeDtypeStruct((count,), robot.dtype)
            law = self.effort_model
            _check_coordinate(law, self.transmission)
            variables = count * (1 + num_states(law))
            if self.state_variables.shape != (variables,):
                raise ValueError(
                    f"`state_variables` of `{type(self).__name__}` needs {variables} numbers, the "
                    f"commands and states of {count} channels, got {self.state_variables.shape}."
                )
            effort = jax.eval_shape(law.effort, y, y, y)
            if effort.shape != y.shape:
                raise ValueError(
                    f"The effort of `{type(self.effort_model).__name__}` has shape {effort.shape} "
                    f"for {count} channels; its numbers must be scalars or have one entry for "
                    "each channel."
                )


def _check_coordinate(law: EffortModel, transmission: Transmission) -> None:
    orientation, name = transmission.orientation, type(transmission).__name__
    for layer in layers(law):
        if orientation not in layer.orientations:
            raise ValueError(
                f"`{type(layer).__name__}` is for coordinates that are "
                f"{' or '.join(layer.orientations)}, but those of `{name}` are {orientation}."
            )
        if isinstance(layer, LengthLaw) and transmission.is_whole and orientation == "generic":
            raise ValueError(
                f"`{type(layer).__name__}` is for lengths, but the coordinates of this `{name}` "
                "are volumes."
            )


class PassiveElement(Composed):
    """Something that stores and dissipates energy without control.

    A new element writes `energy` and `dissipation`; its forces are their gradients.
    `requirements` are as in `Transmission`.
    """

    requirements: ClassVar[tuple[Callable[["PassiveElement", Host], None], ...]] = ()

    @abc.abstractmethod
    def energy(self, robot: Host, q: Float[Array, " dofs"]) -> Scalar:
        """Stored energy U [J]."""

    @abc.abstractmethod
    def dissipation(
        self, robot: Host, q: Float[Array, " dofs"], qd: Float[Array, " dofs"]
    ) -> Scalar:
        """Dissipation potential R [W]; half the dissipated power of a linear damper."""

    def elastic_force(self, robot: Host, q: Float[Array, " dofs"]) -> Float[Array, " dofs"]:
        """`dU/dq`, on the left side of the equation of motion."""
        return jax.grad(lambda q: self.energy(robot, q))(q)

    def damping_force(
        self, robot: Host, q: Float[Array, " dofs"], qd: Float[Array, " dofs"]
    ) -> Float[Array, " dofs"]:
        """`dR/dqd`, on the left side of the equation of motion."""
        return jax.grad(lambda qd: self.dissipation(robot, q, qd))(qd)

    def damping_matrix(
        self, robot: Host, q: Float[Array, " dofs"], qd: Float[Array, " dofs"]
    ) -> Float[Array, "dofs dofs"]:
        """`d²R/dqd²`."""
        return jax.jacfwd(lambda qd: self.damping_force(robot, q, qd))(qd)

    def force(
        self, robot: Host, q: Float[Array, " dofs"], qd: Float[Array, " dofs"]
    ) -> Float[Array, " dofs"]:
        """The generalized force on the body, `-(dU/dq + dR/dqd)`."""
        return -self.elastic_force(robot, q) - self.damping_force(robot, q, qd)

    def install_check(self, robot: Host) -> None:
        """Raises `TypeError` or `ValueError` if the robot cannot carry this element."""
        for requirement in self.requirements:
            requirement(self, robot)
        check_dtype(self, robot)
        q = jax.ShapeDtypeStruct((robot.num_dofs,), robot.dtype)
        shapes = {
            "energy": jax.eval_shape(lambda q: self.energy(robot, q), q),
            "dissipation": jax.eval_shape(lambda q: self.dissipation(robot, q, q), q),
        }
        for name, value in shapes.items():
            if value.shape != ():
                raise TypeError(
                    f"`{type(self).__name__}.{name}` must return a scalar, got shape {value.shape}."
                )


class ActuatedHost(Host):
    """A host with actuators and passive elements."""

    actuators: AbstractVar[tuple[Actuator, ...]]
    passive_elements: AbstractVar[tuple[PassiveElement, ...]]
