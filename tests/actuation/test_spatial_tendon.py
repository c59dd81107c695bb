"""Spatial tendons: closed forms, degenerate segments, refusals, and MuJoCo."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.actuation import (
    ForceControl,
    LinearJoint,
    MaterialPoint,
    SpatialTendonTransmission,
    TransmissionActuator,
    Waypoint,
)
from soromox.systems import ArticulatedSoftRobot, Pendulum, PendulumParams
from tests.hosts import link_params, pendulum
from tests.transmissions import TRANSMISSIONS


POINT = [0.0, 0.0, 0.0]


def hinge() -> Pendulum:
    return Pendulum(
        PendulumParams(mass=[1.0], moment_inertia=[0.1], length=[0.3], center_of_mass_length=[0.1])
    )


def test_tendon_across_a_hinge_follows_the_cosine_rule():
    # points at distances a and b from the joint; the angle between them is q + phi
    a, b, phi = 0.05, 0.08, 2.0
    tendon = SpatialTendonTransmission(
        [Waypoint(-1, [a, 0.0, 0.0]), Waypoint(0, [b * np.cos(phi), b * np.sin(phi), 0.0])]
    )
    robot = hinge()
    length = lambda q: np.sqrt(a**2 + b**2 - 2 * a * b * np.cos(q + phi))
    evaluate = lambda q: (tendon.coordinates(robot, q)[0], tendon.path_lengths(robot, q)[0])
    q = np.linspace(-1.0, 1.0, 5)
    y, whole = jax.jit(jax.vmap(evaluate))(q[:, None])
    np.testing.assert_allclose(y, length(q) - length(0.0), atol=1e-15)
    np.testing.assert_allclose(whole, length(q), rtol=1e-14)


def test_linear_joints_alone_are_an_affine_row():
    tendon = SpatialTendonTransmission([LinearJoint(0, 0.01), LinearJoint(1, -0.02)])
    q = jnp.array([0.3, 0.5, -0.1])
    np.testing.assert_allclose(tendon.coordinates(pendulum(), q), [0.003 - 0.01], rtol=1e-14)


def test_a_linear_joint_breaks_the_path():
    tendon = TRANSMISSIONS["spatial_tendons"]()[1]
    assert tendon.segments == ((0, 1), (1, 2), (3, 4), (5, 6))


def test_segments_within_a_link_contribute_nothing():
    within = SpatialTendonTransmission([Waypoint(1, [0.1, 0.2, 0.0]), Waypoint(1, [0.3, 0.1, 0.0])])
    robot, q = pendulum(), jnp.array([0.3, 0.5, -0.1])
    np.testing.assert_array_equal(within.coordinates(robot, q), [0])
    whole = jax.jit(lambda q: within.path_lengths(robot, q))(q)
    np.testing.assert_allclose(whole, [np.hypot(0.2, 0.1)], rtol=1e-14)


def test_paths_in_one_transmission_equal_separate_ones():
    robot, both = TRANSMISSIONS["spatial_tendons"]()
    first = [
        Waypoint(-1, [0.1, 0.0, 0.05]),
        Waypoint(0, [0.0, 0.1, 0.0]),
        Waypoint(1, [0.1, 0.2, 0.3]),
    ]
    q = jnp.linspace(-0.5, 0.5, 6)
    together, alone = jax.jit(
        lambda q: (
            both.coordinates(robot, q),
            SpatialTendonTransmission(first).coordinates(robot, q),
        )
    )(q)
    np.testing.assert_allclose(together[:1], alone, atol=1e-15)


def test_coincident_points_have_finite_derivatives():
    # the two middle points lie on one another at q = 0, on two links
    tendon = SpatialTendonTransmission(
        [
            Waypoint(-1, [0.1, 0.05, 0.0]),
            Waypoint(-1, [0.0, 0.0, 0.0]),
            Waypoint(0, [0.0, 0.0, 0.0]),
        ]
    )
    robot = hinge()

    def y(q):
        return tendon.coordinates(robot, q)[0]

    def derivatives(q):
        return jax.value_and_grad(y)(q), jax.hessian(y)(q)

    for values in jax.tree.leaves(jax.jit(jax.vmap(derivatives))(jnp.zeros((2, 1)))):
        np.testing.assert_array_equal(values, jnp.zeros_like(values))


def test_a_tension_pulls_each_attachment_whatever_the_spacing():
    near = [Waypoint(-1, [0.1, 0.05, 0.0]), Waypoint(0, [0.1, 0.05, 0.0])]
    far = [Waypoint(-1, [1.0, 0.5, 0.0]), *near]
    robot, tendons = hinge(), SpatialTendonTransmission(near, far)
    arms = jax.jit(lambda q: tendons.moment_matrix(robot, q))(jnp.array([0.4]))
    np.testing.assert_allclose(arms[0, 0], arms[0, 1], rtol=1e-12)
    # the lever of the line through both attachments about the joint
    assert abs(arms[0, 0]) > 0.01


@pytest.mark.parametrize("spacing", [1e-3, 0.1, 50.0])
def test_a_cable_pulls_each_attachment_with_its_tension(spacing):
    """Two free particles, whose coordinates are their places: generalized forces are forces."""
    axes = np.tile(np.concatenate([np.zeros((3, 3)), np.eye(3)], axis=1), (2, 1))
    numbers = {"tip_position": np.zeros((6, 3)), "parent_to_joint_transform": None}
    params = link_params(6, joint_screw=axes, **numbers)
    path = [Waypoint(-1, POINT), Waypoint(2, POINT), Waypoint(5, POINT)]
    pull = TransmissionActuator(SpatialTendonTransmission(path), ForceControl())
    upright = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    robot = ArticulatedSoftRobot(params, (-1, 0, 1, -1, 3, 4), actuators=pull, base_pose=upright)
    first = spacing * np.array([0.6, 0.0, 0.8])
    second = first + np.array([0.0, -0.3, 0.4])
    force = robot.actuation_force(np.concatenate([first, second]), [1.0])
    towards_base, towards_first = [-0.6, 0.0, -0.8], np.array([0.0, 0.6, -0.8])
    np.testing.assert_allclose(force[:3], towards_base - towards_first, rtol=0, atol=1e-10)
    np.testing.assert_allclose(force[3:], towards_first, rtol=0, atol=1e-10)


def test_cable_beside_a_soft_arc():
    """From a point of the moving base, then chords between points beside a circular arc."""
    robot, tendon = TRANSMISSIONS["material_tendon"]()
    kappa, d = 3.0, 0.008
    q = jnp.array([0.4, 0.1, -0.2, kappa, 0.0, 0.0, kappa, 0.0, 0.0])
    s = np.array([0.0, 0.07, 0.15, 0.2])
    chords = 2 * (1 / kappa - d) * np.sin(kappa * np.diff(s) / 2)
    lengths = jax.jit(lambda q: tendon.path_lengths(robot, q))(q)
    np.testing.assert_allclose(lengths, [np.hypot(0.03, 0.012) + chords.sum()], rtol=1e-12)


@pytest.mark.parametrize(
    ("elements", "message"),
    [
        ([], "needs at least one element"),
        ([Waypoint(0, POINT)], "Element 0, Waypoint(link=0), has no point next to it"),
        (
            [Waypoint(0, POINT), Waypoint(1, POINT), LinearJoint(1, 1.0), Waypoint(2, POINT)],
            "Element 3, Waypoint(link=2), has no point next to it",
        ),
        (
            [Waypoint(0, POINT), LinearJoint(1, 1.0), MaterialPoint(0.1)],
            "Element 0, Waypoint(link=0), has no point next to it",
        ),
    ],
)
def test_paths_that_would_be_shortened_are_refused(elements, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        SpatialTendonTransmission(elements)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Waypoint(0, [0.0, np.nan, 0.0]), "`point of Waypoint(link=0)` must be finite"),
        (lambda: Waypoint(0, [0.0, 1.0]), "`point` needs shape (3,), got (2,)"),
        (lambda: LinearJoint(2, np.inf), "`coefficient of LinearJoint(joint=2)` must be finite"),
        (lambda: MaterialPoint(-0.1), "`s of MaterialPoint` must be non-negative"),
        (lambda: SpatialTendonTransmission(), "needs at least one path"),
    ],
)
def test_bad_elements_are_refused(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


@pytest.mark.parametrize(
    ("elements", "error", "message"),
    [
        ([Waypoint(0, POINT), Waypoint(3, POINT)], ValueError, "Element 1, Waypoint(link=3): `Pen"),
        ([Waypoint(-2, POINT), Waypoint(0, POINT)], ValueError, "has links 0 ... 2, and -1 for"),
        ([LinearJoint(3, 1.0)], ValueError, "Element 0, LinearJoint(joint=3): `Pendulum` has join"),
        ([MaterialPoint(0.1)] * 2, TypeError, "Element 0, MaterialPoint, needs a host with a con"),
        ([Waypoint(0, [0.0, 0.0, 0.1]), Waypoint(1, POINT)], ValueError, "`points` need z = 0"),
    ],
)
def test_elements_that_the_host_does_not_have_are_refused(elements, error, message):
    with pytest.raises(error, match=re.escape(message)):
        pendulum(actuators=TransmissionActuator(SpatialTendonTransmission(elements)))


@pytest.mark.parametrize(
    ("elements", "message"),
    [
        ([Waypoint(0, POINT), Waypoint(1, POINT)], "On a continuum use `MaterialPoint"),
        ([LinearJoint(0, 1.0)], "needs a host whose joints have one dof each"),
        ([Waypoint(-1, POINT), MaterialPoint(5.0)], "`s` of MaterialPoint must lie in"),
    ],
)
def test_a_continuum_has_material_points_only(elements, message):
    soft = TRANSMISSIONS["material_tendon"]()[0]
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        SpatialTendonTransmission(elements).install_check(soft)


def test_lengths_and_moment_arms_agree_with_mujoco():
    """A tendon through seven sites of a tree, and a fixed tendon, at 100 poses."""
    mujoco = pytest.importorskip("mujoco")
    rng = np.random.default_rng(5)
    parents = (-1, 0, 1, 0, 3, -1)
    axes = rng.normal(size=(6, 3))
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    screws = np.zeros((6, 6))
    for i, axis in enumerate(axes):
        screws[i, 3 * (i % 3 == 1) :][:3] = axis  # links 1 and 4 slide
    params = link_params(6, seed=1, joint_screw=screws)
    robot = ArticulatedSoftRobot(params, parents, base_pose=[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    sites = rng.normal(size=(7, 3)) * 0.2
    links = (-1, 0, 0, 1, 2, 3, 4)
    coefficients = {0: 0.3, 4: -0.2}
    tendon = SpatialTendonTransmission(
        [Waypoint(link, point) for link, point in zip(links, sites, strict=True)],
        [LinearJoint(joint, value) for joint, value in coefficients.items()],
    )
    q = rng.uniform(-1, 1, (100, 6))

    @jax.jit
    @jax.vmap
    def ours(q):
        path, y = tendon.path_lengths(robot, q), tendon.coordinates(robot, q)
        return jnp.stack([path[0], y[1]]), tendon.moment_matrix(robot, q).T

    lengths, arms = ours(jnp.asarray(q))
    model = mujoco.MjModel.from_xml_string(
        _mujoco_tree(mujoco, params, parents, sites, links, coefficients)
    )
    data = mujoco.MjData(model)
    for i in range(100):
        data.qpos[:] = q[i]
        mujoco.mj_forward(model, data)
        np.testing.assert_allclose(lengths[i], data.ten_length, rtol=0, atol=1e-10)
        np.testing.assert_allclose(arms[i], _mujoco_moment_arms(model, data), rtol=0, atol=1e-10)


def _mujoco_tree(mujoco, params, parents, sites, links, coefficients) -> str:
    def text(values) -> str:
        return " ".join(f"{value:.17g}" for value in values)

    def site(i: int) -> str:
        return f'<site name="p{i}" pos="{text(sites[i])}"/>'

    def body(link: int) -> str:
        frame = np.array(params.parent_to_joint_transform[link])
        if parents[link] >= 0:
            frame[:3, 3] += params.tip_position[parents[link]]
        quaternion = np.zeros(4)
        mujoco.mju_mat2Quat(quaternion, frame[:3, :3].ravel())
        screw = np.array(params.joint_screw[link])
        slides = not screw[:3].any()
        axis = screw[3:] if slides else screw[:3]
        return (
            f'<body pos="{text(frame[:3, 3])}" quat="{text(quaternion)}">'
            f'<joint name="j{link}" type="{"slide" if slides else "hinge"}" axis="{text(axis)}"/>'
            '<geom size="0.01"/>' + content(link) + "</body>"
        )

    def content(link: int) -> str:
        own = [site(i) for i in range(len(links)) if links[i] == link]
        return "".join(own + [body(child) for child in range(6) if parents[child] == link])

    path = "".join(f'<site site="p{i}"/>' for i in range(len(links)))
    fixed = "".join(f'<joint joint="j{j}" coef="{c}"/>' for j, c in coefficients.items())
    return (
        f"<mujoco><worldbody>{content(-1)}</worldbody><tendon>"
        f"<spatial>{path}</spatial><fixed>{fixed}</fixed></tendon></mujoco>"
    )


def _mujoco_moment_arms(model, data) -> np.ndarray:
    """Dense in all versions of MuJoCo."""
    if data.ten_J.ndim == 2 and not hasattr(data, "ten_J_rownnz"):
        return data.ten_J
    rows = model if hasattr(model, "ten_J_rownnz") else data
    values, columns = data.ten_J.ravel(), np.ravel(rows.ten_J_colind)
    dense = np.zeros((model.ntendon, model.nv))
    for i, (start, count) in enumerate(zip(rows.ten_J_rowadr, rows.ten_J_rownnz, strict=True)):
        dense[i, columns[start : start + count]] = values[start : start + count]
    return dense
