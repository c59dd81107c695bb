"""Gradients of simulated motions with respect to commands, numbers of laws and points of paths."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.actuation import (
    AffineJointTransmission,
    CapstanFriction,
    DirectEffort,
    DisplacementControl,
    FirstOrderActivation,
    ForceControl,
    HillMuscle,
    LinearJoint,
    McKibbenMuscle,
    PressureDynamics,
    SaturatedControl,
    SpatialTendonTransmission,
    TransmissionActuator,
    Waypoint,
)
from soromox.simulation import RESULTS, SystemState
from tests.hosts import pendulum


POINTS = [Waypoint(-1, [-0.05, 0.06, 0.0]), Waypoint(0, [0.1, 0.05, 0.0])]
TENDON = SpatialTendonTransmission([*POINTS, LinearJoint(1, 0.02)])
Y0 = np.array([0.3, -0.2, 0.1, 1.0, 0.5, -1.0])


def gear(joint: int, arm: float) -> AffineJointTransmission:
    return AffineJointTransmission.linear(3, (joint,), (arm,))


def stateless():
    muscle = McKibbenMuscle(0.12, 1.5, 1e4, 100.0, 0.1)
    parts = (TENDON, DisplacementControl(2e3, 5.0)), (gear(1, 0.03), muscle)
    return parts, [-0.004, 1e5]


def stateful():
    valve = PressureDynamics(2e-9, 1e-9, dead_volume=1e-4)
    hill = FirstOrderActivation(HillMuscle(50.0, 0.1), 0.05, 0.1)
    limited = SaturatedControl(DirectEffort(), -1.0, 2.0, softness=0.3)
    cable = CapstanFriction(ForceControl(), 0.3, 1.2, slip_speed=0.1)
    transmissions = gear(0, 1e-5), gear(1, 0.02), gear(2, 0.1), gear(2, 0.03)
    return tuple(zip(transmissions, (valve, hill, limited, cable), strict=True)), [5e4, 0.6, 1.8, 4]


@pytest.mark.slow
@pytest.mark.parametrize("case", [stateless, stateful])
def test_gradients_of_a_motion_equal_central_differences(case):
    parts, u = case()
    robot = pendulum(actuators=tuple(TransmissionActuator(*part) for part in parts))
    where = lambda robot: [
        leaf
        for a in robot.actuators
        for leaf in jax.tree.leaves((a.effort_model, getattr(a.transmission, "params", ())))
    ]
    numbers = [jnp.array(u, float), *where(robot)]
    sizes = [np.size(x) for x in numbers]
    flat = jnp.concatenate([jnp.ravel(x) for x in numbers])

    @jax.jit
    def end(flat):
        pieces = jnp.split(flat, np.cumsum(sizes)[:-1])
        u, *leaves = [x.reshape(old.shape) for x, old in zip(pieces, numbers, strict=True)]
        driven = eqx.tree_at(where, robot, leaves)
        motion = driven.rollout_to(SystemState(0.0, Y0), u, num_steps=10, dt=5e-3)
        return motion.y[-1] @ jnp.array([1.0, -2.0, 3.0, 0.1, 0.2, -0.3]), motion.result.max()

    gradient, result = jax.jit(jax.grad(end, has_aux=True))(flat)
    assert result == RESULTS.successful
    h = 1e-4 * jnp.where(flat == 0, 1e-3, jnp.abs(flat))
    ends, _ = jax.jit(jax.vmap(end))(flat[None] + jnp.concatenate([jnp.diag(h), -jnp.diag(h)]))
    ahead, behind = ends.reshape(2, -1)
    # numbers of very different sizes: compare what a relative change of each does
    effects = np.asarray(gradient * h), np.asarray(ahead - behind) / 2
    np.testing.assert_allclose(*effects, rtol=1e-5, atol=1e-7 * np.max(np.abs(effects[1])))
    assert np.count_nonzero(gradient) > 10
