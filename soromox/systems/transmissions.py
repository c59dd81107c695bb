"""The public methods of every robot for transmissions by index, and the state stored with them."""

import abc
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex, TypeVar

import equinox as eqx
from jaxtyping import Array, Float

from soromox.actuation import (
    ActuatedHost,
    Actuator,
    BareTransmission,
    EffortModel,
    Transmission,
    TransmissionActuator,
    loads,
)
from soromox.actuation.actuators import require_parts
from soromox.actuation.channels import numbered
from soromox.numerics.checks import ArrayLike, as_array, broadcast, check_finite, index_of


RobotT = TypeVar("RobotT", bound=ActuatedHost)
SelfT = TypeVar("SelfT")  # not `typing.Self`, which a runtime type checker refuses here


class Transmissions(ActuatedHost):
    """Transmissions by index: entry i of `actuators`, with an actuator on it or without.

    An actuator stores its state variables: a command, which holds where a call or a state gives no
    control, then the states of a stateful law. They are part of the robot. All methods are pure.
    """

    @abc.abstractmethod
    def _run(self, function: Callable, **inputs: ArrayLike | None) -> Any: ...

    def add_transmission(self: SelfT, transmission: Transmission) -> tuple[SelfT, int]:
        """A robot with one more transmission that nothing drives yet, and its index.

        Raises `TypeError` or `ValueError` if the robot cannot carry it.
        """
        bare = BareTransmission(transmission)
        bare.install_check(self)
        return _with_actuators(self, (*self.actuators, bare)), len(self.actuators)

    def attach_actuator(
        self: SelfT,
        index: SupportsIndex,
        effort_model: EffortModel,
        *,
        command: ArrayLike | None = None,
        labels: Sequence[str] | None = None,
        units: Sequence[str] | str | None = None,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
        kind: str | None = None,
    ) -> SelfT:
        """A robot with this law on transmission `index`, in place of any other.

        Its channels, one for each coordinate, are at its place in `u`. The other arguments are as
        in `TransmissionActuator`; `command` is stored, zero by default.

        An actuator of a class of its own, such as `ThreadlikeActuator`, stays of that class, with
        its labels, units and kind. Where one of these three is given, and anywhere else, the result
        is a `TransmissionActuator`.

        Raises `ValueError` for a command that the law refuses.
        """
        old = pick(self.actuators, index, "transmissions")
        require_parts(old.transmission, effort_model)
        count = old.transmission.num_coordinates(self)
        is_plain = isinstance(old, BareTransmission | TransmissionActuator)
        if is_plain or any(name is not None for name in (labels, units, kind)):
            kind = "transmission" if kind is None else kind
            labels = numbered(f"{kind}_effort", count) if labels is None else labels
            actuator = TransmissionActuator(
                old.transmission, effort_model, labels, units, bounds, kind
            )
        else:
            actuator = old.with_law(effort_model, bounds)
        if command is not None:
            variables = actuator.state_variables
            command = broadcast(command, "command", variables.dtype, count)
            check_finite(command, "command")
            loads.refuse_known(effort_model, command, "command")
            variables = variables.at[:count].set(command)
            actuator = eqx.tree_at(lambda a: a.state_variables, actuator, variables)
        actuator.install_check(self)
        return with_actuator(self, index, actuator)

    def transmission_displacement(self, index: SupportsIndex, q: ArrayLike) -> Float[Array, "..."]:
        """The coordinates `y(q)` of transmission `index`: a number if it has one, (m,) otherwise."""
        pick(self.actuators, index, "transmissions")
        return self._run(eqx.Partial(loads.displacement, int(index)), q=q)

    def transmission_displacement_jacobian(
        self, index: SupportsIndex, q: ArrayLike
    ) -> Float[Array, "... n"]:
        """`dy/dq` of transmission `index`: (n,) if it has one coordinate, (m, n) otherwise."""
        pick(self.actuators, index, "transmissions")
        return self._run(eqx.Partial(loads.displacement_jacobian, int(index)), q=q)

    def num_transmission_actuator_state_variables(self, index: SupportsIndex) -> int:
        """Number of state variables of the actuator on transmission `index`."""
        return self._driven(index).state_variables.size

    def transmission_actuator_state_variables(
        self, index: SupportsIndex
    ) -> Float[Array, " variables"]:
        """The stored command of transmission `index`, then the states of a stateful law.

        States come state by state, each for all channels.
        """
        return self._driven(index).state_variables

    def with_transmission_actuator_state_variables(
        self: SelfT, index: SupportsIndex, values: ArrayLike
    ) -> SelfT:
        """A robot that stores these variables with transmission `index`.

        Raises `ValueError` for another number of them, for NaN and infinity, for a command that
        the law refuses, and for states that command what the law behind them refuses.
        """
        actuator = self._driven(index)
        old = actuator.state_variables
        new = as_array(values, "values", old.dtype, old.shape)
        check_finite(new, "values")
        count = actuator.num_channels
        command, states = new[:count], new[count:].reshape(actuator.states.shape)
        loads.refuse_known(actuator.effort_model, command, f"values[:{count}]")
        loads.refuse_known_states(actuator.effort_model, states, command, f"values[{count}:]")
        return eqx.tree_at(lambda robot: robot.actuators[index].state_variables, self, new)

    def _driven(self, index: SupportsIndex) -> Actuator:
        actuator = pick(self.actuators, index, "transmissions")
        if actuator.num_channels == 0:
            raise ValueError(
                f"Transmission {index} has no actuator: `robot.attach_actuator({index}, law)`."
            )
        return actuator


def pick(parts: tuple, index: SupportsIndex, what: str) -> Any:
    """`parts[index]`; raises `IndexError` with the range, also for a negative index."""
    index = index_of(index, "index")
    if not 0 <= index < len(parts):
        span = f", 0 ... {len(parts) - 1}" if parts else ""
        raise IndexError(f"The robot has {len(parts)} {what}{span}, got index {index}.")
    return parts[index]


def with_actuator(robot: RobotT, index: SupportsIndex, actuator: Actuator) -> RobotT:
    """The robot with another actuator at one place."""
    return eqx.tree_at(lambda robot: robot.actuators[index], robot, actuator)


def _with_actuators(robot: RobotT, actuators: tuple[Actuator, ...]) -> RobotT:
    # an empty tuple has no leaves that would mark its place
    return eqx.tree_at(
        lambda robot: robot.actuators, robot, actuators, is_leaf=lambda x: x is robot.actuators
    )
