"""Paths that a robot refuses, with the reason, and those it takes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.actuation import (
    BaseThreadlikeRoutingParams,
    ThreadlikeActuator,
    ThreadlikeImpedance,
    ThreadlikeRouting,
    ThreadlikeTransmission,
)
from soromox.systems import (
    GVS,
    PCS,
    GVSSegment,
    JointSpec,
    LinearProfile,
    LinkSpec,
    Pendulum,
)
from tests.hosts import pendulum


def link() -> LinkSpec:
    material = {"density": 1000.0, "young_modulus": 5e5, "poisson_ratio": 0.4}
    return LinkSpec.circular(length=0.1, radius=0.01, **material)


def sides() -> ThreadlikeRouting:
    return ThreadlikeRouting.linear([[0.0, 0.006, 0.0], [0.0, -0.006, 0.0]])


@pytest.mark.parametrize(
    ("routing", "message"),
    [
        ({"intercept": [[0.001, 0.0, 0.0]]}, "`intercept` of path 0 has an x-component"),
        (
            {"intercept": np.zeros((2, 3)), "slope": [[0] * 3, [1, 0, 0]]},
            "`slope` of path 1 has an",
        ),
        ({"intercept": [[0.0, 0.03, 0.0]]}, "Path 0 lies outside the body along segment 0"),
        ({"intercept": [[0.0, np.nan, 0.0]]}, "`intercept` must be finite"),
        ({"intercept": [0.0, 0.001, 0.0]}, r"`intercept` needs one row \[0, y, z\]"),
        ({"intercept": np.zeros((1, 3)), "slope": np.zeros((2, 3))}, "`slope` needs the shape"),
        ({"intercept": np.zeros((1, 3)), "end_segment_index": 2}, "has the segments 0 to 0"),
        (
            {"intercept": np.zeros((1, 3)), "start_segment_index": 1, "end_segment_index": 0},
            "must cover at least one segment",
        ),
        ({"intercept": np.zeros((1, 3)), "start_segment_index": -1}, "must be 0 or more"),
        ({"intercept": np.zeros((1, 3)), "end_segment_index": 0.9}, "whole numbers, got 0.9"),
        ({"intercept": np.zeros((1, 3)), "start_segment_index": True}, "whole numbers, got True"),
    ],
)
def test_refused_routings(routing, message):
    with pytest.raises(ValueError, match=message):
        PCS.from_links(
            [link()], actuators=ThreadlikeActuator.tendons(ThreadlikeRouting.linear(**routing))
        )


@pytest.mark.parametrize(
    ("section", "within", "beyond"),
    [
        (
            LinkSpec.rectangular(length=0.1, height=0.02, width=0.01, density=1.0),
            [0.0099, 0.0049],
            [0.0, 0.0051],
        ),
        (
            LinkSpec.elliptical(length=0.1, semi_major=0.02, semi_minor=0.01, density=1.0),
            [0.0199, 0.0],
            [0.0199, 0.0049],
        ),
        # a path may stick out of the tip of a taper, but not lie outside all along
        (
            LinkSpec.circular(length=0.1, radius=LinearProfile(0.02, 0.01), density=1.0),
            [0.015, 0.0],
            [0.0201, 0.0],
        ),
    ],
    ids=["rectangle", "ellipse", "taper"],
)
def test_paths_lie_inside_the_section(section, within, beyond):
    def install(offset):
        joint = JointSpec.revolute("z")
        tendons = ThreadlikeActuator.tendons(ThreadlikeRouting.linear([[0.0, *offset]]))
        return GVS.from_segments(GVSSegment(section, joint, None), actuators=tendons)

    assert install(within).num_actuators == 1
    with pytest.raises(ValueError, match="outside the body"):
        install(beyond)


class Scale(BaseThreadlikeRoutingParams):
    value: jax.Array


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        (lambda params, s: params.value * jnp.array([[0.1, 0.0, 0.0]]), "has an x-component"),
        (lambda params, s: jnp.array([[0.0, 1.0, 0.0]]) * jnp.nan, "path 0 is not finite"),
        (lambda params, s: params.value * jnp.array([[0.0, 1.0, 0.0]]), "outside the body"),
        (lambda params, s: params.value * jnp.array([0.0, 0.1, 0.0]), r"\(p, 3\), got \(3,\)"),
    ],
    ids=["x", "nan", "outside", "shape"],
)
def test_refused_routings_of_our_own(offset, message):
    with pytest.raises(ValueError, match=message):
        PCS.from_links(
            [link()],
            actuators=ThreadlikeActuator.tendons(ThreadlikeRouting(Scale(jnp.array(0.05)), offset)),
        )


@pytest.mark.parametrize(
    ("derivative", "message"),
    [
        (lambda params, s: jnp.array([[0.0, 1.0, 0.0]]), "not the derivative of `offset_fn`"),
        (lambda params, s: jnp.array([[0.0, jnp.nan, 0.0]]), "not the derivative of `offset_fn`"),
        (lambda params, s: jnp.zeros(3), r"one row for each path, \(1, 3\), got \(3,\)"),
    ],
    ids=["wrong", "nan", "shape"],
)
def test_refused_derivatives(derivative, message):
    offset = lambda params, s: params.value * jnp.array([[0.0, 0.1, 0.0]]) * (1 - s)
    routing = ThreadlikeRouting(Scale(jnp.array(0.05)), offset, derivative)
    with pytest.raises(ValueError, match=message):
        PCS.from_links([link()], actuators=ThreadlikeActuator.tendons(routing))


def test_updates_are_checked_as_at_installation():
    robot = PCS.from_links([link()], actuators=ThreadlikeActuator.tendons(sides()))
    old = robot.actuators[0].params.transmission

    def with_routing(**changes):
        routing = old.routing.replace(**changes)
        robot.update_actuator_params(0, transmission=old.replace(routing=routing))

    with_routing(intercept=[[0.0, 0.0, 0.009]] * 2)
    with pytest.raises(ValueError, match="`slope` of path 0 has an x-component"):
        with_routing(slope=[[1.0, 0.0, 0.0]] * 2)
    with pytest.raises(ValueError, match="Path 1 lies outside the body"):
        with_routing(intercept=[[0.0, 0.0, 0.009], [0.0, 0.0, 0.05]])
    with pytest.raises(ValueError, match="`coordinate_scale` must be finite and not zero"):
        robot.update_actuator_params(0, transmission=old.replace(coordinate_scale=[-1.0, 0.0]))


def test_outside_is_allowed_on_request():
    routing = ThreadlikeRouting.linear([[0.0, 0.03, 0.0]], allow_outside=True)
    robot = PCS.from_links([link()], actuators=ThreadlikeActuator.tendons(routing))
    np.testing.assert_allclose(robot.actuation_matrix(np.zeros(6))[2, 0], 0.1 * 0.03, rtol=1e-14)


def test_refused_hosts_and_areas():
    transmission = ThreadlikeTransmission(sides())
    with pytest.raises(TypeError, match="needs a continuum"):
        pendulum(actuators=ThreadlikeActuator.tendons(sides()))
    assert isinstance(pendulum(), Pendulum)
    assert transmission.orientation == "contraction"
    with pytest.raises(ValueError, match="`effective_area` must be positive"):
        ThreadlikeActuator.pressure_chambers(sides(), effective_area=-1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ThreadlikeActuator.pressure_chambers(sides(), None), "['`]effective_area['`]"),
        (lambda: ThreadlikeActuator.pressure_chambers(sides(), "a"), "['`]effective_area['`]"),
        (
            lambda: ThreadlikeActuator.pressure_chambers(sides(), [1e-5] * 3),
            r"`effective_area` needs shape \(2,\), got \(3,\)",
        ),
        (lambda: ThreadlikeActuator.tendons(sides(), foo=1), "no option `foo`; it has: effort_m"),
        (lambda: spring(rest_length=np.nan), "`rest_length` must be non-negative"),
        (lambda: spring(rest_length=-1.0), "`rest_length` must be non-negative"),
        (lambda: spring(rest_length=None), "['`]rest_length['`]"),
    ],
)
def test_refusals_name_the_argument(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def spring(**numbers) -> ThreadlikeImpedance:
    return ThreadlikeImpedance(sides(), 10.0, **numbers)


def test_path_points_take_arc_lengths_in_single_precision():
    robot = PCS.from_links([link()] * 3, actuators=ThreadlikeActuator.tendons(sides()))
    s = np.linspace(0, 0.3, 4, dtype=np.float32)
    points = robot.actuators[0].path_points(robot, np.zeros(18), s)
    np.testing.assert_allclose(points[0, :, 2], s, rtol=1e-7)
