"""Constant-strain rods against closed forms of geometry and beam theory."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.interpolate import BarycentricInterpolator
from scipy.linalg import eigh
from scipy.optimize import brentq

from soromox.actuation import ThreadlikeActuator, ThreadlikeImpedance, ThreadlikeRouting
from soromox.systems import (
    GVS,
    PCS,
    GVSSegment,
    LinearProfile,
    LinkSpec,
    PCSStructure,
    PlanarPCS,
    StrainBasisSpec,
    base_poses,
)


def rod(kind=PlanarPCS, count=1, length=1.0, mask=None, points=5, gravity=None, **section):
    """A horizontal rod of equal segments."""
    section = {"radius": 0.01} | section if "height" not in section else section
    make = LinkSpec.circular if "radius" in section else LinkSpec.rectangular
    link = make(
        length=length / count,
        density=1000.0,
        young_modulus=1e6,
        poisson_ratio=0.25,
        material_damping_coefficient=10.0,
        **section,
    )
    planar = kind is PlanarPCS
    return kind.from_links(
        [link] * count,
        gravity=np.zeros(2 if planar else 3) if gravity is None else gravity,
        structure=PCSStructure(points, mask),
        base_pose=base_poses.horizontal(planar=planar),
    )


CURVATURES = (0.0, 1e-300, 1e-12, 1e-8, 1e-6, 1e-4, 1e-3, 0.1, 1.0, 3.0, 8.0, 20.0)


def arc(kappa, length):
    """Tip `(x, y)` of an arc and its two derivatives, rows; Gauss quadrature of 60 points."""
    X, w = np.polynomial.legendre.leggauss(60)
    s, w = length * (X + 1) / 2, length * w / 2
    cosine, sine = np.cos(kappa * s), np.sin(kappa * s)
    rows = [(cosine, sine), (-s * sine, s * cosine), (-(s**2) * cosine, -(s**2) * sine)]
    return np.array([[w @ x, w @ y] for x, y in rows])


@pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32])
@pytest.mark.parametrize("kind", [PlanarPCS, PCS])
def test_arc_tip_and_its_derivatives(kind, dtype):
    length = 0.7
    robot = rod(kind, length=length)
    axis = 0 if kind is PlanarPCS else 2

    def tip(kappa):
        q = jnp.zeros(robot.num_dofs, dtype).at[axis].set(kappa)
        return robot.group.translation(robot.forward_kinematics(q, jnp.asarray(length, dtype)))[:2]

    @jax.jit
    @jax.vmap
    def derivatives(kappa):
        one = jnp.ones((), dtype)
        first = lambda kappa: jax.jvp(tip, (kappa,), (one,))
        (value, slope), (_, curvature) = jax.jvp(first, (kappa,), (one,))
        return jnp.stack([value, slope, curvature])

    ours = np.asarray(derivatives(jnp.array(CURVATURES, dtype)))
    assert ours.dtype == dtype
    theirs = np.array([arc(float(dtype(kappa)), length) for kappa in CURVATURES])
    error = np.abs(ours - theirs) / length ** np.arange(1, 4)[None, :, None]
    assert error.max() < (1e-13 if dtype == jnp.float64 else 5e-7)


def test_planar_angle_is_not_wrapped_and_has_its_derivative():
    robot = rod(length=1.0)
    poses = jax.jit(jax.vmap(lambda k: robot.forward_kinematics(jnp.array([k, 0, 0]), 1.0)))
    assert np.allclose(poses(jnp.array([0.0, 4.0, 20.0]))[:, 0], [0.0, 4.0, 20.0], rtol=1e-14)
    slope = jax.jit(jax.grad(lambda k: robot.forward_kinematics(jnp.array([k, 0, 0]), 1.0)[0]))
    assert slope(0.0) == 1.0


def variable_rod() -> GVS:
    link = LinkSpec.circular(
        length=0.2, radius=0.01, density=1000.0, young_modulus=1e6, poisson_ratio=0.25
    )
    basis = StrainBasisSpec("legendre", None, [0, 1, 1, 0, 0, 0])
    return GVS.from_segments(GVSSegment(link, basis=basis), gravity=(1.0, -3.0, -9.0))


@pytest.mark.parametrize(
    "make",
    [
        lambda: rod(PCS, count=2, length=0.2, points=3, gravity=(1.0, -3.0, -9.0)),
        lambda: rod(PlanarPCS, count=2, length=0.2, points=3, gravity=(1.0, -9.0)),
        variable_rod,
    ],
    ids=["PCS", "PlanarPCS", "GVS"],
)
def test_acceleration_is_smooth_near_the_straight_pose(make):
    robot = make()
    rng = np.random.default_rng(0)
    direction, qd = (jnp.asarray(rng.normal(size=robot.num_dofs)) for _ in range(2))

    def along(x):
        return robot.forward_acceleration(x * direction, qd)

    # a polynomial through nodes that lie far from every small angle
    nodes = 1e-2 * np.cos(np.pi * (np.arange(9) + 0.5) / 9)
    steps = np.concatenate([[0.0, 1e-300], 10.0 ** np.arange(-12, -2)])
    values = np.asarray(jax.jit(jax.vmap(along))(np.concatenate([nodes, steps])))
    polynomial = BarycentricInterpolator(nodes, values[:9])
    error = np.abs(values[9:] - polynomial(steps)).max(axis=1)
    assert np.all(error < 1e-8 * np.abs(values[9:]).max(axis=1)), error


def test_small_deflection_of_a_cantilever():
    """`F L^3 / (3 E I) (1 - 1 / (4 N^2)) + F L / (G A)`: curvature is constant on each segment."""
    E, G, L, r, F = 1e6, 4e5, 1.0, 0.01, 1e-7
    bending, shear = F * L**3 / (3 * E * np.pi * r**4 / 4), F * L / (G * np.pi * r**2)
    for count in (1, 2, 4):
        robot = rod(PCS, count=count, points=2)
        zero = np.zeros(robot.num_dofs)
        for axis, force in ((1, [0, F, 0]), (2, [0, 0, F])):
            wrench = np.concatenate([np.zeros(3), force])
            q = np.linalg.solve(robot.stiffness_matrix(), robot.external_force(zero, L, wrench))
            deflection = (robot.jacobian(zero, L) @ q)[3 + axis]
            expected = bending * (1 - 1 / (4 * count**2)) + shear
            assert np.isclose(deflection, expected, rtol=1e-11)


def elastica(load, length, flexural):
    """Tip of an inextensible cantilever under a transverse tip load, by shooting."""

    def shape(curvature):
        rates = lambda s, z: [z[1], -load / flexural * np.cos(z[0]), np.cos(z[0]), np.sin(z[0])]
        options = {"rtol": 1e-12, "atol": 1e-13, "method": "DOP853"}
        return solve_ivp(rates, (0, length), [0.0, curvature, 0.0, 0.0], **options).y[:, -1]

    root = brentq(lambda k: shape(k)[1], 0.0, 2 * load * length / flexural, xtol=1e-13)
    return shape(root)[2:]


@pytest.mark.slow
def test_large_deflection_converges_to_the_elastica():
    flexural = 1e6 * np.pi * 0.01**4 / 4
    load = 3.0 * flexural  # the tip turns by about 55 degrees
    expected = elastica(load, 1.0, flexural)
    errors = []
    for count in (2, 4, 8):
        robot = rod(count=count, mask=(1, 0, 0), points=2)

        @jax.jit
        def residual(q, robot=robot):
            def unbalanced(q):
                push = robot.external_force(q, robot.length, jnp.array([0.0, 0.0, load]))
                return robot.elastic_force(q) - push

            return unbalanced(q), jax.jacfwd(unbalanced)(q)

        q = np.zeros(count)
        for _ in range(12):
            r, K = residual(q)
            q = q - np.linalg.solve(K, r)
        assert np.abs(r).max() < 1e-10 * load
        errors.append(np.abs(robot.forward_kinematics_tips(q)[-1, 1:] - expected).max())
    assert errors[-1] < 5e-3
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all(np.abs(orders - 2) < 0.2), errors


@pytest.mark.slow
def test_gauss_points_converge_to_the_elastica_at_fourth_order():
    """One link of polynomial curvature; its Magnus steps lie between the Gauss points."""
    flexural = 1e6 * np.pi * 0.01**4 / 4
    load = 3.0 * flexural
    expected = elastica(load, 1.0, flexural)
    link = LinkSpec.circular(
        length=1.0, radius=0.01, density=1000.0, young_modulus=1e6, poisson_ratio=0.25
    )
    basis = StrainBasisSpec("legendre", ["kappa_z"], 9)
    pull = jnp.array([0.0, 0.0, 0.0, 0.0, load, 0.0])
    errors = []
    for points in (10, 20, 40):
        robot = GVS.from_segments(
            GVSSegment(link, basis=basis, num_gauss_points=points),
            gravity=np.zeros(3),
            base_pose=base_poses.horizontal(),
        )

        @jax.jit
        def residual(q, share, robot=robot):
            push = lambda q: robot.external_force(q, 1.0, share * pull)
            unbalanced = lambda q: robot.elastic_force(q) - push(q)
            return unbalanced(q), jax.jacfwd(unbalanced)(q), robot.forward_kinematics(q, 1.0)

        q = np.zeros(10)
        for share in np.repeat([0.25, 0.5, 0.75, 1.0], [3, 3, 3, 8]):
            r, K, tip = residual(q, share)
            q = q - np.linalg.solve(K, r)
        assert np.abs(r).max() < 1e-10 * load
        errors.append(np.abs(tip[:2, 3] - expected).max())
    assert errors[-1] < 1e-5
    assert np.all(np.log2(np.array(errors[:-1]) / errors[1:]) > 3.5), errors


def test_bending_frequencies_of_a_clamped_rod():
    L, r = 1.0, 1e-3
    wave = np.sqrt(1e6 * (np.pi * r**4 / 4) / (1000.0 * np.pi * r**2))
    expected = np.array([1.8751040687, 4.6940911330, 7.8547574382]) ** 2 * wave / L**2
    errors = []
    for count in (10, 20):
        robot = rod(count=count, mask=(1, 0, 0), points=4, radius=r)
        squares = eigh(robot.stiffness_matrix(), robot.inertia_matrix(np.zeros(count)))[0]
        errors.append(np.abs(np.sqrt(squares[:3]) / expected - 1))
    assert np.all(errors[1] < [1e-3, 5e-3, 1e-2])
    # second order: halving the segments divides the error by four
    assert np.all(np.abs(np.log2(errors[0] / errors[1]) - 2) < 0.2), errors


def test_torsion_and_stretch():
    E, G, L = 1e6, 4e5, 0.5
    robot = rod(PCS, length=L, height=0.02, width=0.02, torsion="saint_venant")
    zero = np.zeros(6)
    # torsion constant of a square: 0.140577 a^4 (Roark)
    for wrench, index, stiffness in (
        ([1e-3, 0, 0, 0, 0, 0], 0, G * 0.1405770 * 0.02**4 / L),
        ([0, 0, 0, 1e-3, 0, 0], 3, E * 0.02**2 / L),
    ):
        q = np.linalg.solve(robot.stiffness_matrix(), robot.external_force(zero, L, wrench))
        motion = (robot.jacobian(zero, L) @ q)[index]
        assert np.isclose(motion, 1e-3 / stiffness, rtol=1e-6)


def test_a_polar_torsion_constant_is_the_default():
    robot = rod(PCS, length=0.5, height=0.02, width=0.01)
    polar = 0.02 * 0.01 * (0.02**2 + 0.01**2) / 12
    assert np.isclose(robot.stiffness_matrix()[0, 0], 0.5 * 4e5 * polar, rtol=1e-13)


def rectangle_torsion(h, w):
    """Saint-Venant's constant by the double Fourier series of the membrane over the section."""
    odd = np.arange(1.0, 400.0, 2.0)
    m, n = odd[:, None], odd[None, :]
    return 256 / np.pi**6 * h * w * np.sum(1 / (m * n) ** 2 / ((m / h) ** 2 + (n / w) ** 2))


@pytest.mark.parametrize(
    ("make", "section", "constant"),
    [
        (LinkSpec.rectangular, {"height": 0.02, "width": 0.01}, rectangle_torsion(0.02, 0.01)),
        (LinkSpec.rectangular, {"height": 0.004, "width": 0.02}, rectangle_torsion(0.004, 0.02)),
        (
            LinkSpec.elliptical,
            {"semi_major": 0.02, "semi_minor": 0.01},
            np.pi * 0.02**3 * 0.01**3 / (0.02**2 + 0.01**2),
        ),
        (LinkSpec.circular, {"radius": 0.01}, np.pi * 0.01**4 / 2),
    ],
    ids=["rectangle", "strip", "ellipse", "circle"],
)
def test_stiffness_is_that_of_the_textbook(make, section, constant):
    """`L diag(G J, E Iy, E Iz, E A, k G A, k G A)` with Saint-Venant's J and shear correction k."""
    E, G, L, k = 1e6, 4e5, 0.5, 5 / 6
    options = {"torsion": "saint_venant", "shear_correction": k}
    link = make(length=L, density=1000.0, young_modulus=E, shear_modulus=G, **section, **options)
    y, z = (list(section.values()) * 2)[:2]  # along y and z
    if "height" in section:
        A, Iy, Iz = y * z, y * z**3 / 12, y**3 * z / 12
    else:
        A, Iy, Iz = np.pi * y * z, np.pi * y * z**3 / 4, np.pi * y**3 * z / 4
    expected = L * np.diag([G * constant, E * Iy, E * Iz, E * A, k * G * A, k * G * A])
    K = PCS.from_links(link).stiffness_matrix()
    np.testing.assert_allclose(K, expected, rtol=1e-6, atol=1e-12)


def test_tapered_rod_is_integrated_along_its_length():
    """Stiffness, mass and its centre are integrals over the cone."""
    L, R, r = 0.5, 0.02, 0.01
    robot = rod(PCS, length=L, radius=LinearProfile(R, r))
    volume = np.pi * L * (R**2 + R * r + r**2) / 3
    assert np.isclose(robot.stiffness_matrix()[3, 3], 1e6 * volume, rtol=1e-13)
    spin = np.pi * L * (R**5 - r**5) / (5 * (R - r)) / 4
    assert np.isclose(robot.stiffness_matrix()[1, 1], 1e6 * spin, rtol=1e-13)
    centroid = L * (R**2 + 2 * R * r + 3 * r**2) / (4 * (R**2 + R * r + r**2))
    energy = robot.update_params(gravity=(-1.0, 0, 0)).gravitational_energy(np.zeros(6))
    assert np.isclose(energy, 1000.0 * volume * centroid, rtol=1e-13)


@pytest.mark.parametrize("joint", [0.3, 0.5])
def test_splitting_a_segment_changes_nothing(joint):
    link = {"density": 900.0, "young_modulus": 1e6, "poisson_ratio": 0.3, "radius": 0.01}
    structure = PCSStructure(num_gauss_points=10)
    whole = PCS.from_links(LinkSpec.circular(length=0.4, **link), structure=structure)
    parts = [LinkSpec.circular(length=0.4 * x, **link) for x in (joint, 1 - joint)]
    split = PCS.from_links(parts, structure=structure)
    rng = np.random.default_rng(3)
    q, qd = rng.normal(size=6), rng.normal(size=6)
    q2, qd2 = np.tile(q, 2), np.tile(qd, 2)
    for name, one, two in (
        ("kinetic_energy", (q, qd), (q2, qd2)),
        ("gravitational_energy", (q,), (q2,)),
        ("elastic_energy", (q,), (q2,)),
    ):
        assert np.isclose(getattr(whole, name)(*one), getattr(split, name)(*two), rtol=1e-12), name
    for s in (0.1, 0.4 * joint, 0.35):
        assert np.allclose(
            whole.forward_kinematics(q, s), split.forward_kinematics(q2, s), atol=1e-14
        )
    # generalized forces of the whole are sums over the parts
    together = split.gravitational_force(q2).reshape(2, 6).sum(axis=0)
    assert np.allclose(whole.gravitational_force(q), together, rtol=0, atol=1e-13)


def test_a_rod_in_a_plane_is_the_planar_rod():
    links = [
        LinkSpec.rectangular(
            length=length,
            height=LinearProfile(0.02, 0.015),
            width=0.03,
            density=1000.0,
            young_modulus=5e5,
            poisson_ratio=0.4,
            material_damping_coefficient=40.0,
        )
        for length in (0.15, 0.1)
    ]
    routing = ThreadlikeRouting.linear(
        [[0.0, 0.006, 0.0], [0.0, -0.005, 0.0]], [[0.0, -0.01, 0.0], [0.0, 0.02, 0.0]]
    )
    parts = {
        "actuators": ThreadlikeActuator.tendons(routing),
        "passive_elements": ThreadlikeImpedance(
            routing=routing, stiffness=30.0, damping=2.0, rest_length=0.2
        ),
    }
    half = 0.2
    turned = [0, 0, np.sin(half), np.cos(half), 0.1, -0.2, 0]
    planar = PlanarPCS.from_links(
        links, gravity=(2.0, -9.0), base_pose=[2 * half, 0.1, -0.2], **parts
    )
    spatial = PCS.from_links(links, gravity=(2.0, -9.0, 0.0), base_pose=turned, **parts)
    rng = np.random.default_rng(4)
    q, qd, qdd = (jnp.asarray(rng.normal(size=6)) for _ in range(3))
    lift = np.zeros((12, 6))
    lift[[2, 3, 4, 8, 9, 10], np.arange(6)] = 1
    u = jnp.array([0.7, 0.4])

    @eqx.filter_jit
    def everything(robot, q, qd, qdd):
        tip = robot.forward_kinematics(q, 0.2)
        pose = tip if robot.is_planar else jnp.stack([jnp.asin(tip[1, 0]), tip[0, 3], tip[1, 3]])
        twist = robot.jacobian(q, 0.2) @ qd
        return {
            "energies": jnp.stack(
                [
                    robot.kinetic_energy(q, qd),
                    robot.gravitational_energy(q),
                    robot.elastic_energy(q),
                    robot.passive_elastic_energy(q),
                ]
            ),
            "tip": pose,
            "twist": twist if robot.is_planar else twist[2:5],
            "lengths": robot.actuator_coordinates(q),
            "rates": robot.actuator_velocities(q, qd),
        }, {
            "coriolis": robot.coriolis_force(q, qd),
            "gravity": robot.gravitational_force(q),
            "elastic": robot.elastic_force(q),
            "actuation": robot.actuation_force(q, u, qd),
            "inverse_dynamics": robot.inverse_dynamics(q, qd, qdd),
            "acceleration": robot.forward_acceleration(q, qd, u),
        }

    numbers, forces = everything(planar, q, qd, qdd)
    numbers3, forces3 = everything(spatial, lift @ q, lift @ qd, lift @ qdd)
    for name, value in numbers.items():
        np.testing.assert_allclose(numbers3[name], value, rtol=1e-12, err_msg=name)
    for name, value in forces.items():
        tolerance = (1e-9 if name == "acceleration" else 1e-12) * np.abs(value).max()
        np.testing.assert_allclose(lift.T @ forces3[name], value, atol=tolerance, err_msg=name)
    # and nothing drives it out of the plane
    np.testing.assert_allclose(
        forces3["acceleration"],
        lift @ forces["acceleration"],
        atol=1e-9 * np.abs(forces["acceleration"]).max(),
    )
