"""The public methods of every robot that concern actuators, passive elements and parameters."""

from typing import TypeVar

import equinox as eqx
from jaxtyping import Array, Float, Scalar

from soromox.actuation import Actuator, ActuatorMetadata, PassiveElement, loads
from soromox.numerics.checks import ArrayLike
from soromox.numerics.parameters import Parameters, conform
from soromox.systems.transmissions import Transmissions, pick, with_actuator


SelfT = TypeVar("SelfT")  # not `typing.Self`, which a runtime type checker refuses here


class Actuated(Transmissions):
    """Actuators in the order of their control slices, and passive elements."""

    params: eqx.AbstractVar[Parameters]

    # --- actuators -------------------------------------------------------------------------

    @property
    def num_actuators(self) -> int:
        """Control channels of all actuators together, the length m of `u`."""
        return sum(actuator.num_channels for actuator in self.actuators)

    @property
    def actuator_input_metadata(self) -> tuple[ActuatorMetadata, ...]:
        """Kind, labels, units and bounds of each actuator's channels."""
        return tuple(actuator.metadata for actuator in self.actuators)

    @property
    def actuator_input_labels(self) -> tuple[str, ...]:
        """One label per control channel."""
        return tuple(label for actuator in self.actuators for label in actuator.labels)

    def actuator_coordinates(self, q: ArrayLike) -> Float[Array, " m"]:
        """Transmission coordinates `y(q)` of all channels."""
        return self._run(loads.actuator_coordinates, q=q)

    def actuator_velocities(self, q: ArrayLike, qd: ArrayLike) -> Float[Array, " m"]:
        """`dy/dt = A^T qd`."""
        return self._run(loads.actuator_velocities, q=q, qd=qd)

    def actuation_matrix(self, q: ArrayLike) -> Float[Array, "n m"]:
        """`A(q) = (dy/dq)^T`."""
        return self._run(loads.actuation_matrix, q=q)

    def actuator_efforts(
        self, q: ArrayLike, u: ArrayLike | None, qd: ArrayLike | None = None
    ) -> Float[Array, " m"]:
        """Efforts `e`, conjugate to the coordinates; zero velocity without `qd`.

        `u=None` is the stored commands, here and below.
        """
        return self._run(loads.actuator_efforts, q=q, u=u, qd=qd)

    def actuator_loads(
        self, q: ArrayLike, u: ArrayLike | None, qd: ArrayLike | None = None
    ) -> Float[Array, " m"]:
        """Restoring loads, tension positive, whatever the orientation of the coordinate."""
        return self._run(loads.actuator_loads, q=q, u=u, qd=qd)

    def actuator_load_parts(
        self, q: ArrayLike, u: ArrayLike | None, qd: ArrayLike | None = None
    ) -> loads.LoadParts:
        """The loads and their parts: `total`, `elastic` (at zero velocity) and `damping`."""
        return self._run(loads.actuator_load_parts, q=q, u=u, qd=qd)

    def actuation_force(
        self, q: ArrayLike, u: ArrayLike | None, qd: ArrayLike | None = None
    ) -> Float[Array, " n"]:
        """Generalized force `A(q) e`; zero velocity without `qd`."""
        return self._run(loads.actuation_force, q=q, u=u, qd=qd)

    # --- passive elements ------------------------------------------------------------------

    def passive_elastic_force(self, q: ArrayLike) -> Float[Array, " n"]:
        """`dU/dq` of the passive elements."""
        return self._run(loads.passive_elastic_force, q=q)

    def passive_elastic_energy(self, q: ArrayLike) -> Scalar:
        """Elastic energy of the passive elements [J]."""
        return self._run(loads.passive_elastic_energy, q=q)

    def passive_damping_matrix(self, q: ArrayLike) -> Float[Array, "n n"]:
        """Damping matrix of the passive elements at rest."""
        return self._run(loads.passive_damping_matrix, q=q)

    # --- parameters ------------------------------------------------------------------------

    def with_params(self: SelfT, params: Parameters) -> SelfT:
        """A robot with these body parameters; structure and shapes must be the old ones."""
        params = conform(self.params, params, "params")
        return eqx.tree_at(lambda robot: robot.params, self, params)

    def update_params(self: SelfT, **changes: object) -> SelfT:
        """A robot with the named body parameters changed.

        Raises `ValueError` for an unknown name or a wrong shape, naming it.
        """
        return self.with_params(self.params.replace(**changes))

    def with_actuator_params(self: SelfT, index: int, params: Parameters) -> SelfT:
        """A robot whose actuator `index` has these parameters; its class and law stay."""
        return self._with_actuator(index, self._actuator(index).with_params(params))

    def update_actuator_params(self: SelfT, index: int, **changes: object) -> SelfT:
        """A robot with the named parameters of actuator `index` changed."""
        return self._with_actuator(index, self._actuator(index).update_params(**changes))

    def with_passive_element_params(self: SelfT, index: int, params: Parameters) -> SelfT:
        """A robot whose passive element `index` has these parameters; its class stays."""
        return self._with_element(index, self._element(index).with_params(params))

    def update_passive_element_params(self: SelfT, index: int, **changes: object) -> SelfT:
        """A robot with the named parameters of passive element `index` changed."""
        return self._with_element(index, self._element(index).update_params(**changes))

    def _actuator(self, index: int) -> Actuator:
        return pick(self.actuators, index, "actuators")

    def _with_actuator(self: SelfT, index: int, actuator: Actuator) -> SelfT:
        actuator.check_requirements(self)
        return with_actuator(self, index, actuator)

    def _element(self, index: int) -> PassiveElement:
        return pick(self.passive_elements, index, "passive elements")

    def _with_element(self: SelfT, index: int, element: PassiveElement) -> SelfT:
        return eqx.tree_at(lambda robot: robot.passive_elements[index], self, element)
