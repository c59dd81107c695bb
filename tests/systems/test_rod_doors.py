"""What rods refuse, and how they name it."""

import re

import jax.numpy as jnp
import numpy as np
import pytest

from soromox.systems import (
    GVS,
    PCS,
    GVSSegment,
    JointSpec,
    LinearProfile,
    LinkSpec,
    PCSStructure,
)
from tests.hosts import pendulum


ROD = {
    "length": 0.1,
    "radius": 0.01,
    "density": 1e3,
    "young_modulus": 1e5,
    "poisson_ratio": 0.4,
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"young_modulus": "e"}, "`young_modulus` needs real numbers, got str 'e'"),
        ({"poisson_ratio": "e"}, "`poisson_ratio` needs real numbers, got str 'e'"),
        ({"radius": -1.0}, re.escape("`radius` must be positive and finite. Got [-1.]")),
        ({"radius": LinearProfile(0.01, -1.0)}, re.escape("`radius.tip` must be positive")),
        (
            {"radius": LinearProfile(0.0, 0.01)},
            re.escape("`radius` must be positive and finite. Got [0.]"),
        ),
    ],
)
def test_refused_links(changes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        PCS.from_links(LinkSpec.circular(**(ROD | changes)))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: PCS.from_links(None), "links"),
        (lambda: PCSStructure(num_gauss_points="5"), "num_gauss_points"),
        (lambda: PCSStructure(num_gauss_points=None), "num_gauss_points"),
        (lambda: PCSStructure(num_gauss_points=True), "num_gauss_points"),
        (lambda: PCSStructure(scale_rotational_basis_by_length="yes"), "scale_rotational_basis"),
        (lambda: pendulum().external_force(np.zeros(3), 0.1, np.zeros(3), body="a"), "body"),
        (lambda: pendulum().update_actuator_params(0.0), "index"),
        (lambda: pendulum().inertia_matrix(None), "q"),
    ],
)
def test_refused_types_are_named(make, name):
    # while tests run, the type hook speaks first of most
    with pytest.raises((TypeError, ValueError), match=f"['`]{name}"):
        make()


def test_arc_length_is_as_exact_as_its_own_dtype():
    robot, q = PCS.from_links([LinkSpec.circular(**ROD)] * 3), np.zeros(18)
    end = robot.forward_kinematics(q, robot.length)
    for s in (np.float32(0.3), jnp.float32(0.3)):
        assert float(s) > robot.length
        np.testing.assert_array_equal(robot.forward_kinematics(q, s), end)
    # the end of a link lies before the joint of the next one
    link = LinkSpec.circular(**ROD)
    hinged = GVS.from_segments([GVSSegment(link), GVSSegment(link, JointSpec.revolute("z"))])
    before = hinged.forward_kinematics([1.0], 0.1)
    assert float(np.float32(0.1)) > 0.1
    np.testing.assert_array_equal(hinged.forward_kinematics([1.0], np.float32(0.1)), before)
    with pytest.raises(ValueError, match=re.escape("must lie in [0, 0.3] m. Got 0.300000001.")):
        robot.forward_kinematics(q, 0.300000001)
