"""Effort laws: formulas, signs, clamps, refused commands, and laws of an outsider."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.actuation import (
    AffineJointTransmission,
    ArticulatedTendonTransmission,
    CapstanFriction,
    DirectEffort,
    DisplacementControl,
    EffortModel,
    ForceControl,
    LinearJoint,
    McKibbenMuscle,
    PotentialEffort,
    SaturatedControl,
    SpatialTendonTransmission,
    TransmissionActuator,
    Waypoint,
    loads,
)
from tests.hosts import pendulum


MUSCLE = McKibbenMuscle(
    thread_length=0.12,
    number_of_turns=1.5,
    minimum_pressure=1e4,
    deflated_stiffness=100.0,
    deflated_equilibrium_length=0.1,
)
Q, QD = jnp.array([0.3, -0.2, 0.1]), jnp.array([0.5, 0.4, -0.3])


def one(value):
    return jnp.array([value])


def length() -> SpatialTendonTransmission:
    """x = 0.02 q0, growing as the tendon lengthens."""
    return SpatialTendonTransmission([LinearJoint(0, 0.02)])


def contraction() -> ArticulatedTendonTransmission:
    """The same tendon by its contraction, y = -x."""
    return ArticulatedTendonTransmission.from_routing([[-0.02, 0.0, 0.0]])


RESTORING = {
    "force": (ForceControl(), 3.0),
    "displacement": (DisplacementControl(2000.0, 5.0), -0.003),
    "muscle": (MUSCLE, 2e5),
    "potential": (PotentialEffort(lambda x: 50 * x**2 + x, lambda xd: xd**2), 0.0),
}


@pytest.mark.parametrize("name", RESTORING)
def test_tension_is_positive_on_length_and_contraction_alike(name):
    law, u = RESTORING[name]
    results = []
    for transmission in (length(), contraction()):
        robot = pendulum(actuators=TransmissionActuator(transmission, law))
        load = robot.actuator_loads(Q, one(u), QD)
        results.append((load, robot.actuation_force(Q, one(u), QD)))
    (load, force), (other_load, other_force) = results
    assert load[0] > 0
    # tension pulls against dx/dq = 0.02
    np.testing.assert_allclose(force, [-0.02 * load[0], 0, 0], rtol=1e-14, atol=1e-16)
    np.testing.assert_allclose(other_load, load, rtol=1e-14)
    np.testing.assert_allclose(other_force, force, rtol=1e-14, atol=1e-16)


def test_direct_effort_pulls_on_contraction_and_pushes_on_length():
    for transmission, sign in ((length(), 1), (contraction(), -1)):
        robot = pendulum(actuators=TransmissionActuator(transmission, DirectEffort()))
        np.testing.assert_allclose(robot.actuation_force(Q, one(2.0)), [sign * 0.04, 0, 0])
        np.testing.assert_allclose(robot.actuator_loads(Q, one(2.0)), [-sign * 2.0])


def test_load_parts_add_up():
    robot = pendulum(actuators=TransmissionActuator(contraction(), DisplacementControl(2e3, 5.0)))
    parts = robot.actuator_load_parts(Q, one(-0.01), QD)
    np.testing.assert_array_equal(parts.total, robot.actuator_loads(Q, one(-0.01), QD))
    np.testing.assert_allclose(parts.elastic, [2e3 * (0.006 + 0.01)], rtol=1e-14)
    np.testing.assert_allclose(parts.damping, [5.0 * 0.01], rtol=1e-12)
    np.testing.assert_allclose(parts.total, parts.elastic + parts.damping, rtol=1e-14)


def test_displacement_control_clamps_the_total_load():
    law = DisplacementControl(2.0, 1.0)
    load = lambda x, xd: law.load(one(0.5), one(x), one(xd))[0]
    assert load(0.7, 0.0) == pytest.approx(0.4)
    assert load(0.7, -0.3) == pytest.approx(0.1)
    assert load(0.7, -0.5) == 0
    assert jax.grad(load)(0.7, -0.5) == 0
    assert jax.grad(load)(0.5, 0.0) == 2  # at the edge
    pushing = DisplacementControl(2.0, 1.0, allow_compressive_force=True)
    assert pushing.load(one(0.5), one(0.0), one(0.0))[0] == -1


@pytest.mark.parametrize("shift", [0.0, 0.01, -0.02])
def test_the_slack_zone_moves_with_the_target(shift):
    law = DisplacementControl(1e3)
    x = jnp.linspace(-0.1, 0.1, 41)
    moved = law.load(jnp.full(41, shift), x + shift, jnp.zeros(41))
    np.testing.assert_allclose(moved, law.load(jnp.zeros(41), x, jnp.zeros(41)), atol=1e-12)


def test_an_antagonistic_pair_has_the_backlash_of_its_targets():
    """Cables of opposite sign on one gear, each with `slack` to spare: no load within the gap."""
    gear = [AffineJointTransmission.linear(3, (0, 1), sign * np.array([1, -3])) for sign in (1, -1)]
    pair = tuple(TransmissionActuator(t, DisplacementControl(400.0)) for t in gear)
    robot = pendulum(actuators=pair)
    forces = jax.jit(
        jax.vmap(lambda x, u: robot.actuation_force(jnp.zeros(3).at[0].set(x), u), (0, None))
    )
    x = jnp.linspace(-0.1, 0.1, 41)
    for slack, shift in ((0.025, 0.0), (0.025, 0.03), (0.0, -0.02)):
        moment = forces(x, jnp.array([slack + shift, slack - shift]))
        away = x - shift
        spring = -400 * jnp.sign(away) * jnp.maximum(jnp.abs(away) - slack, 0)
        np.testing.assert_allclose(moment[:, 0], spring, rtol=0, atol=1e-12)
        np.testing.assert_allclose(moment[:, 1], -3 * spring, rtol=0, atol=1e-12)


def test_muscle_follows_chou_and_hannaford():
    x, p = 0.01, 2e5
    b, n, L = 0.12, 1.5, 0.11
    ideal = (p - 1e4) * (3 * L**2 - b**2) / (4 * np.pi * n**2)
    np.testing.assert_allclose(
        MUSCLE.load(one(p), one(x), one(9.0))[0], ideal + 100 * x, rtol=1e-14
    )
    # no pressure above the minimum: the deflated tube alone; and a muscle cannot push
    assert MUSCLE.load(one(-1e5), one(x), one(0.0))[0] == pytest.approx(1.0)
    assert MUSCLE.load(one(1e6), one(-0.05), one(0.0))[0] == 0
    # the load is -p dV/dl of the braid, V = (b^2 - l^2) l / (4 pi n^2)
    volume = lambda l: (b**2 - l**2) * l / (4 * np.pi * n**2)
    np.testing.assert_allclose(-(p - 1e4) * jax.grad(volume)(L), ideal, rtol=1e-12)


def test_muscle_has_no_force_at_the_neutral_angle():
    x = MUSCLE.neutral_extension
    no_rubber = eqx.tree_at(lambda law: law.deflated_stiffness, MUSCLE, jnp.array(0.0))
    assert no_rubber.load(one(1e5), x[None], one(0.0))[0] == pytest.approx(0, abs=1e-10)
    assert MUSCLE.braid_angle(x) == pytest.approx(MUSCLE.neutral_angle, rel=1e-14)
    assert np.degrees(MUSCLE.neutral_angle) == pytest.approx(54.7356, abs=1e-4)
    assert MUSCLE.braid_angle(jnp.array(0.05)) == 0  # beyond the thread length
    assert jnp.isfinite(jax.grad(MUSCLE.braid_angle)(jnp.array(0.05)))


def test_potential_law_is_the_gradient_of_its_incremental_potential():
    law = PotentialEffort(lambda x, u: 2 * (x - u) ** 4, lambda xd: 0.3 * xd**2, controlled=True)
    path = [Waypoint(-1, [-0.05, 0.06, 0.0]), Waypoint(1, [0.1, 0.05, 0.0]), LinearJoint(2, -0.3)]
    transmission = SpatialTendonTransmission(path)
    robot = pendulum(actuators=TransmissionActuator(transmission, law))
    u, h, q0 = one(0.2), 0.01, jnp.zeros(3)

    def increment(q):
        x, x0 = (transmission.coordinates(robot, q) for q in (q, q0))
        return law.incremental_potential(u, x, x0, h)

    x, x0 = (transmission.coordinates(robot, q) for q in (Q, q0))
    e = loads.load_efforts(robot, x, (x - x0) / h, u)
    tau = transmission.force(robot, Q, e)
    np.testing.assert_allclose(jax.grad(increment)(Q), -tau, rtol=1e-12)


class ConstantLoad(eqx.Module):
    load: jax.Array

    def __call__(self, x):
        return self.load * x


def test_numbers_of_a_potential_can_be_differentiated():
    law = PotentialEffort(ConstantLoad(jnp.array(3.0)))
    gradient = jax.grad(lambda law: law.load(one(0.0), one(0.1), one(0.0))[0])(law)
    assert gradient.potential.load == 1


class Cubic(EffortModel):
    """What an outsider writes: `e = u - k y^3`."""

    stiffness: jax.Array

    def effort(self, control, coordinate, velocity):
        return control - self.stiffness * coordinate**3


def test_law_of_an_outsider():
    actuator = TransmissionActuator(contraction(), Cubic(jnp.array(1e6)), labels=["pull"])
    robot = pendulum(actuators=actuator)
    y = -0.02 * Q[0]
    force = robot.actuation_force(Q, one(2.0))
    np.testing.assert_allclose(force, [-0.02 * (2 - 1e6 * y**3), 0, 0], rtol=1e-13)
    assert loads.responsive_mask(robot) == (True,)


REFUSED = {
    "NaN effort": (DirectEffort(), np.nan, "must be finite"),
    "negative force": (ForceControl(), -1.0, "must not be negative"),
    "NaN force": (ForceControl(), np.nan, "must be finite"),
    "infinite force": (ForceControl(allow_compressive_force=True), np.inf, "must be finite"),
    "NaN target": (DisplacementControl(1.0), np.nan, "target must be finite"),
    "NaN pressure": (MUSCLE, np.nan, "pressure must be finite"),
    "NaN in a potential": (
        PotentialEffort(lambda x, u: u * x, controlled=True),
        np.nan,
        "control must be finite",
    ),
    "inner law": (CapstanFriction(ForceControl(), 0.1, 1.0), -1.0, "must not be negative"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_commands(name):
    law, command, message = REFUSED[name]
    robot = pendulum(actuators=TransmissionActuator(length(), law))
    with pytest.raises(ValueError, match=message):
        loads.actuation_force(robot, Q, one(command), QD)
    assert not loads.controls_valid(robot, one(command))
    assert loads.controls_valid(robot, None)


@pytest.mark.parametrize(
    "law",
    [
        ForceControl(),
        SaturatedControl(ForceControl(), -5.0, 5.0),
        CapstanFriction(ForceControl(), 0.0, 0.0),
    ],
    ids=lambda law: type(law).__name__,
)
def test_a_refused_force_raises_when_traced(law):
    robot = pendulum(actuators=TransmissionActuator(length(), law))
    force = eqx.filter_jit(loads.actuation_force)
    assert force(robot, Q, one(1.0), QD)[0] == -0.02
    with pytest.raises(Exception, match="must not be negative"):
        jax.block_until_ready(force(robot, Q, one(-1.0), QD))


def test_pushing_is_allowed_on_request():
    law = ForceControl(allow_compressive_force=True)
    robot = pendulum(actuators=TransmissionActuator(length(), law))
    np.testing.assert_allclose(loads.actuation_force(robot, Q, one(-1.0), QD), [0.02, 0, 0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DisplacementControl(-1.0), "`stiffness` must be non-negative"),
        (lambda: DisplacementControl(1.0, np.nan), "`damping` must be non-negative"),
        (lambda: DisplacementControl(np.ones((2, 2))), "`stiffness` needs a number for all"),
        (lambda: DisplacementControl(np.inf), "`stiffness` must be non-negative and finite"),
        (lambda: McKibbenMuscle(0.0, 1.0, 0.0, 1.0, 1.0), "`thread_length` must be positive"),
        (lambda: McKibbenMuscle(1.0, np.inf, 0.0, 1.0, 1.0), "`number_of_turns` must be positive"),
        (lambda: McKibbenMuscle(1.0, 1.0, np.nan, 1.0, 1.0), "`minimum_pressure` must be finite"),
        (lambda: McKibbenMuscle(1.0, 1.0, 0.0, 0.0, 1.0), "`deflated_stiffness` must be positive"),
        (lambda: McKibbenMuscle(1.0, 1.0, 0.0, 1.0, -1.0), "`deflated_equilibrium_length` must"),
    ],
)
def test_bad_numbers_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_compression_is_allowed_by_true_or_false():
    for make in (lambda x: ForceControl(x), lambda x: DisplacementControl(1.0, 0.0, x)):
        for allow in ("no", 2.0, np.array([True, False])):
            with pytest.raises(TypeError, match="allow_compressive_force"):
                make(allow)


def test_an_infinite_command_gives_no_plausible_load():
    for law in (DisplacementControl(1.0), MUSCLE):
        for command in (np.inf, -np.inf):
            assert np.all(np.isnan(law.load(one(command), one(0.0), one(0.0))))


def test_a_potential_gives_an_energy_for_each_channel():
    law = PotentialEffort(lambda x: jnp.stack([x[0], x[0], x[0]]))
    with pytest.raises(ValueError, match="`potential` must return a scalar or one number"):
        law.load(one(0.0), one(0.1), one(0.0))


def test_numbers_of_a_law_must_fit_the_channels():
    with pytest.raises(ValueError, match=r"The effort of `Cubic` has shape \(2,\) for 1 channels"):
        pendulum(actuators=TransmissionActuator(length(), Cubic(jnp.ones(2))))
    transmission = AffineJointTransmission.linear(3, (0,), (1.0,))
    with pytest.raises(TypeError, match="effort_model"):
        TransmissionActuator(transmission, DirectEffort)
