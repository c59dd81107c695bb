"""Comparison of a robot with the arrays of one case in `reference/rods`."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from soromox.systems import SoftRobot


BY_CONFIGURATION = (
    "forward_kinematics_tips",
    "inertia_matrix",
    "gravitational_force",
    "elastic_force",
    "damping_matrix",
    "gravitational_energy",
    "elastic_energy",
    "potential_energy",
    "passive_damping_matrix",
    "passive_elastic_energy",
    "passive_elastic_force",
    "actuator_coordinates",
    "actuation_matrix",
)
BY_STATE = ("coriolis_force", "kinetic_energy", "total_energy", "actuator_velocities")
BY_ARC_LENGTH = ("forward_kinematics", "jacobian", "jacobian_bodyframe")


def params_of(data: dict, prefix: str) -> dict[str, np.ndarray]:
    """The recorded parameters that start with `prefix`, by the rest of their name."""
    return {key[len(prefix) :]: data[key] for key in data if key.startswith(prefix)}


@eqx.filter_jit
def evaluate(robot: SoftRobot, q, qd, u, s) -> dict[str, jax.Array]:
    """Everything that the reference records, at one sample."""
    result = {name: getattr(robot, name)(q) for name in BY_CONFIGURATION}
    result |= {name: getattr(robot, name)(q, qd) for name in BY_STATE}
    for name in BY_ARC_LENGTH:
        result[name] = jax.vmap(lambda s, name=name: getattr(robot, name)(q, s))(s)
    result["stiffness_matrix"] = robot.stiffness_matrix()
    result["coriolis_qd"] = robot.coriolis_matrix(q, qd) @ qd
    if robot.num_actuators:
        result["actuator_efforts"] = robot.actuator_efforts(q, u, qd)
        result["actuation_force"] = robot.actuation_force(q, u, qd)
    dynamics = robot.forward_dynamics(0.0, jnp.concatenate([q, qd]), u)
    result["forward_dynamics"] = dynamics
    return result


def disagreements(
    robot: SoftRobot, data: dict, *, tolerance: float = 1e-9, skip: tuple[str, ...] = ()
) -> dict[str, float]:
    """Quantities off by more than `tolerance` of their largest entry, with that error."""
    off = {}
    for sample in range(len(data["q"])):
        q, qd, u = (jnp.asarray(data[key][sample]) for key in ("q", "qd", "u"))
        ours = evaluate(robot, q, qd, u, jnp.asarray(data["s"]))
        recorded = {key: data[key][sample] for key in ours if key in data}
        recorded["coriolis_qd"] = data["coriolis_force"][sample]
        for key, theirs in recorded.items():
            if key in skip:
                continue
            scale = np.max(np.abs(theirs), initial=0.0) or 1.0
            error = float(np.max(np.abs(np.asarray(ours[key]) - theirs), initial=0.0)) / scale
            if not error <= tolerance:
                off[key] = max(off.get(key, 0.0), error)
        qdd = jnp.asarray(data["forward_dynamics"][sample][len(q) :])
        force = jnp.asarray(data["actuation_force"][sample])
        error = jnp.max(jnp.abs(robot.inverse_dynamics(q, qd, qdd) - force))
        scale = jnp.max(jnp.abs(robot.inertia_matrix(q) @ qdd)) + jnp.max(jnp.abs(force))
        if "inverse_dynamics" not in skip and not error <= tolerance * scale:
            off["inverse_dynamics"] = float(error / scale)
    return off
