"""Paths along the material: reference results, closed forms, joints, refusals."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.actuation import (
    AffineGeneralizedCoordinateActuator,
    BaseThreadlikeRoutingParams,
    CapstanFriction,
    HillMuscle,
    IdentityActuator,
    McKibbenMuscle,
    PressureDynamics,
    SaturatedControl,
    ThreadlikeActuator,
    ThreadlikeImpedance,
    ThreadlikeRouting,
)
from soromox.systems import (
    GVS,
    PCS,
    GVSSegment,
    JointSpec,
    LinkSpec,
    PlanarPCS,
    StrainBasisSpec,
)
from tests.rods import params_of


ROD = {
    "length": 0.1,
    "radius": 0.01,
    "density": 1000.0,
    "young_modulus": 5e5,
    "poisson_ratio": 0.4,
    "material_damping_coefficient": 100.0,
}
SIDE = 0.006  # [m] offset of the paths


def link(**changes) -> LinkSpec:
    return LinkSpec.circular(**(ROD | changes))


def recorded_routing(data: dict, prefix: str, start: int, end: int) -> ThreadlikeRouting:
    numbers = params_of(data, prefix + "routing.")
    return ThreadlikeRouting.linear(numbers["intercept"], numbers["slope"], start, end)


def of_actuators(robot, q, qd, u):
    return {
        "actuator_coordinates": robot.actuator_coordinates(q),
        "actuator_velocities": robot.actuator_velocities(q, qd),
        "actuation_matrix": robot.actuation_matrix(q),
        "actuation_force": robot.actuation_force(q, u, qd),
        "passive_elastic_energy": robot.passive_elastic_energy(q),
        "passive_elastic_force": robot.passive_elastic_force(q),
        "passive_damping_matrix": robot.passive_damping_matrix(q),
    }


def agrees(robot, data) -> dict[str, float]:
    evaluate = eqx.filter_jit(of_actuators)
    off = {}
    for q, qd, u, *_ in zip(data["q"], data["qd"], data["u"], strict=True):
        sample = int(np.argmax((data["q"] == q).all(axis=1)))
        for name, ours in evaluate(robot, *map(jnp.asarray, (q, qd, u))).items():
            theirs = data[name][sample]
            error = np.max(np.abs(ours - theirs)) / np.max(np.abs(theirs))
            if not error < 1e-9:
                off[name] = max(off.get(name, 0.0), float(error))
    return off


def test_laws_of_a_length_see_that_of_the_path():
    """A path's coordinate is all of its length, so that the rest length is not added to it."""
    side = ThreadlikeRouting.linear([[0, SIDE, 0]])
    rod = PlanarPCS.from_links([link()], actuators=ThreadlikeActuator.muscles(side))
    q = np.array([2.0, 0.0, 0.05])
    (length,) = rod.actuators[0].path_lengths(rod, q)
    muscle = McKibbenMuscle(0.2, 1.5, 0.0, 100.0, 0.09)
    expected = 1e5 * 0.2**2 / (4 * np.pi * 1.5**2) * (3 * length**2 / 0.2**2 - 1)
    expected = max(0.0, expected + 100.0 * (length - 0.09))
    found = rod.attach_actuator(0, muscle).actuator_loads(q, [1e5])
    np.testing.assert_allclose(found, [expected], rtol=1e-12)
    hill = HillMuscle(50.0, optimal_length=length, rest_length=0.07)
    for law in (hill, SaturatedControl(hill, 0.0, 1.0), CapstanFriction(hill, 0.1, 1.0)):
        found = rod.attach_actuator(0, law).actuator_loads(q, [0.5])
        np.testing.assert_allclose(found, [25.0], rtol=1e-12)
    with pytest.raises(ValueError, match=r"`McKibbenMuscle` is for lengths, .* are volumes"):
        ThreadlikeActuator.pressure_chambers(side, 1e-4, effort_model=muscle).install_check(rod)
    with pytest.raises(TypeError, match="law"):
        PressureDynamics(1e-9, law=muscle)


def recorded_impedance(data: dict, joint_crossing: str = "none") -> ThreadlikeImpedance:
    numbers = params_of(data, "passive_elements[0].params.")
    return ThreadlikeImpedance(
        routing=recorded_routing(data, "passive_elements[0].params.", 0, 1),
        stiffness=numbers["stiffness"],
        damping=numbers["damping"],
        rest_length=numbers["rest_length"],
        joint_crossing=joint_crossing,
    )


def transmission_prefix(index: int) -> str:
    return f"actuators[{index}].params.transmission."


def test_pcs2_actuation(shared_reference):
    data = dict(np.load(shared_reference / "rods" / "pcs2.npz"))
    links = [link(length=length, radius=radius) for length, radius in ((0.1, 0.012), (0.12, 0.01))]
    spans = ((0, 1), (0, 0), (1, 1), (0, 0))
    routings = [
        recorded_routing(data, transmission_prefix(i), *span) for i, span in enumerate(spans)
    ]
    robot = PCS.from_links(
        links,
        actuators=(
            ThreadlikeActuator.tendons(routings[0]),
            ThreadlikeActuator.push_rods(routings[1]),
            ThreadlikeActuator.muscles(routings[2]),
            ThreadlikeActuator.pressure_chambers(routings[3], effective_area=[2e-5, 3e-5, 4e-5]),
        ),
        passive_elements=recorded_impedance(data),
    )
    assert agrees(robot, data) == {}


def test_gvs2_actuation(shared_reference):
    data = dict(np.load(shared_reference / "rods" / "gvs2.npz"))
    areas = {"effective_area": 2e-5, "joint_crossing": "none"}
    robot = GVS.from_segments(
        recorded_segments(),
        actuators=(
            ThreadlikeActuator.tendons(
                recorded_routing(data, transmission_prefix(0), 0, 1), joint_crossing="none"
            ),
            ThreadlikeActuator.pressure_chambers(
                recorded_routing(data, transmission_prefix(1), 0, 0), **areas
            ),
        ),
        passive_elements=recorded_impedance(data),
    )
    assert agrees(robot, data) == {}


def recorded_segments() -> list[GVSSegment]:
    """The structure told by the recipe of `gvs2`; material and density do not matter to paths."""
    round_link = link(length=0.15, radius=0.012)
    flat_link = LinkSpec.rectangular(
        length=0.12,
        height=0.02,
        width=0.02,
        **{name: ROD[name] for name in ROD if name not in ("length", "radius")},
    )
    sparse = StrainBasisSpec("monomial", [1, 1, 1, 1, 0, 0], [0, 2, 1, 1, 0, 0])
    full = StrainBasisSpec("legendre", [1] * 6, [1, 2, 2, 0, 1, 0])
    joint = JointSpec.revolute("y", stiffness=0.5, damping=0.02)
    return [
        GVSSegment(round_link, basis=sparse, num_gauss_points=6),
        GVSSegment(flat_link, joint=joint, basis=full, num_gauss_points=6),
    ]


def sides(**options) -> ThreadlikeRouting:
    return ThreadlikeRouting.linear([[0.0, SIDE, 0.0], [0.0, -SIDE, 0.0]], **options)


def test_length_on_a_circular_arc():
    """A path at offset y on an arc of curvature kappa_z is `L (1 - kappa y)` long."""
    robot = PCS.from_links(
        [link()], actuators=ThreadlikeActuator.tendons(sides()), gravity=[0.0, 0.0, 0.0]
    )
    for curvature in (0.0, 1e-9, 3.0, 20.0):
        q = jnp.zeros(6).at[2].set(curvature)
        lengths = robot.actuators[0].path_lengths(robot, q)
        expected = 0.1 * (1 - curvature * jnp.array([SIDE, -SIDE]))
        np.testing.assert_allclose(lengths, expected, rtol=1e-14)
        np.testing.assert_allclose(robot.actuator_coordinates(q), -expected, rtol=1e-14)


def test_helix():
    """A routing of our own: a helix of radius r and pitch 2 pi / w on a straight rod."""

    class Helix(BaseThreadlikeRoutingParams):
        radius: jax.Array
        rate: jax.Array

    def offset(params, s):
        angle = params.rate * s
        turned = jnp.stack([jnp.zeros_like(s), jnp.cos(angle), jnp.sin(angle)])
        return params.radius * turned[None]

    def derivative(params, s):
        angle = params.rate * s
        turned = jnp.stack([jnp.zeros_like(s), -jnp.sin(angle), jnp.cos(angle)])
        return params.radius * params.rate * turned[None]

    numbers = Helix(jnp.array(SIDE), jnp.array(60.0))
    robot, same, steeper = (
        PCS.from_links(
            [link()],
            actuators=ThreadlikeActuator.tendons(ThreadlikeRouting(numbers, offset, given)),
        )
        for given in (None, derivative, lambda *args: 1.0005 * derivative(*args))
    )
    length = lambda robot: robot.actuators[0].path_lengths(robot, jnp.zeros(6))[0]
    expected = 0.1 * np.sqrt(1 + (60 * SIDE) ** 2)
    np.testing.assert_allclose(length(robot), expected, rtol=1e-14)
    # a derivative that is given is the one that counts
    np.testing.assert_allclose(length(same), expected, rtol=1e-14)
    expected_steeper = 0.1 * np.sqrt(1 + (60 * SIDE * 1.0005) ** 2)
    np.testing.assert_allclose(length(steeper), expected_steeper, rtol=1e-14)
    # and its derivative by the radius, through an update of the parameters
    slope = jax.grad(
        lambda r: length(
            robot.update_actuator_params(
                0,
                transmission=robot.actuators[0].params.transmission.replace(
                    routing=Helix(r, jnp.array(60.0))
                ),
            )
        )
    )(jnp.array(SIDE))
    np.testing.assert_allclose(
        slope, 0.1 * 60**2 * SIDE / np.sqrt(1 + (60 * SIDE) ** 2), rtol=1e-13
    )


def test_moment_balance_bends_the_rod_into_an_arc():
    """A tendon at offset y with tension T holds the curvature `-T y / (E I)` minus its shortening."""
    robot = PCS.from_links(
        [link()], actuators=ThreadlikeActuator.tendons(sides()), gravity=[0.0, 0.0, 0.0]
    )
    tension, I, A = 0.2, np.pi * 0.01**4 / 4, np.pi * 0.01**2
    # E I kappa = T y, E A (sigma - 1) = -T while the tangent of the path stays along x
    q = jnp.zeros(6).at[2].set(tension * SIDE / (5e5 * I)).at[3].set(-tension / (5e5 * A))
    residual = robot.elastic_force(q) - robot.actuation_force(q, jnp.array([tension, 0.0]))
    np.testing.assert_allclose(residual, 0, atol=1e-14)


def test_planar_and_spatial_hosts_agree():
    q = np.array([4.0, 0.05, -0.1, -7.0, 0.02, 0.03])  # [kappa, sx, sy] of two segments
    spatial = np.zeros((2, 6))
    spatial[:, 2:5] = q.reshape(2, 3)
    routing = ThreadlikeRouting.linear([[0.0, SIDE, 0.0]], [[0.0, -0.02, 0.0]])
    for kind in (ThreadlikeActuator.tendons, ThreadlikeActuator.push_rods):
        flat = PlanarPCS.from_links([link(), link()], actuators=kind(routing))
        space = PCS.from_links([link(), link()], actuators=kind(routing))
        np.testing.assert_allclose(
            flat.actuator_coordinates(q), space.actuator_coordinates(spatial.ravel()), rtol=1e-14
        )
        A = space.actuation_matrix(spatial.ravel()).reshape(2, 6)[:, 2:5].ravel()
        np.testing.assert_allclose(flat.actuation_matrix(q)[:, 0], A, rtol=1e-12, atol=1e-16)


def test_mixed_actuation_keeps_its_order():
    """Channels, labels, units, kinds and bounds of a tuple follow each other; forces add up."""
    left, right = ([[0.0, y, 0.0]] for y in (SIDE, -SIDE))
    parts = (
        ThreadlikeActuator.tendons(sides()),
        ThreadlikeActuator.push_rods(ThreadlikeRouting.linear(left)),
        ThreadlikeActuator.muscles(ThreadlikeRouting.linear(right)),
        ThreadlikeActuator.pressure_chambers(
            ThreadlikeRouting.linear(left, end_segment_index=0), 2e-5, upper_bounds=3e4
        ),
        AffineGeneralizedCoordinateActuator.from_routing(np.eye(6)[:1]),
        IdentityActuator(6),
    )
    springs = ThreadlikeImpedance(routing=sides(), stiffness=50.0, damping=2.0, rest_length=0.19)
    robot = PlanarPCS.from_links([link(), link()], actuators=parts, passive_elements=springs)
    q = jnp.array([4.0, 0.05, -0.1, -7.0, 0.02, 0.03])
    u = jnp.arange(1.0, 13.0)
    y, A = robot.actuator_coordinates(q), robot.actuation_matrix(q)
    tendons = robot.actuators[0].path_lengths(robot, q)
    np.testing.assert_allclose(y[:4], [*-tendons, tendons[0], -tendons[1]], rtol=1e-14)
    # the chamber covers the first segment: |1.05 - 4 d| and a shear of -0.1 along 0.1 m
    volume = 2e-5 * 0.1 * np.hypot(1.05 - 4 * SIDE, -0.1)
    np.testing.assert_allclose(y[4], volume, rtol=1e-14)
    np.testing.assert_allclose(y[5:], [q[0], *q], rtol=1e-14)
    np.testing.assert_allclose(A[:, 5:], np.eye(6)[:, [0, *range(6)]])
    np.testing.assert_allclose(robot.actuation_force(q, u), A @ u, rtol=1e-13)
    energy = 25.0 * np.sum((tendons - 0.19) ** 2)
    np.testing.assert_allclose(robot.passive_elastic_energy(q), energy, rtol=1e-12)
    assert robot.actuator_input_labels[:6] == (
        "tendon_tension_0",
        "tendon_tension_1",
        "rod_compression_0",
        "muscle_tension_0",
        "chamber_pressure_0",
        "generalized_effort_0",
    )
    metadata = robot.actuator_input_metadata
    assert [part.kind for part in metadata][:4] == ["tendon", "push_rod", "muscle", "pneumatic"]
    assert [part.units[0] for part in metadata][:4] == ["N", "N", "N", "Pa"]
    bounds = [(float(part.lower_bounds[0]), float(part.upper_bounds[0])) for part in metadata]
    assert bounds[2:5] == [(0, np.inf), (0, 3e4), (-np.inf, np.inf)]


def hybrid(actuators) -> GVS:
    rigid = GVSSegment(link(), joint=JointSpec.revolute("z"), basis=None)
    soft = GVSSegment(link(), basis=StrainBasisSpec("monomial", ["kappa_z"], 1))
    return GVS.from_segments([soft, rigid], actuators=actuators)


def test_paths_across_a_joint_have_its_moment_arm():
    """Opposite arms on opposite sides; no arm with `joint_crossing="none"` or off the span."""
    q = jnp.array([2.0, -1.0, 0.3])
    arms = lambda actuator: hybrid(actuator).actuation_matrix(q)[-1]
    np.testing.assert_allclose(arms(ThreadlikeActuator.tendons(sides())), [SIDE, -SIDE], rtol=1e-14)
    np.testing.assert_allclose(
        arms(ThreadlikeActuator.push_rods(sides())), [-SIDE, SIDE], rtol=1e-14
    )
    assert not arms(ThreadlikeActuator.tendons(sides(), joint_crossing="none")).any()
    assert not arms(ThreadlikeActuator.tendons(sides(end_segment_index=0))).any()


def test_default_span_is_the_whole_robot():
    robot = PCS.from_links([link()] * 3, actuators=ThreadlikeActuator.tendons(sides()))
    np.testing.assert_allclose(robot.actuator_coordinates(np.zeros(18)), [-0.3, -0.3], rtol=1e-14)


def test_cost_of_the_matrix_is_that_of_its_entries():
    """Linear in the segments and in the paths."""

    def operations(segments: int, paths: int) -> float:
        angles = 2 * np.pi * np.arange(paths) / paths
        offsets = SIDE * np.stack([0 * angles, np.cos(angles), np.sin(angles)], axis=1)
        tendons = ThreadlikeActuator.tendons(ThreadlikeRouting.linear(offsets))
        robot = PCS.from_links([link()] * segments, actuators=tendons)
        lowered = jax.jit(PCS.actuation_matrix).lower(robot, jnp.zeros(robot.num_dofs))
        return lowered.cost_analysis()["flops"]

    base = operations(4, 4)
    assert operations(8, 4) < 2.1 * base
    assert operations(4, 16) < 4.1 * base


def test_points_and_rates_of_paths():
    robot = PCS.from_links([link()], actuators=ThreadlikeActuator.tendons(sides()))
    actuator, q, qd = robot.actuators[0], jnp.zeros(6), jnp.zeros(6).at[2].set(2.0)
    points = actuator.path_points(robot, q, jnp.array([0.0, 0.1]))
    # upright: local x is world z, local y is world y
    expected = [[[0, SIDE, 0], [0, SIDE, 0.1]], [[0, -SIDE, 0], [0, -SIDE, 0.1]]]
    np.testing.assert_allclose(points, expected, atol=1e-15)
    rates = [-2.0 * 0.1 * SIDE, 2.0 * 0.1 * SIDE]
    np.testing.assert_allclose(actuator.path_velocities(robot, q, qd), rates, rtol=1e-13)
    with pytest.raises(ValueError, match=r"`s` must lie in \[0, 0.1\] m. Got \[0.2\]"):
        actuator.path_points(robot, q, [0.2])
    with pytest.raises(ValueError, match=r"`s` needs shape \(points,\), got \(\)"):
        actuator.path_points(robot, q, 0.05)


def test_impedance_follows_its_numbers():
    springs = ThreadlikeImpedance(routing=sides(), stiffness=50.0, damping=2.0, rest_length=0.09)
    robot = PCS.from_links([link()], actuators=(), passive_elements=springs)
    q = jnp.zeros(6)
    np.testing.assert_allclose(robot.passive_elastic_energy(q), 50.0 * 0.01**2, rtol=1e-12)
    stiffer = robot.update_passive_element_params(0, stiffness=[100.0, 50.0])
    np.testing.assert_allclose(stiffer.passive_elastic_energy(q), 75.0 * 0.01**2, rtol=1e-12)
    np.testing.assert_allclose(robot.passive_elastic_energy(q), 50.0 * 0.01**2, rtol=1e-12)
    A = robot.passive_damping_matrix(q)
    np.testing.assert_allclose(A[3, 3], 2 * 2.0 * 0.1**2, rtol=1e-12)
