"""Transmissions: maps from the configuration to coordinates, and their derivatives."""

import abc
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from equinox import AbstractClassVar
from jaxtyping import Array, Float, PyTree, Scalar

from soromox.chain.hosts import Host
from soromox.numerics.parameters import Parameters


Orientation = Literal["length", "contraction", "generic"]


class Transmission(Parameters):
    """A stateless map from the configuration to coordinates.

    A new transmission declares its `orientation` and writes `coordinates`; rate, force and matrix
    are derivatives of that one map. A faster derivative is a `jax.custom_jvp` of the same map.

    - `orientation`: `"length"` if y grows as a path lengthens, `"contraction"` if it grows as the
      path shortens (`y = -length`), `"generic"` for anything else.
    - `is_whole`: whether y measures all of a length or volume, and not a change of it.
    - `requirements`: functions of `(transmission, host)` that raise when the host cannot carry it;
      called at installation and when an update replaces numbers.
    - `reading_requirements`: the same, for all but actuators whose effort depends on their control
      alone.
    """

    orientation: AbstractClassVar[Orientation]
    is_whole: ClassVar[bool] = False
    requirements: ClassVar[tuple[Callable[["Transmission", Host], None], ...]] = ()
    reading_requirements: ClassVar[tuple[Callable[["Transmission", Host], None], ...]] = ()

    @abc.abstractmethod
    def coordinates(self, robot: Host, q: Float[Array, " dofs"]) -> Float[Array, " coordinates"]:
        """The coordinates `y(q)`."""

    def velocities(
        self, robot: Host, q: Float[Array, " dofs"], qd: Float[Array, " dofs"]
    ) -> Float[Array, " coordinates"]:
        """`yd = A^T qd`."""
        return jax.jvp(lambda q: self.coordinates(robot, q), (q,), (qd,))[1]

    def force(
        self, robot: Host, q: Float[Array, " dofs"], effort: Float[Array, " coordinates"]
    ) -> Float[Array, " dofs"]:
        """The generalized force `A e`."""
        return jax.vjp(lambda q: self.coordinates(robot, q), q)[1](effort)[0]

    def moment_matrix(
        self, robot: Host, q: Float[Array, " dofs"]
    ) -> Float[Array, "dofs coordinates"]:
        """`A = (dy/dq)^T`."""
        return coordinates_and_matrix((self,), robot, q)[1]

    def num_coordinates(self, robot: Host) -> int:
        """Number of coordinates on this robot; evaluates nothing."""
        if isinstance(self, SizedTransmission):
            return self.size
        return coordinate_shape(self, robot).shape[0]

    def check_requirements(self, robot: Host, is_read: bool = True) -> None:
        """Raises `TypeError` or `ValueError` if one of the `requirements` is not met.

        `is_read` is whether something depends on the coordinate.
        """
        for requirement in self.requirements + self.reading_requirements * is_read:
            requirement(self, robot)

    def install_check(self, robot: Host, is_read: bool = True) -> None:
        """Raises `TypeError` or `ValueError` if the robot cannot carry this transmission."""
        if self.orientation not in get_args(Orientation):
            raise ValueError(
                f"`orientation` of `{type(self).__name__}` must be one of "
                f"{', '.join(get_args(Orientation))}, got {self.orientation!r}."
            )
        self.check_requirements(robot, is_read)
        check_dtype(self, robot)
        if isinstance(self, SizedTransmission):
            return  # tracing the kinematics of every tendon of a hand would take seconds
        shape = coordinate_shape(self, robot)
        if len(shape.shape) != 1 or not jnp.issubdtype(shape.dtype, jnp.floating):
            raise TypeError(
                f"`{type(self).__name__}.coordinates` must return a vector of floats, one entry "
                f"for each coordinate; on this {type(robot).__name__} it returns shape "
                f"{shape.shape} of {shape.dtype}. Return `y[None]` for a single coordinate."
            )


class SizedTransmission(Transmission):
    """A transmission that knows its number of coordinates without a host.

    Installation trusts `size` instead of tracing `coordinates`.
    """

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Number of coordinates."""


class PathTransmission(SizedTransmission):
    """Coordinates that see the configuration through the same few quantities, each on its own.

    For m paths through N bodies the matrix A costs O(N m): each coordinate is differentiated by
    those quantities once, where the derivative of all at once would cost m times as much.
    """

    @abc.abstractmethod
    def parts(self, robot: Host, q: Float[Array, " dofs"]) -> tuple[PyTree, PyTree]:
        """What all coordinates share, and what each has of its own whatever `q` (leading axis)."""

    @abc.abstractmethod
    def coordinate(self, shared: Any, own: Any) -> Scalar:
        """One coordinate."""

    def coordinates(self, robot: Host, q: Float[Array, " dofs"]) -> Float[Array, " coordinates"]:
        shared, own = self.parts(robot, q)
        return jax.vmap(self.coordinate, (None, 0))(shared, own)


def coordinates_and_matrix(
    transmissions: Sequence[Transmission], robot: Host, q: Float[Array, " dofs"]
) -> tuple[Float[Array, " coordinates"], Float[Array, "dofs coordinates"]]:
    """The coordinates y of all transmissions, one after the other, and `A = (dy/dq)^T`."""
    together = [t for t in transmissions if not isinstance(t, PathTransmission)]
    found = iter(_together(together, robot, q))
    parts = [
        _path_by_path(t, robot, q) if isinstance(t, PathTransmission) else next(found)
        for t in transmissions
    ]
    none = (jnp.zeros(0, q.dtype), jnp.zeros((len(q), 0), q.dtype))
    y, columns = zip(none, *parts, strict=True)
    return jnp.concatenate(y), jnp.concatenate(columns, axis=1)


def _together(
    transmissions: Sequence[Transmission], robot: Host, q: Float[Array, " dofs"]
) -> list[tuple[Array, Array]]:
    """One derivative for all: the sweeps through the links of a robot are compiled once."""
    if not transmissions:
        return []
    y, pull = jax.vjp(lambda q: [t.coordinates(robot, q) for t in transmissions], q)
    *ends, count = (int(end) for end in np.cumsum([len(part) for part in y]))
    rows = jnp.eye(count, dtype=q.dtype)
    columns = jax.vmap(lambda row: pull(jnp.split(row, ends))[0], out_axes=1)(rows)
    return list(zip(y, jnp.split(columns, ends, axis=1), strict=True))


def _path_by_path(
    transmission: PathTransmission, robot: Host, q: Float[Array, " dofs"]
) -> tuple[Array, Array]:
    shared, pull, own = jax.vjp(lambda q: transmission.parts(robot, q), q, has_aux=True)
    y, slopes = jax.vmap(jax.value_and_grad(transmission.coordinate), (None, 0))(shared, own)
    return y, jax.vmap(lambda slope: pull(slope)[0], out_axes=1)(slopes)


def coordinate_shape(transmission: Transmission, robot: Host) -> jax.ShapeDtypeStruct:
    """Shape and dtype of the coordinates on this robot."""
    q = jax.ShapeDtypeStruct((robot.num_dofs,), robot.dtype)
    return jax.eval_shape(lambda q: transmission.coordinates(robot, q), q)


def sign(transmission: Transmission) -> int:
    """`sigma`: -1 where the coordinate grows as the path shortens, +1 elsewhere."""
    return -1 if transmission.orientation == "contraction" else 1


def check_dtype(part: eqx.Module, robot: Host) -> None:
    """Raises `TypeError` if a part has numbers of another precision than the robot."""
    for leaf in jax.tree.leaves(eqx.filter(part, eqx.is_inexact_array)):
        if leaf.dtype != robot.dtype:
            raise TypeError(
                f"`{type(part).__name__}` holds {leaf.dtype} numbers, but this "
                f"{type(robot).__name__} is {robot.dtype}: construct it from "
                f"`jnp.asarray(values, jnp.{robot.dtype})`."
            )
