"""Laws with memory, and what stands between a command and a law."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from soromox.actuation.efforts import DirectEffort, per_channel, positive_part
from soromox.actuation.laws import (
    EffortModel,
    LengthLaw,
    RestoringLaw,
    RestrictedControl,
    StatefulLaw,
    WrappedLaw,
    check_law,
    layers,
)
from soromox.actuation.transmission import Orientation
from soromox.numerics.checks import (
    ArrayLike,
    check_non_negative,
    check_positive,
    float_dtype,
)


class FirstOrderActivation(StatefulLaw):
    """`da/dt = (u - a) / tau`: the law follows its command with a lag.

    tau is `activation_time` [s] while a rises and `deactivation_time` while it falls.
    """

    law: EffortModel
    activation_time: Float[Array, "*channels"]
    deactivation_time: Float[Array, "*channels"]

    def __init__(
        self,
        law: EffortModel,
        activation_time: ArrayLike,
        deactivation_time: ArrayLike | None = None,
    ):
        """Times are numbers for all channels, or one for each; both are equal by default."""
        if deactivation_time is None:
            deactivation_time = activation_time
        dtype = float_dtype(activation_time, deactivation_time)
        check_law(law)
        self.law = law
        self.activation_time = per_channel(activation_time, "activation_time", dtype)
        self.deactivation_time = per_channel(deactivation_time, "deactivation_time", dtype)
        check_positive(self.activation_time, "activation_time")
        check_positive(self.deactivation_time, "deactivation_time")

    @property
    def num_states(self) -> int:
        return 1

    def state_derivative(
        self,
        state: Float[Array, "states channels"],
        control: Float[Array, " channels"],
        coordinate: Float[Array, " channels"],
        velocity: Float[Array, " channels"],
    ) -> Float[Array, "states channels"]:
        gap = control - state[0]
        return (gap / jnp.where(gap > 0, self.activation_time, self.deactivation_time))[None]

    def drive(
        self, state: Float[Array, "states channels"], control: Float[Array, " channels"]
    ) -> Float[Array, " channels"]:
        return state[0]


class PressureDynamics(StatefulLaw, RestrictedControl):
    r"""Gas in a chamber behind a valve; for transmissions whose coordinate y is its volume [m^3].

    The state is the gauge pressure p [Pa], the control the gauge pressure u > -p_a before the
    valve; without volume (`V_0 + y <= 0`) or below vacuum its rate is NaN. With
    $(V_0 + y)\,\dot p = p_a\,C\,(u - p) - (p + p_a)\,\dot y$ (isothermal ideal gas) and the
    conductance C of inflow where u > p, of outflow elsewhere.
    """

    unit: ClassVar[str | None] = "Pa"
    orientations: ClassVar[tuple[Orientation, ...]] = ("generic",)

    law: EffortModel
    inflow_conductance: Float[Array, "*channels"]  # [m^3/(s Pa)], of gas at atmospheric pressure
    outflow_conductance: Float[Array, "*channels"]
    dead_volume: Float[Array, "*channels"]  # V_0 [m^3]
    atmospheric_pressure: Float[Array, "*channels"]  # p_a [Pa]

    def __init__(
        self,
        inflow_conductance: ArrayLike,
        outflow_conductance: ArrayLike | None = None,
        dead_volume: ArrayLike = 0.0,
        atmospheric_pressure: ArrayLike = 101325.0,
        law: EffortModel = DirectEffort(),
    ):
        """Numbers for all channels, or one for each; outflow is as inflow by default."""
        if outflow_conductance is None:
            outflow_conductance = inflow_conductance
        values = {
            "inflow_conductance": inflow_conductance,
            "outflow_conductance": outflow_conductance,
            "dead_volume": dead_volume,
            "atmospheric_pressure": atmospheric_pressure,
        }
        dtype = float_dtype(*values.values())
        values = {name: per_channel(value, name, dtype) for name, value in values.items()}
        for name, value in values.items():
            check = check_positive if name == "atmospheric_pressure" else check_non_negative
            check(value, name)
        check_law(law)
        if any(isinstance(layer, LengthLaw) for layer in layers(law)):
            raise TypeError(
                f"`law` needs one of a volume, such as DirectEffort, got {law!r}. A muscle whose "
                "pressure lags behind is `FirstOrderActivation(McKibbenMuscle(...), time)`."
            )
        self.law = law
        self.inflow_conductance = values["inflow_conductance"]
        self.outflow_conductance = values["outflow_conductance"]
        self.dead_volume = values["dead_volume"]
        self.atmospheric_pressure = values["atmospheric_pressure"]

    @property
    def num_states(self) -> int:
        return 1

    def state_derivative(
        self,
        state: Float[Array, "states channels"],
        control: Float[Array, " channels"],
        coordinate: Float[Array, " channels"],
        velocity: Float[Array, " channels"],
    ) -> Float[Array, "states channels"]:
        pressure = state[0]
        gap = control - pressure
        flow = jnp.where(gap > 0, self.inflow_conductance, self.outflow_conductance) * gap
        squeeze = (pressure + self.atmospheric_pressure) * velocity
        rate = self.atmospheric_pressure * flow - squeeze
        volume = self.dead_volume + coordinate
        is_gas = (volume > 0) & (pressure > -self.atmospheric_pressure)
        return (rate / jnp.where(is_gas, volume, jnp.nan))[None]

    @property
    def restriction(self) -> str:
        return "the pressure before the valve must be finite and above vacuum."

    def is_valid(self, control: Float[Array, " channels"]) -> Bool[Array, ""]:
        return jnp.all(jnp.isfinite(control) & (control > -self.atmospheric_pressure))

    def drive(
        self, state: Float[Array, "states channels"], control: Float[Array, " channels"]
    ) -> Float[Array, " channels"]:
        return state[0]


class SaturatedControl(StatefulLaw):
    """Limits the command of a law; without states.

    - `softness=0`: clipped, with the gradient of the unclipped command (straight-through), so that
      an optimiser is not stuck beyond a limit.
    - `softness > 0`, in units of the command: a smooth limit, with its own gradient.
    """

    law: EffortModel
    lower: Float[Array, "*channels"]
    upper: Float[Array, "*channels"]
    softness: float = eqx.field(static=True)

    def __init__(self, law: EffortModel, lower: ArrayLike, upper: ArrayLike, softness: float = 0.0):
        """Limits are finite numbers for all channels, or one for each."""
        dtype = float_dtype(lower, upper)
        check_law(law)
        self.law = law
        self.lower = per_channel(lower, "lower", dtype)
        self.upper = per_channel(upper, "upper", dtype)
        check_positive(self.upper - self.lower, "upper - lower")
        check_non_negative(softness, "softness")
        self.softness = float(softness)

    @property
    def num_states(self) -> int:
        return 0

    def state_derivative(
        self,
        state: Float[Array, "states channels"],
        control: Float[Array, " channels"],
        coordinate: Float[Array, " channels"],
        velocity: Float[Array, " channels"],
    ) -> Float[Array, "states channels"]:
        return state

    def drive(
        self, state: Float[Array, "states channels"], control: Float[Array, " channels"]
    ) -> Float[Array, " channels"]:
        # within the limits whatever the rounding, as the law is asked about the result
        if self.softness == 0:
            held = jax.lax.stop_gradient(control)
            return jnp.clip(held, self.lower, self.upper) + (control - held)
        low, high = ((control - x) / self.softness for x in (self.lower, self.upper))
        soft = self.lower + self.softness * (jax.nn.softplus(low) - jax.nn.softplus(high))
        return jnp.clip(soft, self.lower, self.upper)


class HillMuscle(LengthLaw, RestrictedControl):
    r"""A muscle on a stiff tendon; the control is its activation a in [0, 1].

    $\lambda = F_0\,(a\,f_l\,f_v + f_p)$ at fibre length $l = (L_0 + x) / L_{opt}$ (on threadlike
    paths $L_0 + x$ is their length) and rate
    $v = \dot x / (L_{opt} v_{max})$: $f_l = e^{-(l - 1)^2 / \gamma}$,
    $f_v = (1 + v) / (1 - v / A)$ shortening (0 beyond $v_{max}$) and, lengthening, the hyperbola of
    the same slope at rest that tends to $f_{max}$; $f_p = (e^{k (l - 1) / \epsilon} - 1) /
    (e^k - 1)$ beyond the optimal length (shapes of Thelen 2003, doi:10.1115/1.1531112, but with one
    slope at rest and a $v_{max}$ that does not depend on a). For an activation with a lag:
    `FirstOrderActivation(HillMuscle(...), ...)`.
    """

    unit: ClassVar[str | None] = "1"
    checks_traced_control: ClassVar[bool] = True

    maximum_force: Float[Array, "*channels"]  # F_0 [N]
    optimal_length: Float[Array, "*channels"]  # L_opt [m]
    rest_length: Float[Array, "*channels"]  # L_0 [m], where x = 0
    maximum_rate: Float[Array, "*channels"]  # v_max [optimal lengths/s]
    width: ClassVar[float] = 0.45  # gamma
    curvature: ClassVar[float] = 0.25  # A
    lengthening: ClassVar[float] = 1.4  # f_max
    passive_shape: ClassVar[float] = 5.0  # k
    passive_strain: ClassVar[float] = 0.6  # epsilon

    def __init__(
        self,
        maximum_force: ArrayLike,
        optimal_length: ArrayLike,
        rest_length: ArrayLike | None = None,
        maximum_rate: ArrayLike = 10.0,
    ):
        """Numbers for all channels, or one for each; `rest_length` is the optimal one by default."""
        values = {
            "maximum_force": maximum_force,
            "optimal_length": optimal_length,
            "rest_length": optimal_length if rest_length is None else rest_length,
            "maximum_rate": maximum_rate,
        }
        dtype = float_dtype(*values.values())
        values = {name: per_channel(value, name, dtype) for name, value in values.items()}
        for name, value in values.items():
            check_positive(value, name)
        self.maximum_force = values["maximum_force"]
        self.optimal_length = values["optimal_length"]
        self.rest_length = values["rest_length"]
        self.maximum_rate = values["maximum_rate"]

    @property
    def restriction(self) -> str:
        return "the activation must lie in [0, 1]."

    def is_valid(self, control: Float[Array, " channels"]) -> Bool[Array, ""]:
        return jnp.all((control >= 0) & (control <= 1))

    def force_length(self, length: Float[Array, "*channels"]) -> Float[Array, "*channels"]:
        """`f_l` at a normalised length."""
        return jnp.exp(-((length - 1) ** 2) / self.width)

    def force_velocity(self, rate: Float[Array, "*channels"]) -> Float[Array, "*channels"]:
        """`f_v` at a normalised rate, positive lengthening."""
        is_shortening = rate < 0
        back = jnp.where(is_shortening, rate, 0)  # each branch is defined for both signs
        ahead = jnp.where(is_shortening, 0, rate)  # and has the slope of rest at rest
        shortening = positive_part(1 + back) / (1 - back / self.curvature)
        slope = 1 + 1 / self.curvature
        gain = self.lengthening - 1
        return jnp.where(is_shortening, shortening, 1 + gain * ahead / (ahead + gain / slope))

    def passive_force(self, length: Float[Array, "*channels"]) -> Float[Array, "*channels"]:
        """`f_p` at a normalised length."""
        stretch = positive_part(length - 1)
        scale = jnp.expm1(jnp.asarray(self.passive_shape, length.dtype))
        return jnp.expm1(self.passive_shape * stretch / self.passive_strain) / scale

    def load(
        self,
        control: Float[Array, " channels"],
        extension: Float[Array, " channels"],
        rate: Float[Array, " channels"],
    ) -> Float[Array, " channels"]:
        length = (self.rest_length + extension) / self.optimal_length
        rate = rate / (self.optimal_length * self.maximum_rate)
        active = control * self.force_length(length) * self.force_velocity(rate)
        return self.maximum_force * (active + self.passive_force(length))


class CapstanFriction(RestoringLaw, WrappedLaw):
    r"""Coulomb friction of a cable around a guide, between its drive and the body.

    $\lambda = \lambda_{law}\,e^{\mu \theta \tanh(\dot x / v_s)}$: less than the drive gives
    while the cable is pulled in, more while it is pulled out. Below the slip speed $v_s$ it creeps,
    so a robot at rest drifts slowly instead of sticking.
    """

    law: RestoringLaw
    friction_coefficient: Float[Array, "*channels"]  # mu
    wrap_angle: Float[Array, "*channels"]  # theta [rad]
    slip_speed: Float[Array, "*channels"]  # v_s [m/s]

    def __init__(
        self,
        law: RestoringLaw,
        friction_coefficient: ArrayLike,
        wrap_angle: ArrayLike,
        slip_speed: ArrayLike = 1e-3,
    ):
        """Numbers for all channels, or one for each."""
        if not isinstance(law, RestoringLaw):
            raise TypeError(f"`law` needs a RestoringLaw such as ForceControl, got {law!r}.")
        dtype = float_dtype(friction_coefficient, wrap_angle, slip_speed)
        self.law = law
        self.friction_coefficient = per_channel(friction_coefficient, "friction_coefficient", dtype)
        self.wrap_angle = per_channel(wrap_angle, "wrap_angle", dtype)
        self.slip_speed = per_channel(slip_speed, "slip_speed", dtype)
        check_non_negative(self.friction_coefficient, "friction_coefficient")
        check_non_negative(self.wrap_angle, "wrap_angle")
        check_positive(self.slip_speed, "slip_speed")

    def load(
        self,
        control: Float[Array, " channels"],
        extension: Float[Array, " channels"],
        rate: Float[Array, " channels"],
    ) -> Float[Array, " channels"]:
        grip = self.friction_coefficient * self.wrap_angle * jnp.tanh(rate / self.slip_speed)
        return self.law.load(control, extension, rate) * jnp.exp(grip)
