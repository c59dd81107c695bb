"""Sums over the actuators and passive elements of a robot, and what the implicit step needs of them.

Everything here is a function of the host. In `u`, in the coordinates and in the columns of A the
actuators come in order; those without channels have no place.
"""

import itertools
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Scalar

from soromox.actuation import laws
from soromox.actuation.core import (
    ActuatedHost,
    Actuator,
    PassiveElement,
    law_effort,
    law_sign,
)
from soromox.actuation.impedance import AbstractImpedance
from soromox.actuation.laws import (
    EffortModel,
    accepts,
    accepts_states,
    checks_traced_control,
    is_restricted,
    layers,
    restriction,
)
from soromox.actuation.states import backward_euler
from soromox.actuation.transmission import Transmission, coordinates_and_matrix, sign
from soromox.numerics.checks import ArrayLike, as_array, concrete


RobotT = TypeVar("RobotT", bound=ActuatedHost)


def num_channels(robot: ActuatedHost) -> int:
    """Length of `u`."""
    return sum(actuator.num_channels for actuator in robot.actuators)


def channel_slices(robot: ActuatedHost) -> tuple[slice, ...]:
    """The part of `u` of each actuator."""
    ends = np.cumsum([0, *(actuator.num_channels for actuator in robot.actuators)])
    return tuple(slice(int(a), int(b)) for a, b in itertools.pairwise(ends))


def control_vector(
    robot: ActuatedHost, u: ArrayLike | None, dtype: np.dtype
) -> Float[Array, " channels"]:
    """`u` as an array; without one, the commands stored in the actuators."""
    if u is not None:
        return as_array(u, "u", dtype, (num_channels(robot),))
    return _join([a.command.astype(dtype) for a, _ in _driven(robot)], dtype)


def actuator_coordinates(
    robot: ActuatedHost, q: Float[Array, " dofs"]
) -> Float[Array, " channels"]:
    """The coordinates y of all channels."""
    return _join([a.coordinates(robot, q) for a, _ in _driven(robot)], q.dtype)


def displacement(index: int, robot: ActuatedHost, q: Float[Array, " dofs"]) -> Float[Array, "..."]:
    """The coordinates of one transmission, with or without an actuator; a number if it has one."""
    y = robot.actuators[index].coordinates(robot, q)
    return y[0] if y.shape == (1,) else y


def displacement_jacobian(
    index: int, robot: ActuatedHost, q: Float[Array, " dofs"]
) -> Float[Array, "..."]:
    """`dy/dq` of one transmission; (n,) if it has one coordinate."""
    rows = robot.actuators[index].transmission.moment_matrix(robot, q).T
    return rows[0] if rows.shape[0] == 1 else rows


def actuator_velocities(
    robot: ActuatedHost, q: Float[Array, " dofs"], qd: Float[Array, " dofs"]
) -> Float[Array, " channels"]:
    """`yd = A^T qd`."""
    return jax.jvp(lambda q: actuator_coordinates(robot, q), (q,), (qd,))[1]


def actuation_matrix(
    robot: ActuatedHost, q: Float[Array, " dofs"]
) -> Float[Array, "dofs channels"]:
    """`A = (dy/dq)^T`."""
    return coordinates_and_matrix([a.transmission for a, _ in _driven(robot)], robot, q)[1]


def actuator_efforts(
    robot: ActuatedHost,
    q: Float[Array, " dofs"],
    u: Float[Array, " channels"] | None,
    qd: Float[Array, " dofs"] | None = None,
) -> Float[Array, " channels"]:
    """The efforts e conjugate to the coordinates, at zero velocity without `qd`.

    `u` goes through `checked_control`.
    """
    u = checked_control(robot, u)
    if qd is None:
        y = actuator_coordinates(robot, q)
        yd = jnp.zeros_like(y)
    else:
        y, yd = jax.jvp(lambda q: actuator_coordinates(robot, q), (q,), (qd,))
    efforts = [
        law_effort(a.transmission, a.effort_model, u[part], y[part], yd[part], _held(a, q.dtype))
        for a, part in _driven(robot)
    ]
    return _join(efforts, q.dtype)


def actuator_loads(
    robot: ActuatedHost,
    q: Float[Array, " dofs"],
    u: Float[Array, " channels"] | None,
    qd: Float[Array, " dofs"] | None = None,
) -> Float[Array, " channels"]:
    """The loads `-sigma e`: positive in tension, on coordinates of length and contraction alike."""
    signs = [np.full(a.num_channels, -sign(a.transmission)) for a, _ in _driven(robot)]
    signs = np.concatenate([np.zeros(0), *signs]).astype(q.dtype)
    return jnp.asarray(signs) * actuator_efforts(robot, q, u, qd)


class LoadParts(NamedTuple):
    """Loads, positive in tension, and what they consist of: `total = elastic + damping`."""

    total: Float[Array, " channels"]
    elastic: Float[Array, " channels"]  # at zero velocity
    damping: Float[Array, " channels"]  # what the velocity adds


def actuator_load_parts(
    robot: ActuatedHost,
    q: Float[Array, " dofs"],
    u: Float[Array, " channels"] | None,
    qd: Float[Array, " dofs"] | None = None,
) -> LoadParts:
    """The loads, split into the part at zero velocity and what the velocity adds."""
    total = actuator_loads(robot, q, u, qd)
    elastic = actuator_loads(robot, q, u)
    return LoadParts(total, elastic, total - elastic)


def actuation_force(
    robot: ActuatedHost,
    q: Float[Array, " dofs"],
    u: Float[Array, " channels"] | None,
    qd: Float[Array, " dofs"] | None = None,
) -> Float[Array, " dofs"]:
    """The generalized force `A e`, without building A."""
    e = actuator_efforts(robot, q, u, qd)
    return jax.vjp(lambda q: actuator_coordinates(robot, q), q)[1](e)[0]


def controls_valid(robot: ActuatedHost, u: Float[Array, " channels"] | None) -> Bool[Array, ""]:
    """Whether every law accepts its part of `u`: the result code of a step comes from this."""
    u = control_vector(robot, u, robot.dtype)
    valid = jnp.asarray(True)
    for actuator, part in _driven(robot):
        valid = valid & accepts(actuator.effort_model, u[part])
    return valid


def states_valid(
    robot: ActuatedHost,
    states: Float[Array, " states"],
    u: Float[Array, " channels"],
    start: Float[Array, " states"],
) -> Bool[Array, ""]:
    """Whether states reached from `start` command what the laws behind them accept."""
    valid = jnp.asarray(True)
    for (actuator, part), (own, before) in zip(
        _driven(robot), zip(_by_law(robot, states), _by_law(robot, start), strict=True), strict=True
    ):
        valid = valid & accepts_states(actuator.effort_model, own, u[part], before)
    return valid


def checked_control(
    robot: ActuatedHost, u: Float[Array, " channels"] | None
) -> Float[Array, " channels"]:
    """`u` (for `None` the stored commands), after asking each law that restricts its commands.

    Raises `ValueError` for a refused command with a value; for a traced one the check runs with
    the compiled program (`eqx.error_if`) where the law asks for it.
    """
    commands = control_vector(robot, u, robot.dtype)
    for actuator, part in _driven(robot):
        law, name = actuator.effort_model, f"u[{part.start}:{part.stop}]"
        valid = refuse_known(law, commands[part], name)
        if checks_traced_control(law) and concrete(valid) is None:
            commands = eqx.error_if(commands, ~valid, _refusal(law, name))
    return commands


def refuse_known(
    law: EffortModel, command: Float[Array, " channels"], name: str
) -> Bool[Array, ""]:
    """Whether the law accepts the command; raises `ValueError` if it is known not to."""
    valid = accepts(law, command)
    known = concrete(valid)
    if known is not None and not known:
        raise ValueError(f"{_refusal(law, name)} Got {command}.")
    return valid


def refuse_known_states(
    law: EffortModel,
    states: Float[Array, "states channels"],
    command: Float[Array, " channels"],
    name: str,
) -> None:
    """Raises `ValueError` for states that are known to command what a law refuses."""
    valid = concrete(accepts_states(law, states, command, states))
    if valid is not None and not valid:
        raise ValueError(
            f"`{name}` commands what a law refuses. {_refusal(law, name)} Got {states}."
        )


def check_known_control(robot: ActuatedHost, u: Float[Array, " channels"] | None) -> None:
    """Raises `ValueError` for a refused command with a value; traced ones pass."""
    restricted = any(is_restricted(a.effort_model) for a in robot.actuators)
    if not restricted or concrete(u if u is not None else 0.0) is None:
        return
    with jax.ensure_compile_time_eval():
        commands = control_vector(robot, u, robot.dtype)
        for actuator, part in _driven(robot):
            refuse_known(actuator.effort_model, commands[part], f"u[{part.start}:{part.stop}]")


def _refusal(law: EffortModel, name: str) -> str:
    return f"`{name}` ({type(law).__name__}): {restriction(law)}"


def passive_elastic_energy(robot: ActuatedHost, q: Float[Array, " dofs"]) -> Scalar:
    """Energy stored in all passive elements [J]."""
    return sum((p.energy(robot, q) for p in robot.passive_elements), jnp.zeros((), q.dtype))


def passive_elastic_force(robot: ActuatedHost, q: Float[Array, " dofs"]) -> Float[Array, " dofs"]:
    """`dU/dq` of all passive elements."""
    return sum((p.elastic_force(robot, q) for p in robot.passive_elements), jnp.zeros_like(q))


def passive_damping_force(
    robot: ActuatedHost, q: Float[Array, " dofs"], qd: Float[Array, " dofs"]
) -> Float[Array, " dofs"]:
    """`dR/dqd` of all passive elements."""
    return sum((p.damping_force(robot, q, qd) for p in robot.passive_elements), jnp.zeros_like(q))


def passive_damping_matrix(
    robot: ActuatedHost, q: Float[Array, " dofs"], qd: Float[Array, " dofs"] | None = None
) -> Float[Array, "dofs dofs"]:
    """`d²R/dqd²` of all passive elements, at rest by default (it depends on `qd` in some)."""
    qd = jnp.zeros_like(q) if qd is None else qd
    zero = jnp.zeros((q.shape[0], q.shape[0]), q.dtype)
    return sum((p.damping_matrix(robot, q, qd) for p in robot.passive_elements), zero)


class Memory(NamedTuple):
    """The states of stateful laws at the start of an implicit stage, and its duration; with an
    infinite one they are those that last."""

    start: Float[Array, " states"]  # actuator by actuator
    h: Scalar


class Load(eqx.Module):
    """A transmission and the efforts along it, of an actuator or of an impedance."""

    transmission: Transmission
    source: Actuator | AbstractImpedance
    channels: tuple[int, int] = eqx.field(static=True)  # of `u`; empty for an impedance
    is_responsive: bool = eqx.field(static=True)
    states: tuple[int, int] = eqx.field(static=True, default=(0, 0))  # of all states

    def effort(
        self,
        u: Float[Array, " channels"],
        y: Float[Array, " coordinates"],
        yd: Float[Array, " coordinates"],
        memory: Memory | None = None,
    ) -> Float[Array, " coordinates"]:
        if isinstance(self.source, AbstractImpedance):
            return self.source.effort(y, yd)
        start, stop = self.channels
        states = self.final_states(u, y, yd, memory)[0]
        law = self.source.effort_model
        return law_effort(self.transmission, law, u[start:stop], y, yd, states)

    def final_states(
        self,
        u: Float[Array, " channels"],
        y: Float[Array, " coordinates"],
        yd: Float[Array, " coordinates"],
        memory: Memory | None,
    ) -> tuple[Float[Array, "states coordinates"], Bool[Array, ""]]:
        """The states at the end of a stage, and whether they were found; held without memory."""
        held = _held(self.source, y.dtype)
        start, stop = self.states
        if memory is None or start == stop:
            return held, jnp.asarray(True)
        first, last = self.channels
        begin = memory.start[start:stop].reshape(held.shape)
        law = self.source.effort_model
        return backward_euler(law, begin, memory.h, u[first:last], y, yd)


def loads(robot: ActuatedHost) -> tuple[Load, ...]:
    """Everything that acts along a transmission: actuators with channels, then impedances."""
    counts = [a.states.size for a, _ in _driven(robot)]
    ends = [int(end) for end in np.cumsum([0, *counts])]
    driven = [
        Load(a.transmission, a, (part.start, part.stop), not a.effort_model.is_feedforward, states)
        for (a, part), states in zip(_driven(robot), itertools.pairwise(ends), strict=True)
    ]
    passive = [
        Load(p.transmission, p, (0, 0), True)
        for p in robot.passive_elements
        if isinstance(p, AbstractImpedance)
    ]
    return (*driven, *passive)


def load_sizes(robot: ActuatedHost) -> tuple[int, ...]:
    """Number of coordinates of each load."""
    return tuple(
        load.source.num_coordinates
        if isinstance(load.source, AbstractImpedance)
        else load.source.num_channels
        for load in loads(robot)
    )


def responsive_mask(robot: ActuatedHost) -> tuple[bool, ...]:
    """For each load coordinate, whether its effort depends on a coordinate or a velocity."""
    pairs = zip(loads(robot), load_sizes(robot), strict=True)
    return tuple(load.is_responsive for load, size in pairs for _ in range(size))


def load_coordinates(robot: ActuatedHost, q: Float[Array, " dofs"]) -> Float[Array, " coordinates"]:
    """The coordinates y of all loads."""
    return _join([load.transmission.coordinates(robot, q) for load in loads(robot)], q.dtype)


def load_columns(
    robot: ActuatedHost, q: Float[Array, " dofs"]
) -> tuple[Float[Array, " coordinates"], Float[Array, "dofs coordinates"]]:
    """The coordinates y of all loads, and their columns `(dy/dq)^T`."""
    return coordinates_and_matrix([load.transmission for load in loads(robot)], robot, q)


def load_efforts(
    robot: ActuatedHost,
    y: Float[Array, " coordinates"],
    yd: Float[Array, " coordinates"],
    u: Float[Array, " channels"] | None,
    memory: Memory | None = None,
) -> Float[Array, " coordinates"]:
    """The efforts e of all loads at these coordinates and rates.

    With `memory` the states of stateful laws are those at the end of its stage, else the stored
    ones. Commands are not checked here: a step asks `controls_valid`.
    """
    u = control_vector(robot, u, y.dtype)
    efforts = [load.effort(u, y[part], yd[part], memory) for load, part in _parts(robot)]
    return _join(efforts, y.dtype)


def idle_control(robot: ActuatedHost, y: Float[Array, " coordinates"]) -> Float[Array, " channels"]:
    """The controls from which loads start to grow, at the coordinates of all loads."""
    starts = []
    for actuator, part in _driven(robot):
        law = layers(actuator.effort_model)[-1]  # the one that the control is meant for
        seen = law_sign(actuator.transmission, law) * y[part]
        starts.append(seen if law.control_is_target else jnp.zeros_like(seen))
    return _join(starts, y.dtype)


def stored_states(robot: ActuatedHost, dtype: np.dtype) -> Float[Array, " states"]:
    """The states of stateful laws, actuator by actuator, as the robot holds them."""
    return _join([_held(a, dtype).reshape(-1) for a, _ in _driven(robot)], dtype)


def with_states(robot: RobotT, states: Float[Array, " states"]) -> RobotT:
    """A robot that holds these states of stateful laws."""
    if not states.size:
        return robot
    variables = [
        jnp.concatenate([actuator.command.astype(states.dtype), own.reshape(-1)])
        for (actuator, _), own in zip(_driven(robot), _by_law(robot, states), strict=True)
    ]
    return eqx.tree_at(lambda r: [a.state_variables for a, _ in _driven(r)], robot, variables)


def state_rates(
    robot: ActuatedHost,
    y: Float[Array, " coordinates"],
    yd: Float[Array, " coordinates"],
    u: Float[Array, " channels"],
) -> Float[Array, " states"]:
    """`dz/dt` of the states of stateful laws, as the robot holds them."""
    rates = [
        laws.state_rates(a.effort_model, a.states, u[part], y[part], yd[part]).reshape(-1)
        for a, part in _driven(robot)
    ]
    return _join(rates, y.dtype)


def _by_law(robot: ActuatedHost, states: Float[Array, " states"]) -> list[Float[Array, "_ _"]]:
    shapes = [a.states.shape for a, _ in _driven(robot)]
    ends = [int(end) for end in np.cumsum([0, *(a * b for a, b in shapes)])]
    parts = itertools.pairwise(ends)
    return [states[i:j].reshape(shape) for (i, j), shape in zip(parts, shapes, strict=True)]


def final_states(
    robot: ActuatedHost,
    y: Float[Array, " coordinates"],
    yd: Float[Array, " coordinates"],
    u: Float[Array, " channels"],
    memory: Memory,
) -> tuple[Float[Array, " states"], Bool[Array, ""]]:
    """The states of stateful laws at the end of a stage, and whether they were found."""
    found = [
        load.final_states(u, y[part], yd[part], memory)
        for load, part in _parts(robot)
        if load.states[0] != load.states[1]
    ]
    return _join([z.reshape(-1) for z, _ in found], y.dtype), jnp.asarray(
        [ok for _, ok in found]
    ).all()


def other_force(
    robot: ActuatedHost, q: Float[Array, " dofs"], qd: Float[Array, " dofs"]
) -> Float[Array, " dofs"]:
    """The generalized force of the passive elements that act along no transmission."""
    return sum((p.force(robot, q, qd) for p in _others(robot)), jnp.zeros_like(q))


def has_other_force(robot: ActuatedHost) -> bool:
    """Whether there are such elements."""
    return bool(_others(robot))


def _others(robot: ActuatedHost) -> list[PassiveElement]:
    return [p for p in robot.passive_elements if not isinstance(p, AbstractImpedance)]


def _parts(robot: ActuatedHost) -> list[tuple[Load, slice]]:
    ends = [int(end) for end in np.cumsum([0, *load_sizes(robot)])]
    parts = [slice(a, b) for a, b in itertools.pairwise(ends)]
    return list(zip(loads(robot), parts, strict=True))


def _held(actuator: Actuator, dtype: np.dtype) -> Float[Array, "states channels"]:
    return actuator.states.astype(dtype)


def _driven(robot: ActuatedHost) -> list[tuple[Actuator, slice]]:
    pairs = zip(robot.actuators, channel_slices(robot), strict=True)
    return [(actuator, part) for actuator, part in pairs if actuator.num_channels]


def _join(parts: list[Float[Array, " _"]], dtype: np.dtype) -> Float[Array, " sum"]:
    return jnp.concatenate(parts) if parts else jnp.zeros(0, dtype)
