"""The finger of the demo: three links that hang down, two tendons, two elastic tendons."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from soromox.actuation import ArticulatedTendonActuator, ArticulatedTendonImpedance
from soromox.systems import Pendulum, PendulumParams, base_poses


LENGTH = np.array([0.05, 0.04, 0.03])  # [m]
MASS = np.array([0.05, 0.03, 0.02])  # [kg]
RADIUS = 0.006  # [m], links are solid cylinders

# Moment arms [m] of the flexor, past all joints, and of the extensor, which ends on the second link.
ROUTING = np.array([[0.010, 0.008, 0.006], [-0.009, -0.007, 0.0]])
PASSES = np.nonzero(ROUTING)

# Elastic tendons that hold the finger straight; their moment arms [m] are known.
ELASTIC_ROUTING = np.array([[0.008, 0.007, 0.005], [-0.008, -0.006, 0.0]])


class Unknowns(eqx.Module):
    """What is fitted."""

    moment_arms: Float[Array, "5"]  # [m], the entries of the routing where a tendon passes a joint
    stiffness: Float[Array, "2"]  # [N/m] of the elastic tendons
    offset: Float[
        Array, "2"
    ]  # [m] of their coordinates; negative: pulled tight in the straight pose
    start: Float[Array, "6"]  # [q; qd] at the first sample, unknown but of no interest


# Name, unit and scale of the numbers of interest, in the order of the flattened `Unknowns`.
QUANTITIES = (
    *((f"flexor moment arm, joint {j}", "mm", 1e3) for j in (1, 2, 3)),
    *((f"extensor moment arm, joint {j}", "mm", 1e3) for j in (1, 2)),
    *((f"stiffness, elastic tendon {i}", "N/m", 1.0) for i in (1, 2)),
    *((f"offset, elastic tendon {i}", "mm", 1e3) for i in (1, 2)),
)


def true_unknowns() -> Unknowns:
    return Unknowns(
        moment_arms=jnp.asarray(ROUTING[PASSES]),
        stiffness=jnp.array([1800.0, 1200.0]),
        offset=jnp.array([-0.0010, -0.0015]),
        start=jnp.zeros(6),
    )


def start_values(start: Float[np.ndarray, "6"]) -> Unknowns:
    """A first guess, wrong by a third and more."""
    return Unknowns(
        moment_arms=jnp.array([0.007, 0.007, 0.007, -0.007, -0.007]),
        stiffness=jnp.array([1200.0, 1800.0]),
        offset=jnp.zeros(2),
        start=jnp.asarray(start),
    )


def finger() -> Pendulum:
    body = PendulumParams(
        mass=MASS,
        moment_inertia=MASS * (3 * RADIUS**2 + LENGTH**2) / 12,
        length=LENGTH,
        center_of_mass_length=LENGTH / 2,
        joint_stiffness=np.array([0.05, 0.04, 0.03]),  # [N m/rad]
        joint_damping=np.full(3, 2e-4),  # [N m s/rad]
    )
    return Pendulum(
        body,
        actuators=ArticulatedTendonActuator.from_routing(ROUTING),
        passive_elements=ArticulatedTendonImpedance.from_routing(
            ELASTIC_ROUTING, stiffness=np.array([1800.0, 1200.0]), damping=np.full(2, 8.0)
        ),
        base_pose=base_poses.hanging(planar=True),
    )


def with_unknowns(robot: Pendulum, unknowns: Unknowns) -> Pendulum:
    """The finger with these numbers; everything in it may be traced."""
    tendons, elastic = robot.actuators[0].params, robot.passive_elements[0].params
    routing = jnp.zeros(ROUTING.shape).at[PASSES].set(unknowns.moment_arms)
    robot = robot.update_actuator_params(
        0, transmission=tendons.transmission.replace(routing_matrix=routing)
    )
    return robot.update_passive_element_params(
        0,
        stiffness=unknowns.stiffness,
        transmission=elastic.transmission.replace(coordinate_offset=unknowns.offset),
    )
