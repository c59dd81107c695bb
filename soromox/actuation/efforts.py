"""Effort laws without state."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Scalar

from soromox.actuation.laws import (
    LengthLaw,
    RestoringLaw,
    RestrictedControl,
)
from soromox.numerics.checks import (
    ArrayLike,
    as_array,
    check_finite,
    check_non_negative,
    check_positive,
    check_truth,
    float_dtype,
)


class DirectEffort(RestrictedControl):
    """`e = u`: the control is the effort conjugate to the coordinate.

    It pulls on a contraction coordinate (a tendon) and pushes on a length coordinate (a push rod).
    """

    is_feedforward: ClassVar[bool] = True

    @property
    def restriction(self) -> str:
        return "the command must be finite."

    def is_valid(self, control: Float[Array, " channels"]) -> Bool[Array, ""]:
        return jnp.all(jnp.isfinite(control))

    def effort(
        self,
        control: Float[Array, " channels"],
        coordinate: Float[Array, " channels"],
        velocity: Float[Array, " channels"],
    ) -> Float[Array, " channels"]:
        return control


class ForceControl(RestoringLaw, RestrictedControl):
    """`lambda = u`: the control is the load, positive in tension, whatever the orientation.

    A cable cannot push: unless `allow_compressive_force`, a negative command is refused (it is not
    clamped). So are NaN and infinite ones.
    """

    unit: ClassVar[str | None] = "N"
    is_feedforward: ClassVar[bool] = True
    checks_traced_control: ClassVar[bool] = True

    allow_compressive_force: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        check_truth(self.allow_compressive_force, "allow_compressive_force")

    @property
    def restriction(self) -> str:
        if self.allow_compressive_force:
            return "the commanded force must be finite."
        return (
            "the commanded force must be finite and must not be negative; "
            "allow_compressive_force=True lets it push."
        )

    def is_valid(self, control: Float[Array, " channels"]) -> Bool[Array, ""]:
        valid = jnp.isfinite(control)
        if not self.allow_compressive_force:
            valid = valid & (control >= 0)
        return jnp.all(valid)

    def load(
        self,
        control: Float[Array, " channels"],
        extension: Float[Array, " channels"],
        rate: Float[Array, " channels"],
    ) -> Float[Array, " channels"]:
        return control


class DisplacementControl(RestoringLaw, RestrictedControl):
    """`lambda = k (x - u) + c xd`: a spring and damper to the target u of x.

    `x = -y` on contraction coordinates and `x = y` on others: the length of a threadlike tendon,
    the change of length of a spatial one.

    The total load is clamped at zero, where the cable is slack, unless `allow_compressive_force`.
    Its derivative is zero in the slack zone and that of the taut side at its edge.
    """

    control_is_target: ClassVar[bool] = True

    stiffness: Float[Array, "*channels"]  # k [N/m]
    damping: Float[Array, "*channels"]  # c [N s/m]
    allow_compressive_force: bool = eqx.field(static=True)

    def __init__(
        self,
        stiffness: ArrayLike,
        damping: ArrayLike = 0.0,
        allow_compressive_force: bool = False,
    ):
        """`stiffness` and `damping`: a number for all channels, or one for each."""
        dtype = float_dtype(stiffness, damping)
        self.stiffness = per_channel(stiffness, "stiffness", dtype)
        self.damping = per_channel(damping, "damping", dtype)
        check_truth(allow_compressive_force, "allow_compressive_force")
        self.allow_compressive_force = allow_compressive_force
        check_non_negative(self.stiffness, "stiffness")
        check_non_negative(self.damping, "damping")

    @property
    def restriction(self) -> str:
        return "the target must be finite."

    def is_valid(self, control: Float[Array, " channels"]) -> Bool[Array, ""]:
        return jnp.all(jnp.isfinite(control))

    def load(
        self,
        control: Float[Array, " channels"],
        extension: Float[Array, " channels"],
        rate: Float[Array, " channels"],
    ) -> Float[Array, " channels"]:
        load = self.stiffness * (extension - finite(control)) + self.damping * rate
        return load if self.allow_compressive_force else positive_part(load)


class McKibbenMuscle(LengthLaw, RestrictedControl):
    r"""A braided pneumatic muscle; the control is its gauge pressure P [Pa].

    $\lambda = \max(0, \max(0, P - P_{min}) \frac{b^2}{4 \pi n^2} (3 L^2 / b^2 - 1) + K x)$ at length
    $L = L_0 + x$, the length itself on threadlike paths (Chou & Hannaford 1996, IEEE T-RA 12(1), 90-102, with the elasticity of the
    deflated muscle added). The formula also holds beyond the thread length; a muscle cannot push.
    """

    unit: ClassVar[str | None] = "Pa"

    thread_length: Float[Array, "*channels"]  # b [m]
    number_of_turns: Float[Array, "*channels"]  # n
    minimum_pressure: Float[Array, "*channels"]  # P_min [Pa]
    deflated_stiffness: Float[Array, "*channels"]  # K [N/m]
    deflated_equilibrium_length: Float[Array, "*channels"]  # L_0 [m]

    def __init__(
        self,
        thread_length: ArrayLike,
        number_of_turns: ArrayLike,
        minimum_pressure: ArrayLike,
        deflated_stiffness: ArrayLike,
        deflated_equilibrium_length: ArrayLike,
    ):
        """Each is a number for all channels, or one for each."""
        values = {
            "thread_length": thread_length,
            "number_of_turns": number_of_turns,
            "minimum_pressure": minimum_pressure,
            "deflated_stiffness": deflated_stiffness,
            "deflated_equilibrium_length": deflated_equilibrium_length,
        }
        dtype = float_dtype(*values.values())
        values = {name: per_channel(value, name, dtype) for name, value in values.items()}
        for name, value in values.items():
            check = check_finite if name == "minimum_pressure" else check_positive
            check(value, name)
        self.thread_length = values["thread_length"]
        self.number_of_turns = values["number_of_turns"]
        self.minimum_pressure = values["minimum_pressure"]
        self.deflated_stiffness = values["deflated_stiffness"]
        self.deflated_equilibrium_length = values["deflated_equilibrium_length"]

    @property
    def restriction(self) -> str:
        return "the pressure must be finite."

    def is_valid(self, control: Float[Array, " channels"]) -> Bool[Array, ""]:
        return jnp.all(jnp.isfinite(control))

    @property
    def rest_length(self) -> Float[Array, "*channels"]:
        """$L_0$ [m], where `x = 0`."""
        return self.deflated_equilibrium_length

    @property
    def neutral_angle(self) -> float:
        """Braid angle [rad] between thread and axis at which pressure gives no force."""
        return float(np.arccos(1 / np.sqrt(3)))

    @property
    def neutral_extension(self) -> Float[Array, "*channels"]:
        """Extension x [m] at the neutral angle."""
        return self.thread_length / np.sqrt(3).item() - self.deflated_equilibrium_length

    def braid_angle(self, extension: Float[Array, "*channels"]) -> Float[Array, "*channels"]:
        """`arccos(L / b)` [rad]; zero beyond the thread length, where the threads are straight."""
        ratio = (self.deflated_equilibrium_length + extension) / self.thread_length
        inside = ratio < 1
        return jnp.where(inside, jnp.arccos(jnp.where(inside, ratio, 0)), 0)

    def load(
        self,
        control: Float[Array, " channels"],
        extension: Float[Array, " channels"],
        rate: Float[Array, " channels"],
    ) -> Float[Array, " channels"]:
        length = self.deflated_equilibrium_length + extension
        pressure = positive_part(finite(control) - self.minimum_pressure)
        area = (3 * length**2 - self.thread_length**2) / (4 * np.pi * self.number_of_turns**2)
        return positive_part(pressure * area + self.deflated_stiffness * extension)


class PotentialEffort(RestoringLaw, RestrictedControl):
    """`lambda = dU/dx + dR/dxd`, from a potential U [J] and a dissipation potential R [W].

    With U(x) and a convex R(xd) >= 0 that is least at rest, the law is passive.
    """

    potential: Callable[..., Array]
    dissipation: Callable[..., Array] | None
    controlled: bool = eqx.field(static=True)

    def __init__(
        self,
        potential: Callable[..., Array],
        dissipation: Callable[..., Array] | None = None,
        controlled: bool = False,
    ):
        """
        **Arguments:**

        - `potential`: `U(x)`, for `x` the extensions of all channels; it returns a scalar or one
          energy for each channel. A plain function is static and must capture no arrays; to fit
          its numbers write an `eqx.Module` with `__call__` that holds them.
        - `dissipation`: `R(xd)` in the same way; none by default.
        - `controlled`: the potential is `U(x, u)`; otherwise the law ignores its control.
        """
        self.potential = _function(potential, "potential")
        self.dissipation = None if dissipation is None else _function(dissipation, "dissipation")
        check_truth(controlled, "controlled")
        self.controlled = controlled

    @property
    def restriction(self) -> str:
        return "the control must be finite."

    def is_valid(self, control: Float[Array, " channels"]) -> Bool[Array, ""]:
        return jnp.all(jnp.isfinite(control))

    def incremental_potential(
        self,
        control: Float[Array, " channels"],
        extension: Float[Array, " channels"],
        start: Float[Array, " channels"],
        duration: float | Scalar,
    ) -> Scalar:
        """`U(x) + h R((x - x_0) / h)`; its gradient in x is the load with the mean rate of a stage."""
        energy = self._energy(control, extension)
        return energy + duration * self._loss((extension - start) / duration)

    def load(
        self,
        control: Float[Array, " channels"],
        extension: Float[Array, " channels"],
        rate: Float[Array, " channels"],
    ) -> Float[Array, " channels"]:
        return jax.grad(self._energy, argnums=1)(control, extension) + jax.grad(self._loss)(rate)

    def _energy(
        self, control: Float[Array, " channels"], extension: Float[Array, " channels"]
    ) -> Scalar:
        arguments = (extension, control) if self.controlled else (extension,)
        return _total(self.potential(*arguments), extension, "potential")

    def _loss(self, rate: Float[Array, " channels"]) -> Scalar:
        if self.dissipation is None:
            return jnp.zeros((), rate.dtype)
        return _total(self.dissipation(rate), rate, "dissipation")


class StaticFunction(eqx.Module):
    """A plain function as a part without numbers, so that a robot that holds it can be traced."""

    function: Callable[..., Array] = eqx.field(static=True)

    def __call__(self, *arguments: Array) -> Array:
        return self.function(*arguments)


def finite(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """`x`, and NaN for infinity, which a limit would turn into a plausible number."""
    return jnp.where(jnp.isfinite(x), x, jnp.nan)


def positive_part(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """`max(0, x)` with slope 1 at zero, so that an optimiser can leave the edge; NaN stays NaN."""
    return jnp.where(x < 0, jnp.zeros_like(x), x)


def _total(energies: Array, x: Float[Array, " channels"], name: str) -> Scalar:
    if jnp.shape(energies) not in ((), x.shape):
        raise ValueError(
            f"`{name}` must return a scalar or one number for each of {x.size} channels, got shape "
            f"{jnp.shape(energies)}."
        )
    return jnp.sum(energies)


def _function(function: Any, name: str) -> Any:
    if not callable(function):
        raise TypeError(f"`{name}` must be a function, got {type(function).__name__}.")
    return function if isinstance(function, eqx.Module) else StaticFunction(function)


def per_channel(value: ArrayLike, name: str, dtype: np.dtype) -> Float[Array, "*channels"]:
    array = as_array(value, name, dtype)
    if array.ndim > 1:
        raise ValueError(
            f"`{name}` needs a number for all channels or one for each, got shape {array.shape}."
        )
    return array
