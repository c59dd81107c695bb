"""Affine coordinates and articulated tendons: values, row rules, hosts."""

import re

import jax.numpy as jnp
import numpy as np
import pytest

from soromox.actuation import (
    AffineGeneralizedCoordinateActuator,
    AffineGeneralizedCoordinateTransmission,
    AffineGeneralizedCoordinateTransmissionParams,
    AffineJointTransmission,
    ArticulatedTendonActuator,
    ArticulatedTendonTransmissionParams,
    DisplacementControl,
    IdentityActuator,
    TransmissionImpedance,
)
from soromox.systems import GVS, GVSSegment, JointSpec, LinkSpec
from tests.hosts import floating_arm, floating_pendulum, hand, pendulum
from tests.transmissions import TRANSMISSIONS


def test_the_joint_transmission_is_the_affine_one():
    assert AffineJointTransmission is AffineGeneralizedCoordinateTransmission


def test_coordinates_are_affine_in_the_internal_dofs():
    R, q_ref, offset = np.array([[0.1, 0.0, -0.3]]), np.array([1.0, 2.0, 3.0]), np.array([0.5])
    params = AffineGeneralizedCoordinateTransmissionParams(R, q_ref, offset)
    robot = floating_pendulum()
    q = jnp.array([9.0, 8.0, 7.0, 0.1, 0.2, 0.3])
    y = AffineGeneralizedCoordinateTransmission(params).coordinates(robot, q)
    np.testing.assert_allclose(y, R @ (np.array([0.1, 0.2, 0.3]) - q_ref) + offset, rtol=1e-15)


def test_base_rows_of_the_moment_matrix_are_zero():
    A = floating_arm().actuation_matrix(jnp.zeros(8))
    np.testing.assert_array_equal(A, np.concatenate([np.zeros((6, 2)), np.eye(2)]))


@pytest.mark.parametrize(
    ("joints", "coefficients", "row"),
    [
        ((2, 0, 2), (0.4, -0.3, 0.6), [-0.3, 0.0, 1.0]),
        ((np.int64(1),), (2,), [0.0, 2.0, 0.0]),
        ((), (), [0.0, 0.0, 0.0]),
    ],
)
def test_linear_rows_add_up(joints, coefficients, row):
    transmission = AffineJointTransmission.linear(3, joints, coefficients)
    np.testing.assert_allclose(transmission.params.routing_matrix, [row], rtol=1e-15)


@pytest.mark.parametrize(
    ("joints", "coefficients", "error", "message"),
    [
        ((3,), (1.0,), ValueError, "`joints` must lie in 0 ... 2, got 3"),
        ((-1,), (1.0,), ValueError, "`joints` must lie in 0 ... 2, got -1"),
        ((0, 1), (1.0,), ValueError, "`coefficients` needs shape (2,), got (1,)"),
        ((0,), (np.nan,), ValueError, "`coefficients` must be finite"),
        ((0,), (np.inf,), ValueError, "`coefficients` must be finite"),
    ],
)
def test_bad_linear_rows_are_refused(joints, coefficients, error, message):
    with pytest.raises(error, match=re.escape(message)):
        AffineJointTransmission.linear(3, joints, coefficients)


def test_counts_must_be_whole_numbers():
    with pytest.raises(TypeError, match="joints"):
        AffineJointTransmission.linear(3, (1.5,), (1.0,))
    with pytest.raises(TypeError, match="num_dofs"):
        AffineJointTransmission.linear(3.0, (1,), (1.0,))


def test_only_feedforward_laws_act_along_a_rotation_vector():
    """Its coordinates jump at half a turn, which a constant torque along them does not see."""
    link = LinkSpec.circular(length=0.2, radius=0.02, density=1000.0)
    joints = JointSpec.spherical(), JointSpec.revolute("z")
    segments = [GVSSegment(link, joint) for joint in joints]
    routing = np.array([[0.0, 0.1, 0.0, 0.1]])
    torque = AffineGeneralizedCoordinateActuator.from_routing(routing)
    robot = GVS.from_segments(segments, actuators=torque)
    np.testing.assert_array_equal(robot.actuation_force(np.zeros(4), [2.0]), [0, 0.2, 0, 0.2])
    assert robot.update_actuator_params(0).num_actuators == 1
    spring = TransmissionImpedance(torque.transmission, 1.0)
    for refused in (
        lambda: robot.add_transmission(torque.transmission),
        lambda: robot.attach_actuator(0, DisplacementControl(1.0)),
        lambda: GVS.from_segments(segments, passive_elements=spring),
    ):
        with pytest.raises(ValueError, match=r"entries for dofs 0 ... 2, the rotation vector"):
            refused()


@pytest.mark.parametrize(
    ("R", "message"),
    [
        ([[1.0, 0.0, 1.0]], "Row 0 of `routing_matrix` skips joint 1"),
        ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]], "rank is 2"),
        ([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]], "Row 1 of `routing_matrix` is zero"),
        ([[1.0, np.nan, 0.0]], "`routing_matrix` must be finite"),
        ([1.0, 2.0, 3.0], "one row for each coordinate"),
    ],
)
def test_bad_tendon_rows_are_refused(R, message):
    with pytest.raises(ValueError, match=re.escape(message)) as refusal:
        ArticulatedTendonTransmissionParams(R)
    if "joint" in message or "rank" in message:
        assert "AffineGeneralizedCoordinateActuator" in str(refusal.value)


def test_a_gap_that_an_update_opens_is_refused():
    params = ArticulatedTendonTransmissionParams([[1.0, 1.0, 1.0]])
    with pytest.raises(ValueError, match="skips joint 1"):
        params.replace(routing_matrix=[[1.0, 0.0, 1.0]])


def test_leading_and_trailing_zeros_are_fine():
    R = np.array([[0.0, 0.01, 0.02], [0.01, 0.0, 0.0]])
    pendulum(actuators=ArticulatedTendonActuator.from_routing(R))


def test_tendons_of_a_tree_follow_its_branches():
    good = np.zeros((2, 6))
    good[0, [0, 1, 2]] = good[1, [3, 4]] = 0.01
    robot = hand()
    ArticulatedTendonActuator.from_routing(good).install_check(robot)
    bad = np.zeros((1, 6))
    bad[0, [2, 3]] = 0.01
    with pytest.raises(ValueError, match="joint 3 follows joint 0: the joints of a tendon must be"):
        ArticulatedTendonActuator.from_routing(bad).install_check(robot)


def test_tendons_need_joints_and_say_what_works_without():
    soft = TRANSMISSIONS["material_tendon"]()[0]
    R = np.ones((1, soft.num_internal_dofs))
    with pytest.raises(
        TypeError, match=r"needs a host with serial joint routing.*PlanarPCS.*Affine"
    ):
        ArticulatedTendonActuator.from_routing(R).install_check(soft)
    AffineGeneralizedCoordinateActuator.from_routing(R).install_check(soft)


@pytest.mark.parametrize(
    ("actuator", "message"),
    [
        (AffineGeneralizedCoordinateActuator.from_routing([[1.0, 0.0]]), "has 2 columns, but"),
        (IdentityActuator(2), "has 2 channels"),
    ],
)
def test_sizes_must_match_the_robot(actuator, message):
    with pytest.raises(ValueError, match=message):
        actuator.install_check(floating_pendulum())
