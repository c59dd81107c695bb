"""Laws between control, coordinate and effort: what a new actuator law derives from."""

import abc
from typing import ClassVar, get_args

import jax.numpy as jnp
from equinox import AbstractVar
from jaxtyping import Array, Bool, Float

from soromox.actuation.transmission import Orientation, Transmission
from soromox.numerics.parameters import Parameters


class EffortModel(Parameters):
    """The law between control, coordinate and effort, all of one length: the channels.

    - `is_feedforward` declares that the effort depends on the control alone.
    - `control_is_target` declares that the control is a target for the coordinate (for a
      `RestoringLaw` the extension), which gives no load where they are equal: `static_equilibrium`
      lets loads grow from there, instead of from a control of zero.
    - `orientations` declares the kinds of coordinate that the law makes sense on.
    - `unit` is that of the control, if it is the same on any coordinate.
    """

    is_feedforward: ClassVar[bool] = False
    control_is_target: ClassVar[bool] = False
    orientations: ClassVar[tuple[Orientation, ...]] = get_args(Orientation)
    unit: ClassVar[str | None] = None

    @abc.abstractmethod
    def effort(
        self,
        control: Float[Array, " channels"],
        coordinate: Float[Array, " channels"],
        velocity: Float[Array, " channels"],
    ) -> Float[Array, " channels"]:
        """The effort `e` conjugate to the coordinate: `yd . e` is power put into the body."""


class RestoringLaw(EffortModel):
    """A law of a path's length: it gives a load, positive in tension.

    `load` sees `x`, which grows as the path lengthens: `x = sigma y` with `sigma = -1` on a
    transmission whose orientation is contraction and +1 on any other. The effort is
    `e = -sigma load`. `law_effort` applies sigma; write `load` only.
    """

    @abc.abstractmethod
    def load(
        self,
        control: Float[Array, " channels"],
        extension: Float[Array, " channels"],
        rate: Float[Array, " channels"],
    ) -> Float[Array, " channels"]:
        """The load, positive in tension, at extension `x` and rate `xd`."""

    def effort(
        self,
        control: Float[Array, " channels"],
        coordinate: Float[Array, " channels"],
        velocity: Float[Array, " channels"],
    ) -> Float[Array, " channels"]:
        """The effort on a coordinate that grows with length."""
        return -self.load(control, coordinate, velocity)


class LengthLaw(RestoringLaw):
    """A restoring law of the whole length of a path [m], `rest_length` where `x = 0`.

    On transmissions that measure whole lengths, `load` sees what exceeds the rest length.
    """

    rest_length: AbstractVar[Float[Array, "*channels"]]


class RestrictedControl(EffortModel):
    """A law that some commands make no sense for.

    A refused command raises when it is concrete, and ends a step with its result code. Any other
    traced call checks at run time only where `checks_traced_control`, because that is a host
    callback: declare it if a refused command would give a plausible load instead of NaN.
    """

    checks_traced_control: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def restriction(self) -> str:
        """What a command must be, as a sentence."""

    @abc.abstractmethod
    def is_valid(self, control: Float[Array, " channels"]) -> Bool[Array, ""]:
        """Whether the law accepts this command; NaN must fail."""


class WrappedLaw(EffortModel):
    """A law that acts through another one, `law`, and refuses the commands that it refuses."""

    law: AbstractVar[EffortModel]


class StatefulLaw(WrappedLaw):
    """A law with memory: states that a control drives, and the law that they command.

    `dz/dt = state_derivative(z, u, y, yd)`; the effort is that of `law` under the control
    `drive(z, u)`. There are `num_states` states for each channel. Implicit steps solve the states
    together with the body; outside of steps they are held. `law` may have states too: they come
    after those of this law and are driven by `drive(z, u)`.

    The command must be finite, and one that `law` accepts: a law without states is asked about what
    it makes of the command. Derive from `RestrictedControl` too for a restriction of its own.
    """

    @property
    @abc.abstractmethod
    def num_states(self) -> int:
        """Number of states for each channel."""

    @abc.abstractmethod
    def state_derivative(
        self,
        state: Float[Array, "states channels"],
        control: Float[Array, " channels"],
        coordinate: Float[Array, " channels"],
        velocity: Float[Array, " channels"],
    ) -> Float[Array, "states channels"]:
        """`dz/dt`; a channel's states may depend on numbers of its own channel only."""

    @abc.abstractmethod
    def drive(
        self, state: Float[Array, "states channels"], control: Float[Array, " channels"]
    ) -> Float[Array, " channels"]:
        """The control of `law`."""

    def effort(
        self,
        control: Float[Array, " channels"],
        coordinate: Float[Array, " channels"],
        velocity: Float[Array, " channels"],
    ) -> Float[Array, " channels"]:
        """The effort with all states zero."""
        state = jnp.zeros((self.num_states, *control.shape), control.dtype)
        return self.law.effort(self.drive(state, control), coordinate, velocity)


def num_states(law: EffortModel) -> int:
    """Number of states of a law, and of the laws it commands, for each channel."""
    return law.num_states + num_states(law.law) if isinstance(law, StatefulLaw) else 0


def state_rates(
    law: EffortModel,
    states: Float[Array, "states channels"],
    control: Float[Array, " channels"],
    coordinate: Float[Array, " channels"],
    velocity: Float[Array, " channels"],
) -> Float[Array, "states channels"]:
    """`dz/dt` of a law and of the laws it commands."""
    if not isinstance(law, StatefulLaw):
        return states
    own, inner = states[: law.num_states], states[law.num_states :]
    rate = law.state_derivative(own, control, coordinate, velocity)
    commanded = state_rates(law.law, inner, law.drive(own, control), coordinate, velocity)
    return jnp.concatenate([rate, commanded])


def layers(law: EffortModel) -> tuple[EffortModel, ...]:
    """A law and those it acts through, outermost first."""
    return (law, *layers(law.law)) if isinstance(law, WrappedLaw) else (law,)


def control_unit(law: EffortModel, transmission: Transmission) -> str | None:
    """The unit of the control along a transmission; `None` if the control is an effort."""
    declared = [layer.unit for layer in layers(law) if layer.unit is not None]
    if declared:
        return declared[0]
    if layers(law)[-1].control_is_target:
        return "generalized coordinate" if transmission.orientation == "generic" else "m"
    return None


def is_restricted(law: EffortModel) -> bool:
    """Whether there are commands that a law refuses."""
    return any(isinstance(layer, RestrictedControl | StatefulLaw) for layer in layers(law))


def checks_traced_control(law: EffortModel) -> bool:
    """Whether a refused command would give a plausible load, so that traced calls must check."""
    restricted = [layer for layer in layers(law) if isinstance(layer, RestrictedControl)]
    return any(layer.checks_traced_control for layer in restricted)


def accepts(law: EffortModel, control: Float[Array, " channels"]) -> Bool[Array, ""]:
    """Whether a law, and the laws it acts through, accept a command."""
    valid = law.is_valid(control) if isinstance(law, RestrictedControl) else jnp.asarray(True)
    if isinstance(law, StatefulLaw):
        valid = valid & jnp.all(jnp.isfinite(control))
        if law.num_states == 0:
            control = law.drive(jnp.zeros((0, *control.shape), control.dtype), control)
    return valid & accepts(law.law, control) if isinstance(law, WrappedLaw) else valid


def accepts_states(
    law: EffortModel,
    states: Float[Array, "states channels"],
    control: Float[Array, " channels"],
    start: Float[Array, "states channels"],
) -> Bool[Array, ""]:
    """Whether laws with states command, in these states, what the next law accepts.

    States that miss it by rounding, on their way from `start` to an accepted command, do no harm.
    """
    if not isinstance(law, StatefulLaw):
        return jnp.asarray(True)
    count = law.num_states
    command, before = law.drive(states[:count], control), law.drive(start[:count], control)
    judged = command
    if count:
        scale = jnp.maximum(jnp.maximum(jnp.abs(command), jnp.abs(before)), jnp.abs(control))
        slack = jnp.finfo(command.dtype).eps ** (2 / 3) * scale
        judged = command + jnp.clip(control - command, -slack, slack)
    inner = accepts_states(law.law, states[count:], command, start[count:])
    return accepts(law.law, judged) & inner


def restriction(law: EffortModel) -> str:
    """What a command of a law, and of the laws it acts through, must be, in sentences."""
    sentences = [
        layer.restriction if isinstance(layer, RestrictedControl) else "the command must be finite."
        for layer in layers(law)
        if isinstance(layer, RestrictedControl | StatefulLaw)
    ]
    return " ".join(dict.fromkeys(sentences))


def check_law(law: object, name: str = "law") -> None:
    """Raises `TypeError` for what is no law."""
    if not isinstance(law, EffortModel):
        raise TypeError(f"`{name}` needs an instance of an `EffortModel`, got {law!r}.")
