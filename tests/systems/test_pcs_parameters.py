"""Parameters of constant-strain rods: one leaf each, differentiable, updatable, checked."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.systems import (
    PCS,
    BaseLink,
    ContinuumLinkParams,
    CrossSectionGeometry,
    ElasticMaterial,
    ExplicitMaterial,
    LinearProfile,
    LinkSpec,
    PCSParams,
    PCSStructure,
    PlanarPCS,
    PlanarPCSParams,
    PlanarPCSStructure,
)


ELASTIC = {"young_modulus": 1e5, "poisson_ratio": 0.4, "material_damping_coefficient": 20.0}


def circular(radius=0.01, length=0.1, **changes):
    numbers = {"length": length, "radius": radius, "density": 1000.0} | ELASTIC | changes
    return LinkSpec.circular(**numbers)


def mixed_links():
    """A tapered circle, a rectangle and an ellipse."""
    common = {"density": 900.0} | ELASTIC
    return [
        circular(LinearProfile(0.012, 0.01), length=0.12),
        LinkSpec.rectangular(length=0.1, height=0.02, width=0.015, **common),
        LinkSpec.elliptical(length=0.08, semi_major=0.012, semi_minor=0.008, **common),
    ]


@pytest.fixture(scope="module")
def tapered() -> PCS:
    links = [circular(LinearProfile(0.012, 0.01), length=0.12), circular(length=0.1)]
    selector = [1, 1, 1, 1, 0, 0]
    return PCS.from_links(links, structure=PCSStructure(3, selector), actuators=())


def outputs(robot, q, qd):
    """Two numbers that see everything: tip position and accelerations, weighted."""
    weights = jnp.arange(1.0, robot.num_dofs + 1).astype(q.dtype)
    tip = robot.forward_kinematics_tips(q)[-1]
    position = robot.group.translation(tip)
    acceleration = weights @ robot.forward_acceleration(q, qd)
    scale = jnp.asarray(1e-4, q.dtype)  # accelerations are large numbers
    return jnp.stack([position @ weights[: position.size], scale * acceleration])


def random_direction(tree, seed=0):
    """One relative step for every number of a PyTree."""
    leaves, structure = jax.tree.flatten(tree)
    rng = np.random.default_rng(seed)
    steps = [
        jnp.asarray(np.asarray(rng.normal(size=x.shape) * np.maximum(np.abs(x), 0.1), x.dtype))
        for x in leaves
    ]
    return jax.tree.unflatten(structure, steps)


@eqx.filter_jit
def reverse(robot, q, qd):
    def scalar(inputs):
        robot, q, qd = inputs
        return jnp.sum(outputs(robot, q, qd))

    return eqx.filter_value_and_grad(scalar)((robot, q, qd))


def state(robot, seed=1, scale=0.5):
    rng = np.random.default_rng(seed)
    return tuple(jnp.asarray(rng.normal(size=robot.num_dofs) * scale) for _ in range(2))


def test_gradients_equal_central_differences_for_every_number(tapered):
    """Reverse mode, leaf by leaf: q, qd, geometry, material, gravity and base pose."""
    inputs = (tapered, *state(tapered))
    _, gradient = reverse(*inputs)
    numbers, rest = eqx.partition(inputs, eqx.is_inexact_array)
    leaves, structure = jax.tree.flatten(numbers)
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(numbers)]
    slopes = jax.tree.leaves(eqx.filter(gradient, eqx.is_inexact_array))
    # the gradient comes along, but one program is compiled instead of two
    value = lambda *x: reverse(*eqx.combine(jax.tree.unflatten(structure, x), rest))[0]
    directions = jax.tree.leaves(random_direction(numbers))
    for i, (path, slope) in enumerate(zip(paths, slopes, strict=True)):
        assert np.all(np.isfinite(slope)), path
        h = 1e-5
        ends = [
            value(*leaves[:i], leaves[i] + sign * h * directions[i], *leaves[i + 1 :])
            for sign in (1, -1)
        ]
        expected = (ends[0] - ends[1]) / (2 * h)
        scale = jnp.sum(jnp.abs(slope * directions[i])) + 1e-6
        assert abs(jnp.sum(slope * directions[i]) - expected) < 2e-6 * scale, path


def test_gradients_and_hessians_are_finite_at_the_straight_pose(tapered):
    zero = jnp.zeros(tapered.num_dofs)
    _, gradient = reverse(tapered, zero, state(tapered)[1])
    for path, leaf in jax.tree.leaves_with_path(eqx.filter(gradient, eqx.is_inexact_array)):
        assert np.all(np.isfinite(leaf)), jax.tree_util.keystr(path)
    link = gradient[0].params.link
    for leaf in (link.length, link.density, link.cross_section.base, link.cross_section.tip):
        assert np.all(leaf != 0)

    def tip(q):
        return jnp.arange(1.0, 4.0) @ tapered.forward_kinematics_tips(q)[-1, :3, 3]

    hessian, slope = jax.jit(lambda q: (jax.hessian(tip)(q), jax.grad(tip)(q)))(zero)
    assert np.all(np.isfinite(hessian))
    assert np.allclose(hessian, hessian.T, atol=1e-15)
    h = 1e-4
    ends = [jax.jit(jax.grad(tip))(zero.at[1].set(sign * h)) for sign in (1, -1)]
    assert np.allclose(hessian[1], (ends[0] - ends[1]) / (2 * h), atol=1e-9)
    assert np.all(np.isfinite(slope))


def test_float32_agrees_with_float64(tapered):
    single = jax.tree.map(
        lambda x: x.astype(jnp.float32) if eqx.is_inexact_array(x) else x, tapered
    )
    q, qd = state(tapered)
    value, gradient = reverse(tapered, q, qd)
    value32, gradient32 = reverse(single, q.astype(jnp.float32), qd.astype(jnp.float32))
    assert value32.dtype == jnp.float32
    assert np.isclose(value32, value, rtol=1e-3)
    pairs = zip(jax.tree.leaves(gradient), jax.tree.leaves(gradient32), strict=True)
    for ours, theirs in pairs:
        if eqx.is_inexact_array(ours):
            assert theirs.dtype == jnp.float32
            ours, theirs = np.asarray(ours), np.asarray(theirs)
            assert np.abs(theirs - ours).max() <= 1e-3 * np.abs(ours).max() + 1e-9


# --- updates -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"radius": 0.013},
        {"length": 0.2},
        {"young_modulus": 2e5, "poisson_ratio": 0.3},
        {"material_damping_coefficient": 5.0},
        {"density": 1200.0},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_updated_links_are_those_that_one_would_construct(changes):
    """Stiffness, damping and inertia follow geometry and material."""
    robot = PlanarPCS.from_links([circular()] * 2)
    updated = robot.update_link_params(**changes)
    again = PlanarPCS.from_links([circular(**changes)] * 2)
    q = np.arange(6) * 0.1
    assert np.allclose(updated.stiffness_matrix(), again.stiffness_matrix(), rtol=1e-14)
    assert np.allclose(updated.damping_matrix(q), again.damping_matrix(q), rtol=1e-14)
    assert np.allclose(updated.inertia_matrix(q), again.inertia_matrix(q), rtol=1e-12)
    assert eqx.tree_equal(robot, PlanarPCS.from_links([circular()] * 2))


def test_sections_of_mixed_shapes_update_by_their_own_names():
    robot = PCS.from_links(mixed_links())
    K = robot.update_link_params(height=0.03, radius=LinearProfile(0.01, 0.01)).stiffness_matrix()
    old = robot.stiffness_matrix()
    assert np.isclose(K[9, 9] / old[9, 9], 1.5)  # area of the rectangle
    assert np.isclose(K[3, 3], 0.12 * 1e5 * np.pi * 0.01**2)
    assert np.allclose(K[12:, 12:], old[12:, 12:])


def test_a_fit_of_the_modulus_needs_no_new_trace():
    robot = PlanarPCS.from_links([circular()] * 2)
    traces = []

    @jax.jit
    def energy(young_modulus):
        traces.append(None)
        return robot.update_link_params(young_modulus=young_modulus).elastic_energy(jnp.ones(6))

    slope = jax.grad(energy)(1e5)
    assert np.isclose(slope * 1e5, energy(2e5) - energy(jnp.asarray(1e5)), rtol=1e-12)
    assert len(traces) <= 2  # once for numbers, once for arrays


def test_matrices_turn_elastic_links_into_explicit_ones():
    robot = PCS.from_links([circular()] * 2)
    K = np.stack([np.diag(np.arange(1.0, 7)), np.eye(6)])
    explicit = robot.update_link_params(stiffness=K)
    assert isinstance(explicit.params.link.material, ExplicitMaterial)
    assert np.allclose(explicit.stiffness_matrix(), np.diag([*range(1, 7), *[1] * 6]), rtol=1e-14)
    zero = np.zeros(12)
    assert np.allclose(explicit.damping_matrix(zero), robot.damping_matrix(zero), rtol=1e-14)
    twice = jax.jit(lambda K: explicit.update_link_params(stiffness=2 * K).stiffness_matrix())(K)
    assert np.allclose(twice, 2 * explicit.stiffness_matrix(), rtol=1e-14)
    # longer links keep the matrices that the user gave
    longer = explicit.update_link_params(length=0.5)
    assert np.allclose(longer.stiffness_matrix(), explicit.stiffness_matrix(), rtol=1e-14)
    with pytest.raises(ValueError, match="Construct the links with explicit"):
        jax.jit(lambda K: robot.update_link_params(stiffness=K).stiffness_matrix())(K)
    with pytest.raises(ValueError, match="no effect on explicit"):
        explicit.update_link_params(young_modulus=1.0)


def test_links_may_bring_their_own_matrices():
    K, D = np.diag([1.0, 2.0, 3.0]), np.diag([0.1, 0.2, 0.3])
    robot = PlanarPCS.from_links([circular(), circular(stiffness=K, damping=D)])
    plain = PlanarPCS.from_links([circular()] * 2)
    stiffness = robot.stiffness_matrix()
    assert np.allclose(stiffness[:3, :3], plain.stiffness_matrix()[:3, :3], rtol=1e-14)
    assert np.allclose(stiffness[3:, 3:], K, rtol=1e-14)
    assert np.allclose(robot.damping_matrix(np.zeros(6))[3:, 3:], D, rtol=1e-14)


def test_material_points_and_strain_nodes():
    robot = PlanarPCS.from_links(
        [circular(reference_strain=[1.0, 1.0, 0.1]), circular(length=0.2)],
        structure=PlanarPCSStructure(4, [1, 0, 1, 0, 1, 1]),
        floating_base=True,
    )
    q = jnp.array([0.3, 0.1, -0.2, 2.0, 0.05, 0.1, -0.1])
    s, offset = jnp.array([0.05, 0.25]), jnp.array([[0.0, 0.01, 0.0], [0.0, -0.02, 0.0]])
    points, nodes = jax.jit(lambda q: (robot.material_points(q, s, offset), robot.strain_nodes(q)))(
        q
    )
    for point, at, shift in zip(points, s, offset, strict=True):
        theta, x, y = robot.forward_kinematics(q, at)
        normal = np.array([-np.sin(theta), np.cos(theta), 0.0])
        expected = np.array([x, y, 0.0]) + float(shift[1]) * normal
        assert np.allclose(point, expected, atol=1e-14)
    assert nodes.s.shape == (2, 4)
    assert np.allclose(nodes.weights.sum(axis=1), [0.1, 0.2])
    assert np.all(np.diff(nodes.s.ravel()) > 0)
    expected = [[3.0, 1.0, 0.15], [0.0, 1.1, -0.1]]
    assert np.allclose(robot.strain(q), expected)
    assert np.allclose(nodes.strain[:, 0][:, [2, 3, 4]], expected)
    assert np.all(nodes.strain[:, :, [0, 1, 5]] == 0)


@pytest.mark.parametrize(
    "selector",
    [(1, 0, 1, 1, 1, 0), [True, False, True, True, True, False], np.array([[1, 0, 1], [1, 1, 0]])],
    ids=["tuple", "list", "array"],
)
def test_selectors_of_any_kind(selector):
    structure = PlanarPCSStructure(2, selector)
    robot = PlanarPCS.from_links([circular()] * 2, structure=structure)
    assert robot.num_dofs == 4
    assert np.allclose(robot.strain(np.arange(1.0, 5)), [[1, 1, 2], [3, 5, 0]])
    hash(structure)


@pytest.mark.parametrize("make", [PCS, PlanarPCS])
def test_scaled_coordinates_are_angles(make):
    """Of torsion and bending, over the length of each segment; stretch and shear stay strains."""
    links = [circular(), circular(length=0.2)]
    rotational = 1 if make is PlanarPCS else 3
    length = np.ones((2, 3 if make is PlanarPCS else 6))
    length[:, :rotational] = [[0.1], [0.2]]
    scaled = make.from_links(links, structure=PCSStructure(2, None, True))
    plain = make.from_links(links, structure=PCSStructure(2))
    q = np.arange(1.0, plain.num_dofs + 1) / 10
    np.testing.assert_allclose(scaled.strain(q), plain.strain(q / length.ravel()), rtol=1e-14)
    expected = plain.stiffness_matrix() / np.outer(length, length)
    np.testing.assert_allclose(scaled.stiffness_matrix(), expected, rtol=1e-13)


# --- wrong inputs --------------------------------------------------------------------------


def params(**changes):
    numbers = {
        "length": [0.1, 0.1],
        "density": 1000.0,
        "reference_strain": [[0.0, 1.0, 0.0]] * 2,
        "cross_section": CrossSectionGeometry.circular([0.01, 0.01]),
        "material": ElasticMaterial(1e5, 4e4),
    }
    return ContinuumLinkParams(**(numbers | changes))


def test_strain_at_an_arc_length_is_that_of_its_segment():
    robot = PlanarPCS.from_links([circular(length=0.1), circular(length=0.2)], floating_base=True)
    q = jnp.arange(9.0)
    strain = robot.strain(q)
    for s, segment in ((0.0, 0), (0.1, 0), (0.11, 1), (0.3, 1)):
        np.testing.assert_array_equal(robot.strain(q, s), strain[segment])
    with pytest.raises(ValueError, match="`s` must lie in"):
        robot.strain(q, 0.4)


def test_mass_is_density_times_volume():
    robot = PCS.from_links(mixed_links(), floating_base=BaseLink(0.3, np.eye(3)))
    cone = np.pi * 0.12 / 3 * (0.012**2 + 0.012 * 0.01 + 0.01**2)
    bodies = 1000.0 * cone + 900.0 * (0.1 * 0.02 * 0.015 + np.pi * 0.08 * 0.012 * 0.008)
    np.testing.assert_allclose(robot.mass, 0.3 + bodies, rtol=1e-13)
    heavier = robot.update_link_params(density=2000.0)
    np.testing.assert_allclose(heavier.inertia_matrix(np.zeros(24))[3, 3], heavier.mass, rtol=1e-13)


WRONG = {
    "length": (lambda: params(length=[0.1, 0.0]), ValueError, "`length` must be positive"),
    "length size": (lambda: params(length=[0.1] * 3), ValueError, "`length` needs shape"),
    "nan": (lambda: params(density=np.nan), ValueError, "`density` must be"),
    "reference": (lambda: params(reference_strain=[0, 1, 0]), ValueError, "one row per link"),
    "sections": (
        lambda: params(cross_section=CrossSectionGeometry.circular([0.01])),
        ValueError,
        "one section per link: 2",
    ),
    "section type": (lambda: params(cross_section=0.01), TypeError, "CrossSectionGeometry"),
    "material type": (lambda: params(material=1e5), TypeError, "ElasticMaterial"),
    "radius": (lambda: circular_robot(radius=-1.0), ValueError, "must be positive"),
    "poisson": (lambda: circular(poisson_ratio=0.7), ValueError, "`poisson_ratio` must lie"),
    "two moduli": (lambda: circular(shear_modulus=1e4), ValueError, "one of them"),
    "no modulus": (
        lambda: PCS.from_links(LinkSpec.circular(length=1.0, radius=0.1, density=1.0)),
        ValueError,
        "needs `young_modulus`",
    ),
    "no links": (lambda: PCS.from_links([]), ValueError, "at least one LinkSpec"),
    "not a link": (lambda: PCS.from_links([1.0]), TypeError, "LinkSpec"),
    "strain size": (
        lambda: PCS.from_links(circular(reference_strain=[0.0, 1.0, 0.0])),
        ValueError,
        r"`links\[0\].reference_strain` needs shape \(6,\)",
    ),
    "matrix": (
        lambda: ExplicitMaterial(-np.eye(3)[None], np.eye(3)[None]),
        ValueError,
        "positive semi-definite",
    ),
    "planar params": (lambda: PCSParams(params()), ValueError, "PCS has 6, PlanarPCS has 3"),
    "wrong params": (lambda: PCS(PlanarPCSParams(params())), TypeError, "PCSParams"),
    "selector size": (
        lambda: circular_robot(structure=PCSStructure(strain_selector=[1, 0])),
        ValueError,
        "`strain_selector` needs 3 entries",
    ),
    "selector empty": (
        lambda: circular_robot(structure=PCSStructure(strain_selector=[0, 0, 0])),
        ValueError,
        "at least one strain",
    ),
    "selector values": (lambda: PCSStructure(strain_selector=[2, 0, 0]), ValueError, "True/False"),
    "points": (lambda: PCSStructure(num_gauss_points=0), ValueError, "at least 1"),
    "keyword": (lambda: circular_robot(actuator=()), TypeError, "actuator"),
    "both bases": (
        lambda: circular_robot(base_pose=np.zeros(3), floating_base=True),
        ValueError,
        "give one of them",
    ),
    "update": (lambda: circular_robot().update_link_params(rho=1.0), ValueError, "no `rho`"),
    "update shape": (
        lambda: circular_robot().update_link_params(height=1.0),
        ValueError,
        "Links have no `height`",
    ),
    "matrix and modulus": (
        lambda: circular_robot().update_link_params(stiffness=np.eye(3), young_modulus=1e5),
        ValueError,
        "Give `stiffness` or `young_modulus`, not both",
    ),
    "taper": (
        lambda: circular_robot().update_link_params(radius=LinearProfile(0.1, 0.2)),
        ValueError,
        "no link is tapered",
    ),
}


def circular_robot(radius=0.01, **keywords):
    return PlanarPCS.from_links([circular(radius)] * 2, **keywords)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_inputs_are_refused_with_the_reason(name):
    build, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        build()
