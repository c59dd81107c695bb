"""How many iterations an implicit stage takes with stiff displacement control."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.actuation import (
    AffineJointTransmission,
    DisplacementControl,
    SpatialTendonTransmission,
    TransmissionActuator,
    Waypoint,
    loads,
)
from soromox.simulation import RESULTS
from soromox.simulation.root import find_root
from soromox.simulation.stage import Stage
from soromox.simulation.stage_inverse import approximate
from tests.hosts import pendulum


STEP = 0.01  # [s]


@pytest.mark.parametrize("allow_compressive_force", [False, True])
def test_stiff_cables_take_few_iterations(allow_compressive_force):
    """An antagonistic pair of constant moment arms on three joints, without slack or able to push."""
    law = DisplacementControl(0.0, 0.0, allow_compressive_force)
    arms = np.array([0.012, -0.010, 0.008])
    pair = [AffineJointTransmission.linear(3, (0, 1, 2), sign * arms) for sign in (1, -1)]
    robot = pendulum(actuators=tuple(TransmissionActuator(t, law) for t in pair))

    @jax.jit
    @jax.vmap
    def solve(stiffness, damping, q, qd, u):
        numbers = [number for _ in pair for number in (stiffness, damping)]
        stiff = eqx.tree_at(
            lambda robot: jax.tree.leaves([a.effort_model for a in robot.actuators]), robot, numbers
        )
        y = loads.load_coordinates(stiff, q)
        stage = Stage(stiff, stiff.mechanics(), jnp.array(STEP), q, qd, y, jnp.zeros(0), u, None)
        inverse, measure = approximate(stage)
        return find_root(stage, jnp.zeros(3), measure, inverse)[1]

    rng = np.random.default_rng(1)
    count = 200
    stiffness = 10.0 ** rng.uniform(8, 9, count)
    stiffness[:100] = 1e9
    damping = rng.choice([0.0, 5.0], count)
    q, qd = rng.uniform(-1, 1, (2, count, 3)) * np.array([[[0.3]], [[0.5]]])
    slack = rng.choice([0.0, 1e-3], count) * allow_compressive_force
    shift = rng.uniform(-1e-3, 1e-3, count)
    x = q @ arms + shift  # middle of the gap
    found = solve(
        *map(jnp.asarray, (stiffness, damping, q, qd, np.stack([x + slack, slack - x], 1)))
    )
    assert np.all(found.code == RESULTS.successful)
    assert np.max(found.chords + found.trials) < 10


def test_stiff_cables_over_waypoints_take_few_iterations():
    """An antagonistic pair over three joints that follows its targets through large bends.

    Its moment arms change within a step and its members go slack and taut.
    """
    law = DisplacementControl(1e9)

    def cable(side):
        places = [(-1, -0.03), (0, 0.1), (0, 0.4), (1, 0.1), (1, 0.3), (2, 0.1)]
        return SpatialTendonTransmission([Waypoint(link, (x, side, 0)) for link, x in places])

    robot = pendulum(actuators=tuple(TransmissionActuator(cable(s), law) for s in (0.02, -0.02)))
    mechanics = robot.mechanics()

    def follow(carry, time):
        q, qd, guess = carry
        target = 0.01 * jnp.sin(2 * jnp.pi * time)
        u = 1e-4 + target * np.array([1.0, -1.0])
        y = loads.load_coordinates(robot, q)
        stage = Stage(robot, mechanics, jnp.array(STEP), q, qd, y, jnp.zeros(0), u, None)
        inverse, measure = approximate(stage)
        a, found = find_root(stage, guess, measure, inverse)
        return (*stage.motion(a), a), (q, found)

    rest = jnp.zeros(3)
    times = STEP * np.arange(1.0, 201.0)
    q, found = jax.jit(lambda: jax.lax.scan(follow, (rest, rest, rest), times)[1])()
    assert jnp.max(jnp.abs(q)) > 2
    assert np.all(found.code == RESULTS.successful)
    assert np.max(found.chords + found.trials) < 10
