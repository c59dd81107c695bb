"""How many iterations an implicit stage takes with stiff displacement control."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.actuation import (
    AffineJointTransmission,
    DisplacementControl,
    TransmissionActuator,
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
