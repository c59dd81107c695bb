"""The terms of the equation of motion of a robot, as plain functions that `SoftRobot` compiles."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Scalar

from soromox.actuation import ActuatedHost, loads
from soromox.chain import inertia, kinematics
from soromox.chain.dynamics import chain_inverse_dynamics
from soromox.chain.kinematics import configuration


def end_of_way(chain: kinematics.Chain, body: int | None) -> int:
    """The body of the chain at which arc length ends: that of one link, or of the last one."""
    if body is None:
        if not chain.topology.is_serial:
            raise ValueError("`body` is needed on a tree: `s` runs along the way to it.")
        body = len(chain.backbone) - 1
    if not 0 <= body < len(chain.backbone):
        raise ValueError(f"`body` must be in 0..{len(chain.backbone) - 1}, got {body}.")
    return chain.backbone[body]


def length_to(robot: ActuatedHost, body: int | None) -> Scalar:
    chain = robot.mechanics().chain
    end = end_of_way(chain, body)
    path = [j for j in chain.backbone if chain.topology.ancestors[end, j]]
    return jnp.sum(chain.lengths[jnp.array(path)])


def length(robot: ActuatedHost) -> Scalar:
    chain = robot.mechanics().chain
    paths = chain.topology.ancestors[:, list(chain.backbone)]  # which lengths lie on each way out
    lengths = chain.lengths[jnp.array(chain.backbone)]
    return jnp.max(jnp.where(paths, lengths[None], 0).sum(axis=1))


def body_point(robot: ActuatedHost, q: Array, s: Array, body: int | None) -> tuple[Array, Array]:
    """Pose and body-frame Jacobian at arc length `s` on the way to `body`."""
    chain = robot.mechanics().chain
    place, into = kinematics.locate(chain, s, end_of_way(chain, body))
    return kinematics.point(chain, q, place, into)


def pose_at(robot: ActuatedHost, q: Array, s: Array, body: int | None) -> Array:
    return body_point(robot, q, s, body)[0]


def poses_at(robot: ActuatedHost, q: Array, s: Array, body: int | None) -> Array:
    return jax.vmap(lambda s: pose_at(robot, q, s, body))(s)


def body_jacobian_at(robot: ActuatedHost, q: Array, s: Array, body: int | None) -> Array:
    return body_point(robot, q, s, body)[1]


def jacobian_at(robot: ActuatedHost, q: Array, s: Array, body: int | None) -> Array:
    pose, jacobian = body_point(robot, q, s, body)
    return robot.group.rotate(pose, jacobian)


def tips(robot: ActuatedHost, q: Array) -> Array:
    chain = robot.mechanics().chain
    poses = kinematics.tip_poses(chain, configuration(chain, q, jnp.zeros_like(q)))
    return poses[jnp.array(chain.backbone)]


def inertia_matrix(robot: ActuatedHost, q: Array) -> Float[Array, "n n"]:
    return robot.mechanics().inertia_matrix(q)


def coriolis_matrix(robot: ActuatedHost, q: Array, qd: Array) -> Float[Array, "n n"]:
    return inertia.coriolis_matrix(robot.mechanics().chain, q, qd)


def coriolis_force(robot: ActuatedHost, q: Array, qd: Array) -> Float[Array, " n"]:
    chain = robot.mechanics().chain
    weightless = chain.without_gravity()
    return chain_inverse_dynamics(weightless, configuration(chain, q, qd), qd, jnp.zeros_like(q))


def gravitational_force(robot: ActuatedHost, q: Array) -> Float[Array, " n"]:
    chain = robot.mechanics().chain
    rest = jnp.zeros_like(q)
    return chain_inverse_dynamics(chain, configuration(chain, q, rest), rest, rest)


def mass(robot: ActuatedHost) -> Scalar:
    return inertia.total_mass(robot.mechanics().chain)


def gravitational_energy(robot: ActuatedHost, q: Array) -> Scalar:
    return inertia.gravitational_energy(robot.mechanics().chain, q)


def kinetic_energy(robot: ActuatedHost, q: Array, qd: Array) -> Scalar:
    return robot.mechanics().kinetic_energy(q, qd)


def elastic_force(robot: ActuatedHost, q: Array) -> Float[Array, " n"]:
    return robot.mechanics().elastic_force(q) + loads.passive_elastic_force(robot, q)


def elastic_energy(robot: ActuatedHost, q: Array) -> Scalar:
    return robot.mechanics().elastic_energy(q) + loads.passive_elastic_energy(robot, q)


def stiffness_matrix(robot: ActuatedHost) -> Float[Array, "n n"]:
    return robot.mechanics().stiffness_matrix()


def damping_matrix(robot: ActuatedHost, q: Array) -> Float[Array, "n n"]:
    return robot.mechanics().damping_matrix() + loads.passive_damping_matrix(robot, q)


def inverse_dynamics(robot: ActuatedHost, q: Array, qd: Array, qdd: Array) -> Float[Array, " n"]:
    passive = loads.passive_elastic_force(robot, q) + loads.passive_damping_force(robot, q, qd)
    return robot.mechanics().inverse_dynamics(q, qd, qdd) + passive


def forward_acceleration(
    robot: ActuatedHost, q: Array, qd: Array, u: Array | None, tau_ext: Array | None
) -> Float[Array, " n"]:
    tau = loads.actuation_force(robot, q, u, qd)
    tau = tau - loads.passive_elastic_force(robot, q) - loads.passive_damping_force(robot, q, qd)
    if tau_ext is not None:
        tau = tau + tau_ext
    return robot.mechanics().forward_acceleration(q, qd, tau)
