"""Motions of a tendon finger against its continuous solution."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.actuation import TransmissionActuator
from soromox.simulation import DIRK33, RESULTS, SystemState
from tests.actuation import superdex


@pytest.mark.slow
def test_recorded_finger_is_nearer_to_its_continuous_motion_than_any_other(shared_reference):
    data = superdex.load(shared_reference, "h6_continuous_limit_and_orders")
    mechanism = data["mechanism"]
    laws = [superdex.law(record) for record in data["actuators"]]
    paths = [superdex.transmission(record, mechanism) for record in data["transmissions"]]
    robot = superdex.robot(
        mechanism,
        tuple(TransmissionActuator(p, law) for p, (law, _) in zip(paths, laws, strict=True)),
        gravity=data["gravity"],
    )
    viscous = np.array([joint["viscous"] for joint in mechanism["joints"]])
    robot = robot.update_params(joint_damping=viscous)
    start = SystemState(t=0.0, y=np.concatenate([data["initial_q"], data["initial_v"]]))
    u = np.array([command for _, command in laws])
    recorded = {}
    for rows in data["superdex_by_method"].values():
        for row in rows:
            recorded[row["dt"]] = min(row["err_q"], recorded.get(row["dt"], np.inf))
    lengths = np.array([*sorted(recorded, reverse=True), 1e-4])
    counts = [round(data["t_end"] / dt) for dt in lengths]
    runs = jax.jit(
        jax.vmap(
            lambda dt: robot.rollout_to(start, u, num_steps=counts[-1], dt=dt, scheme=DIRK33())
        )
    )(jnp.asarray(lengths))
    assert np.all(runs.result == RESULTS.successful)
    ends = np.asarray(runs.q)[np.arange(len(counts)), counts]
    errors = np.max(np.abs(ends - np.array(data["continuous"]["q"][-1])), axis=1)
    assert errors[-1] < 1e-7
    assert errors[0] < recorded[lengths[0]] / 10
    assert all(e < recorded[dt] for e, dt in zip(errors[:-1], lengths[:-1], strict=True))
