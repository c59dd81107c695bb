"""Numbers of actuators and passive elements: one leaf each, checked, replaced without side effects."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.actuation import (
    AffineJointTransmission,
    ArticulatedTendonActuator,
    ArticulatedTendonImpedance,
    DisplacementControl,
    ForceControl,
    IdentityActuator,
    IdentityTransmission,
    LinearJoint,
    SpatialTendonTransmission,
    TransmissionActuator,
    TransmissionImpedance,
    Waypoint,
)
from tests.hosts import ROUTING, pendulum
from tests.transmissions import muscles


OFFSET = np.array([0.018, 0.025])
Q = jnp.array([0.3, -0.2, 0.1])


def tendons() -> ArticulatedTendonActuator:
    return ArticulatedTendonActuator.from_routing(ROUTING, coordinate_offset=OFFSET)


def springs() -> ArticulatedTendonImpedance:
    return ArticulatedTendonImpedance.from_routing(
        ROUTING, stiffness=[80.0, 60.0], damping=[1.5, 1.0], coordinate_offset=OFFSET
    )


def test_params_are_the_stored_parts():
    actuator = tendons()
    assert actuator.params.transmission is actuator.transmission.params
    assert actuator.params.lower_bounds is actuator.lower_bounds
    np.testing.assert_array_equal(actuator.lower_bounds, [0, 0])
    np.testing.assert_array_equal(actuator.upper_bounds, [np.inf, np.inf])
    element = springs()
    assert element.params.stiffness is element.stiffness
    # a transmission without params of its own is shown whole
    plain = IdentityActuator(3)
    assert plain.params.transmission is plain.transmission


def test_an_update_changes_one_thing_and_leaves_the_old_one():
    actuator = tendons()
    moved = actuator.params.transmission.replace(coordinate_offset=OFFSET + 1)
    new = actuator.update_params(transmission=moved)
    assert type(new) is type(actuator)
    assert new.labels == actuator.labels
    assert new.effort_model == actuator.effort_model
    np.testing.assert_allclose(
        new.coordinates(pendulum(), Q), actuator.coordinates(pendulum(), Q) + 1
    )
    np.testing.assert_array_equal(actuator.params.transmission.coordinate_offset, OFFSET)
    same = new.with_params(actuator.params)
    assert eqx.tree_equal(same, actuator)


def test_energy_follows_an_updated_offset():
    robot = pendulum()
    new = springs().update_params(
        transmission=springs().params.transmission.replace(coordinate_offset=[0.0, 0.0])
    )
    assert new.energy(robot, jnp.zeros(3)) == 0
    assert springs().energy(robot, jnp.zeros(3)) > 0


def test_parameters_of_laws_and_paths_can_be_replaced():
    tendon = SpatialTendonTransmission(
        [Waypoint(0, [0.0, 0.1, 0.0]), Waypoint(1, [0.1, 0.0, 0.0]), LinearJoint(2, 0.01)]
    )
    actuator = TransmissionActuator(tendon, DisplacementControl(100.0))
    law = actuator.params.effort_model.replace(stiffness=50.0)
    path = actuator.params.transmission.replace(coefficients=[0.02])
    new = actuator.update_params(effort_model=law, transmission=path)
    assert new.effort_model.stiffness == 50
    np.testing.assert_array_equal(new.transmission.params.coefficients, [0.02])
    assert new.transmission.layout == tendon.layout


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stifness": 1.0}, "has no parameter `stifness`; it has: transmission, effort_model"),
        ({"lower_bounds": [0.0]}, "lower_bounds` needs shape"),
        ({"lower_bounds": [np.nan, 0.0]}, "`lower_bounds` must not be NaN"),
        ({"lower_bounds": [1.0, 1.0], "upper_bounds": [2.0, 0.5]}, "must be at most its entry"),
        ({"effort_model": DisplacementControl(1.0)}, "reconstruct"),
        ({"transmission": IdentityTransmission()}, "reconstruct"),
        ({"upper_bounds": None}, "reconstruct"),
    ],
)
def test_bad_updates_of_an_actuator_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        tendons().update_params(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stiffness": [-1.0, 0.0]}, "`stiffness` must be non-negative"),
        ({"damping": [np.nan, 0.0]}, "`damping` must be non-negative"),
        ({"rest_coordinate": [np.inf, 0.0]}, "`rest_coordinate` must be finite"),
        ({"stiffness": [1.0]}, "stiffness` needs shape"),
    ],
)
def test_bad_updates_of_an_element_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        springs().update_params(**changes)


def test_params_of_another_component_are_refused():
    with pytest.raises(
        TypeError, match="needs `ActuatorParams`, got `TransmissionImpedanceParams`"
    ):
        tendons().with_params(springs().params)


def test_updates_differentiate_and_compile_and_batch():
    robot, element = pendulum(), springs()

    def energy(stiffness):
        return element.update_params(stiffness=stiffness).energy(robot, Q)

    y = element.transmission.coordinates(robot, Q)
    gradient = jax.jit(jax.vmap(jax.grad(energy)))(jnp.array([[80.0, 60.0], [1.0, -5.0]]))
    np.testing.assert_allclose(gradient, np.stack([y**2 / 2] * 2), rtol=1e-13)
    # the same leaf, reached through the whole robot
    whole = jax.grad(lambda r: r.passive_elements[0].energy(r, Q))(
        pendulum(passive_elements=(element,))
    )
    np.testing.assert_allclose(whole.passive_elements[0].params.stiffness, y**2 / 2, rtol=1e-13)


def test_leaves_can_be_picked_through_params():
    robot = pendulum(actuators=tendons(), passive_elements=(springs(),))
    new = eqx.tree_at(
        lambda r: (
            r.actuators[0].params.transmission.coordinate_offset,
            r.passive_elements[0].params.stiffness,
        ),
        robot,
        (jnp.zeros(2), jnp.ones(2)),
    )
    np.testing.assert_array_equal(new.actuators[0].transmission.params.coordinate_offset, [0, 0])
    np.testing.assert_array_equal(new.passive_elements[0].stiffness, [1, 1])


def test_given_precision_is_kept():
    R = jnp.asarray(ROUTING, jnp.float32)
    actuator = ArticulatedTendonActuator.from_routing(R)
    leaves = jax.tree.leaves(actuator.update_params(upper_bounds=[1.0, 2.0]))
    assert {leaf.dtype for leaf in leaves} == {jnp.dtype("float32")}
    assert not any(leaf.weak_type for leaf in leaves)


def test_labels_units_and_bounds():
    gear = AffineJointTransmission.linear(3, (0,), (2.0,))
    actuator = TransmissionActuator(gear, labels=["motor"], units="N m", bounds=(-1, 2.0))
    metadata = actuator.metadata
    assert metadata.labels == ("motor",)
    assert metadata.units == ("N m",)
    np.testing.assert_array_equal(metadata.lower_bounds, [-1])
    np.testing.assert_array_equal(metadata.upper_bounds, [2])
    np.testing.assert_array_equal(IdentityActuator(2).metadata.lower_bounds, [-np.inf] * 2)
    assert tendons().metadata.labels == ("tendon_tension_0", "tendon_tension_1")
    assert IdentityActuator(1).metadata[:3] == (
        "identity",
        ("generalized_effort_0",),
        ("generalized effort",),
    )
    with pytest.raises(ValueError, match="`units` needs one entry for each of 1 channels"):
        TransmissionActuator(gear, units=["N", "N"])
    with pytest.raises(ValueError, match="at most its entry"):
        TransmissionActuator(gear, bounds=(2, 1))


def test_impedance_numbers_hold_for_all_coordinates_or_one_each():
    element = TransmissionImpedance(IdentityTransmission(), [1.0, 2.0, 3.0], 0.5)
    element.install_check(pendulum())
    np.testing.assert_array_equal(element.damping, [0.5] * 3)
    with pytest.raises(ValueError, match="has numbers for 2 coordinates, but its"):
        TransmissionImpedance(IdentityTransmission(), [1.0, 2.0]).install_check(pendulum())
    with pytest.raises(ValueError, match="`stiffness` must be non-negative"):
        TransmissionImpedance(IdentityTransmission(), [1.0, -2.0])


@pytest.mark.parametrize("name", ["joint_pair_indices", "allow_compressive_force"])
def test_topology_cannot_be_replaced(name):
    if name == "allow_compressive_force":
        part, same, other = ForceControl(), False, True
    else:
        part, same, other = muscles()[1].params, [[0, 1], [2, 3]], [[2, 3], [0, 1]]
    assert eqx.tree_equal(part.replace(**{name: same}), part)
    with pytest.raises(ValueError, match=f"`{type(part).__name__}.{name}` is .* reconstruct"):
        part.replace(**{name: other})
