"""Links of variable strain: references, convergence, constant strain, gradients, bad input."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

from soromox.actuation import ThreadlikeActuator, ThreadlikeRouting
from soromox.chain import VariableStrainBodies
from soromox.lie import se2, se3
from soromox.systems import (
    GVS,
    PCS,
    GVSSegment,
    JointSpec,
    LinearProfile,
    LinkSpec,
    StrainBasisSpec,
)
from soromox.systems.strain_bases import StrainBasis
from tests.hosts import hybrid_gvs
from tests.rods import disagreements


def close(a, b, tolerance):
    """Equal to `tolerance` of the largest entry."""
    scale = np.max(np.abs(np.asarray(b)), initial=0.0) or 1.0
    return np.max(np.abs(np.asarray(a) - np.asarray(b)), initial=0.0) <= tolerance * scale


def rod(length=0.15, **changes) -> LinkSpec:
    numbers = {
        "length": length,
        "radius": LinearProfile(0.012, 0.008),
        "density": 1000.0,
        "young_modulus": 4e5,
        "poisson_ratio": 0.45,
        "material_damping_coefficient": 60.0,
    }
    return LinkSpec.circular(**(numbers | changes))


def bar(**changes) -> LinkSpec:
    numbers = {
        "length": 0.12,
        "height": LinearProfile(0.02, 0.015),
        "width": 0.012,
        "density": 1050.0,
        "young_modulus": 6e5,
        "poisson_ratio": 0.35,
        "material_damping_coefficient": 50.0,
    }
    return LinkSpec.rectangular(**(numbers | changes))


@pytest.mark.slow
def test_reference_case_without_its_actuation(shared_reference):
    """Recorded with tendons; the body's own share is what remains without their impedance."""
    data = dict(np.load(shared_reference / "rods" / "gvs2.npz"))
    robot = GVS.from_segments(
        [
            GVSSegment(
                rod(),
                basis=StrainBasisSpec("monomial", (1, 1, 1, 1, 0, 0), [0, 2, 1, 1, 0, 0]),
                num_gauss_points=6,
            ),
            GVSSegment(
                bar(),
                JointSpec.revolute("y", stiffness=0.5, damping=0.02),
                StrainBasisSpec("legendre", None, [1, 2, 2, 0, 1, 0]),
                6,
            ),
        ],
        actuators=(),
    )
    passive = {
        "elastic_force": "passive_elastic_force",
        "damping_matrix": "passive_damping_matrix",
        "elastic_energy": "passive_elastic_energy",
        "potential_energy": "passive_elastic_energy",
        "total_energy": "passive_elastic_energy",
    }
    damping = np.einsum("kij,kj->ki", data["passive_damping_matrix"], data["qd"])
    data["actuation_force"] -= data["passive_elastic_force"] + damping
    for name, part in passive.items():
        data[name] = data[name] - data[part]
    actuation = [name for name in data if name.startswith(("passive", "actuat"))]
    skip = (*(set(actuation) - {"actuation_force"}), "forward_dynamics")
    data["u"] = np.zeros((len(data["q"]), 0))
    assert disagreements(robot, data, tolerance=1e-12, skip=skip) == {}


def strain_of(q, orders):
    """Strain of a Chebyshev link at X, written independently."""

    def at(X):
        xi, start = np.array([0.0, 0, 0, 1, 0, 0]), 0
        for row, order in enumerate(orders):
            if order is not None:
                values = np.polynomial.chebyshev.chebval(2 * X - 1, q[start : start + order + 1])
                xi[row] += values
                start += order + 1
        return xi

    return at


def test_pose_and_energy_agree_with_an_ode_solver():
    orders = (1, 2, 2, 1, 0, 1)
    length = 0.2
    robot = GVS.from_segments(
        [
            GVSSegment(
                LinkSpec.circular(
                    length=length, radius=0.01, density=900, young_modulus=1e6, poisson_ratio=0.4
                ),
                basis=StrainBasisSpec("chebyshev", None, orders),
                num_gauss_points=48,
            )
        ],
        base_pose=[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
    )
    q = np.random.default_rng(0).normal(size=robot.num_dofs) * np.repeat(
        [4, 8, 8, 0.1, 0.1, 0.1], [order + 1 for order in orders]
    )
    strain = strain_of(q, orders)

    def rate(s, y):
        R = y[:9].reshape(3, 3)
        xi = strain(s / length)
        x, y_, z = xi[:3]
        hat = np.array([[0, -z, y_], [z, 0, -x], [-y_, x, 0]])
        mass = 900 * np.pi * 0.01**2
        return np.concatenate([(R @ hat).ravel(), R @ xi[3:], [mass * 9.81 * y[11]]])

    start = np.concatenate([np.eye(3).ravel(), np.zeros(4)])
    solution = scipy.integrate.solve_ivp(
        rate, (0, length), start, "DOP853", t_eval=[0.13, length], rtol=1e-12, atol=1e-14
    )
    assert solution.success
    for s, y in zip(solution.t, solution.y.T, strict=True):
        pose = robot.forward_kinematics(q, s)
        assert close(pose[:3, :3].ravel(), y[:9], 2e-7)
        assert close(pose[:3, 3], y[9:12], 2e-7)
        assert close(robot.strain(q, s), strain(s / length), 1e-13)
    assert np.isclose(robot.gravitational_energy(q), solution.y[12, -1], rtol=1e-7)


def test_convergence_is_of_fourth_order_for_strong_curvature():
    """A clothoid-like link whose quadratic curvature reaches 100 rad/m, in the plane and in space."""
    length = 0.3

    def curvature(s):
        X = s / length
        return 100 * (4 * X * (1 - X)) - 30 * X

    def angle(s):
        X = s / length
        return length * (100 * (2 * X**2 - 4 * X**3 / 3) - 15 * X**2)

    x, y = (
        scipy.integrate.quad(lambda s, f=f: f(angle(s)), 0, length, epsabs=1e-14, limit=200)[0]
        for f in (np.cos, np.sin)
    )
    assert np.isclose(curvature(0.15), 100 - 15)
    q = np.array([[0.0, 370.0, -400.0]])

    def errors(group, orders, straight, position):
        found = []
        for points in (10, 20, 40):
            bodies = VariableStrainBodies(
                group,
                (StrainBasis("monomial", orders),),
                (points,),
                jnp.asarray([straight]),
                jnp.array([length]),
                jnp.zeros((1, points, group.DIM, group.DIM)),
            )
            pose = jax.jit(lambda q, b=bodies: b.motion(q, jnp.zeros_like(q)).pose[0, -1])(q)
            found.append(np.linalg.norm(position(pose) - np.array([x, y])))
        return np.array(found)

    plane = errors(se2, (2, None, None), [0.0, 1.0, 0.0], lambda g: g[1:])
    space = errors(se3, (None, None, 2, None, None, None), [0.0, 0, 0, 1, 0, 0], lambda g: g[:2, 3])
    np.testing.assert_allclose(plane, space, rtol=1e-4)
    slopes = np.log2(plane[:-1] / plane[1:])
    assert np.all(slopes > 3.7), slopes
    assert plane[-1] < 1e-5 * length


def test_order_zero_is_constant_strain():
    links = [rod(), bar(reference_strain=[0.5, -1.0, 2.0, 1.0, 0.0, 0.1])]
    routing = ThreadlikeRouting.linear([[0.0, 0.005, -0.002]], [[0.0, -0.01, 0.02]])
    tendon = ThreadlikeActuator.tendons(routing)
    pcs = PCS.from_links(links, actuators=tendon)
    gvs = GVS.from_segments(
        [GVSSegment(x, basis=StrainBasisSpec("fourier")) for x in links], actuators=tendon
    )
    rng = np.random.default_rng(1)
    q, qd, qdd = (jnp.asarray(rng.normal(size=12)) for _ in range(3))

    @eqx.filter_jit
    def everything(robot):
        return {
            "points": robot.material_points(q, jnp.array([0.1, 0.2]), jnp.full((2, 3), 0.005)),
            "inverse_dynamics": robot.inverse_dynamics(q, qd, qdd),
            "stiffness": robot.stiffness_matrix(),
            "damping": robot.damping_matrix(q),
            "nodes": robot.strain_nodes(q),
            "paths": robot.actuator_coordinates(q),
            "moment_arms": robot.actuation_matrix(q),
        }

    ours, theirs = everything(gvs), everything(pcs)
    assert gvs.length == pcs.length
    for name, value in theirs.items():
        for a, b in zip(jax.tree.leaves(ours[name]), jax.tree.leaves(value), strict=True):
            assert close(a, b, 1e-12), name


def test_explicit_matrices_are_spread_over_the_link():
    K = np.diag([1.0, 2, 3, 4, 5, 6])
    link = rod(young_modulus=None, poisson_ratio=None, material_damping_coefficient=None)
    link = eqx.tree_at(
        lambda x: (x.stiffness, x.damping), link, (K, 0.1 * K), is_leaf=lambda x: x is None
    )
    robot = GVS.from_segments([GVSSegment(link, basis=StrainBasisSpec("legendre", ["kappa_y"], 1))])
    np.testing.assert_allclose(robot.stiffness_matrix(), np.diag([2.0, 2 / 3]), atol=1e-15)
    changed = robot.update_link_params(stiffness=2 * K[None])
    np.testing.assert_allclose(changed.stiffness_matrix(), np.diag([4.0, 4 / 3]), atol=1e-15)
    np.testing.assert_allclose(
        changed.damping_matrix(np.zeros(2)), np.diag([0.2, 0.2 / 3]), atol=1e-15
    )


def test_stiffness_follows_an_updated_link():
    robot = hybrid_gvs()
    K = robot.stiffness_matrix()
    assert close(
        robot.update_link_params(young_modulus=8e5).stiffness_matrix()[0, 0] / K[0, 0], 2, 1e-14
    )
    shorter = robot.update_link_params(length=np.array([0.5, 0.8, 0.9]))
    assert np.isclose(shorter.stiffness_matrix()[0, 0] / K[0, 0], 0.5)
    assert np.isclose(shorter.length, 2.2)
    zero = np.zeros(robot.num_dofs)
    D = robot.damping_matrix(zero)[0, 0]
    assert np.isclose(shorter.damping_matrix(zero)[0, 0] / D, 0.5)
    # bending of the tapered circle goes with the fourth power of its radius
    thicker = robot.update_link_params(radius=LinearProfile([0.24, 0.2], [0.16, 0.2]))
    assert np.isclose(thicker.stiffness_matrix()[0, 0] / K[0, 0], 16)
    assert np.isclose(thicker.damping_matrix(zero)[0, 0] / D, 16)
    stiffer = robot.update_joint_params(1, stiffness=[0.6])
    assert np.isclose(stiffer.stiffness_matrix()[3, 3], 0.6)
    assert np.isclose(K[3, 3], 0.3)


def test_rigid_cylinder_on_a_hinge_is_a_pendulum():
    length, radius, density, angle = 0.3, 0.02, 800.0, 0.7
    robot = GVS.from_segments(
        GVSSegment(
            LinkSpec.circular(length=length, radius=radius, density=density),
            JointSpec.revolute("y"),
        )
    )
    mass = density * np.pi * radius**2 * length
    inertia = mass * (length**2 / 3 + radius**2 / 4)
    assert close(robot.inertia_matrix([angle]), [[inertia]], 1e-14)
    # upright: the weight drives it away
    torque = -mass * 9.81 * length / 2 * np.sin(angle)
    assert close(robot.gravitational_force([angle]), [torque], 1e-14)


def test_derivatives_are_finite_at_rest_and_right_elsewhere():
    robot = hybrid_gvs()
    n = robot.num_dofs

    def outcome(q, params):
        moved = eqx.tree_at(lambda r: r.params, robot, params)
        energies = moved.total_energy(q, 0.5 + q) + jnp.sum(moved.damping_matrix(q))
        return jnp.sum(moved.forward_kinematics_tips(q)[:, :3, 3] ** 2) + energies

    both = jax.jit(jax.value_and_grad(outcome, (0, 1)))
    for leaf in jax.tree.leaves(both(jnp.zeros(n), robot.params)):
        assert np.all(np.isfinite(leaf))

    rng = np.random.default_rng(3)
    q = jnp.asarray(rng.normal(size=n))
    _, exact = both(q, robot.params)
    flat, rebuild = jax.tree.flatten((q, robot.params))
    for i, (leaf, slope) in enumerate(zip(flat, jax.tree.leaves(exact), strict=True)):
        way = jnp.asarray(rng.normal(size=leaf.shape)) * (np.max(np.abs(leaf), initial=0) or 1.0)

        def moved(h, i=i, leaf=leaf, way=way):
            inputs = [*flat[:i], leaf + h * way, *flat[i + 1 :]]
            return both(*jax.tree.unflatten(rebuild, inputs))[0]

        h = 1e-5
        numeric = (moved(h) - moved(-h)) / (2 * h)
        assert np.isclose(numeric, jnp.sum(slope * way), rtol=1e-6, atol=1e-8), i


def test_construction_compiles_nothing():
    compiled = []

    def listen(event, duration, **_):
        if "backend_compile" in event:
            compiled.append(event)

    link = rod()
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        GVS.from_segments(
            [
                GVSSegment(link, JointSpec.spherical(), StrainBasisSpec("legendre", None, 1)),
                GVSSegment(bar(), JointSpec.helical([1.0, 0.0, 1.0], 0.02), None),
            ],
            gravity=[0, 0, 9.81],
            floating_base=True,
        )
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert compiled == []


soft = StrainBasisSpec("legendre", ["kappa_y"], 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GVSSegment(rod(), basis=soft, num_gauss_points=4), "segment 0 .* least 5, got 4"),
        (lambda: GVSSegment(rod(), basis=soft, num_gauss_points=True), "whole number"),
        (
            lambda: GVSSegment(rod(), basis=StrainBasisSpec("fourier", ["kappa_y"], 3)),
            "at least 7, the functions of one strain in its basis: 5 points",
        ),
        (lambda: GVSSegment(rod(), JointSpec.revolute("x"), num_gauss_points=0), "least 1, got 0"),
        (lambda: GVSSegment(rod()), "at least one coordinate"),
        (lambda: GVSSegment(rod(length=np.nan), basis=soft), "`length` must be positive"),
        (lambda: GVSSegment(rod(radius=-0.01), basis=soft), "must be positive"),
        (
            lambda: GVSSegment(rod(young_modulus=None, poisson_ratio=None), basis=soft),
            "bends: it needs `young_modulus`",
        ),
    ],
)
def test_bad_segments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        GVS.from_segments([make()])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        # the types are checked by the hook of the test run before our own message: only the name
        # of the argument is sure
        (lambda: GVSSegment(rod(), basis="legendre"), "basis"),
        (lambda: GVSSegment(rod(), "fixed"), "joint"),
        (lambda: GVSSegment("rod"), "link"),
        (lambda: GVS.from_segments([rod()]), "segments"),
    ],
)
def test_wrong_types_are_refused(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_strain_outside_the_rod_is_refused():
    robot = hybrid_gvs()
    with pytest.raises(ValueError, match="`s` must lie in"):
        robot.strain(np.zeros(robot.num_dofs), 2.8)
