"""Constant-strain rods against recorded results of another package, and against data of our own."""

from pathlib import Path

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.actuation import ThreadlikeActuator, ThreadlikeImpedance, ThreadlikeRouting
from soromox.systems import (
    PCS,
    ContinuumLinkParams,
    CrossSectionGeometry,
    ElasticMaterial,
    ExplicitMaterial,
    LinkSpec,
    PCSParams,
    PCSStructure,
    PlanarPCS,
    PlanarPCSParams,
    PlanarPCSStructure,
)
from tests.rods import disagreements, params_of
from tests.systems.independent_rod import IndependentRod


def load(shared_reference: Path, name: str) -> dict[str, np.ndarray]:
    return dict(np.load(shared_reference / "rods" / f"{name}.npz"))


def recorded_links(data: dict[str, np.ndarray]) -> ContinuumLinkParams:
    link = params_of(data, "params.link.")
    return ContinuumLinkParams(
        link["length"],
        link["density"],
        link["reference_strain"],
        CrossSectionGeometry.circular(link["cross_section.coefficients"][:, 0]),
        ExplicitMaterial(link["stiffness"], link["damping"]),
    )


def recorded_paths(data: dict[str, np.ndarray], prefix: str, start: int, end: int):
    routing = params_of(data, prefix + "routing.")
    return ThreadlikeRouting.linear(routing["intercept"], routing["slope"], start, end)


@pytest.mark.slow
def test_pcs2(shared_reference):
    data = load(shared_reference, "pcs2")
    spans = ((0, 1), (0, 0), (1, 1), (0, 0))
    tendons, rods, muscles, chambers = (
        recorded_paths(data, f"actuators[{i}].params.transmission.", *span)
        for i, span in enumerate(spans)
    )
    element = "passive_elements[0].params."
    law = {name: data[element + name] for name in ("stiffness", "damping", "rest_length")}
    robot = PCS(
        PCSParams(recorded_links(data), gravity=data["params.gravity"]),
        actuators=(
            ThreadlikeActuator.tendons(tendons),
            ThreadlikeActuator.push_rods(rods),
            ThreadlikeActuator.muscles(muscles),
            ThreadlikeActuator.pressure_chambers(chambers, effective_area=[2e-5, 3e-5, 4e-5]),
        ),
        passive_elements=ThreadlikeImpedance(routing=recorded_paths(data, element, 0, 1), **law),
    )
    assert disagreements(robot, data) == {}
    np.testing.assert_allclose(robot.strain(data["q"][0]).ravel(), data["strain"][0], rtol=1e-14)


def test_elastic_links_have_the_recorded_matrices(shared_reference):
    data = load(shared_reference, "pcs2")
    links = [
        LinkSpec.circular(
            length=length,
            radius=radius,
            density=1000.0,
            young_modulus=E,
            shear_modulus=G,
            material_damping_coefficient=eta,
        )
        for length, radius, E, G, eta in (
            (0.1, 0.012, 3e5, 1.1e5, 50.0),
            (0.12, 0.01, 5e5, 1.8e5, 70.0),
        )
    ]
    robot = PCS.from_links(links)
    K, D = robot.stiffness_matrix(), robot.damping_matrix(np.zeros(12))
    np.testing.assert_allclose(K, data["stiffness_matrix"][0], rtol=1e-13, atol=1e-18)
    np.testing.assert_allclose(D, data["attr.D_active"], rtol=1e-13, atol=1e-18)


def selected_robot(data: dict[str, np.ndarray]) -> PlanarPCS:
    # The record's text gives other lengths and materials than its arrays: the arrays count.
    return PlanarPCS(
        PlanarPCSParams(recorded_links(data), gravity=data["params.gravity"]),
        PlanarPCSStructure(4, (1, 1, 0, 1, 0, 0, 1, 1, 1), scale_rotational_basis_by_length=True),
        base_pose=data["fixed_base_pose"],
    )


def test_planar_pcs3_selected(shared_reference):
    data = load(shared_reference, "planar_pcs3_selected")
    robot = selected_robot(data)
    assert disagreements(robot, data) == {}
    np.testing.assert_allclose(robot.strain(data["q"][1]).ravel(), data["strain"][1], rtol=1e-14)


@pytest.mark.slow
def test_planar_pcs3_selected_rollout(shared_reference):
    data = load(shared_reference, "planar_pcs3_selected")
    robot = selected_robot(data)
    u, times = jnp.asarray(data["rollout_u"]), jnp.asarray(data["rollout_t"])
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, args: robot.forward_dynamics(t, y, u)),
        diffrax.Tsit5(),  # as the record; implicit solvers take long to compile
        t0=times[0],
        t1=times[-1],
        dt0=1e-4,
        y0=jnp.asarray(data["rollout_y0"]),
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(rtol=1e-9, atol=1e-11),
        max_steps=100_000,
    )
    error = np.abs(solution.ys - data["rollout_y"]).max(axis=0)
    assert np.all(error < 1e-6 * np.abs(data["rollout_y"]).max())


def close(ours, theirs, tolerance):
    theirs = np.asarray(theirs)
    assert np.abs(np.asarray(ours) - theirs).max() < tolerance * np.abs(theirs).max()


def test_spatial_rod_of_our_own():
    q, qd = (np.random.default_rng(i).normal(size=7) * 0.6 for i in (0, 1))
    reference = [[0.3, -0.5, 0.8, 1.0, 0.0, 0.05], [0.0, 0.4, 0.0, 0.98, 0.02, 0.0]]
    selector = np.array([[1, 1, 1, 1, 0, 0], [0, 1, 1, 0, 0, 1]])
    a, b = np.array([0.02, 0.015]), np.array([0.01, 0.012])
    links = ContinuumLinkParams(
        [0.2, 0.15],
        1100.0,
        reference,
        CrossSectionGeometry.elliptical(a, b),
        ElasticMaterial(4e5, poisson_ratio=0.4, material_damping_coefficient=30.0),
    )
    robot = PCS(
        PCSParams(links, gravity=[0.5, 1.0, -9.0]),
        PCSStructure(4, selector),
        base_pose=[0.0, 0.0, 0.6, 0.8, 0.1, 0.2, -0.1],
    )
    A, Iy, Iz = np.pi * a * b, np.pi * a * b**3 / 4, np.pi * a**3 * b / 4
    base = np.eye(4)
    base[:2, :2] = [[0.28, -0.96], [0.96, 0.28]]
    base[:3, 3] = [0.1, 0.2, -0.1]
    same = IndependentRod(
        np.array([0.2, 0.15]),
        np.array(reference),
        [np.eye(6)[:, row == 1] for row in selector],
        1100.0 * np.stack([Iy + Iz, Iy, Iz, A, A, A], axis=1),
        np.array([0.5, 1.0, -9.0]),
        base,
        4,
    )
    agree(robot, same, q, qd)
    G = 4e5 / 2.8
    sections = np.stack([G * (Iy + Iz), 4e5 * Iy, 4e5 * Iz, 4e5 * A, G * A, G * A], axis=1)
    stiffness = (np.array([[0.2], [0.15]]) * sections)[selector == 1]
    close(robot.elastic_force(q), stiffness * q, 1e-13)


def test_planar_rod_of_our_own():
    q, qd = (np.random.default_rng(i).normal(size=4) * 0.6 for i in (2, 3))
    h, w = np.array([0.02, 0.016]), 0.01
    links = ContinuumLinkParams(
        [0.2, 0.15],
        [900.0, 1000.0],
        [[1.0, 1.0, 0.0], [-2.0, 1.02, 0.01]],
        CrossSectionGeometry.rectangular(h, w),
        ElasticMaterial([3e5, 2e5], [1e5, 8e4], 20.0),
    )
    robot = PlanarPCS(
        PlanarPCSParams(links, gravity=[1.0, -9.0]),
        PlanarPCSStructure(3, [1, 0, 1]),
        base_pose=[0.0, 0.0, 0.0],
    )
    mass = np.array([900.0, 1000.0]) * h * w
    spin = np.array([900.0, 1000.0]) * w * h**3 / 12
    zero = np.zeros(2)
    same = IndependentRod(
        np.array([0.2, 0.15]),
        np.array([[0, 0, 1.0, 1.0, 0.0, 0], [0, 0, -2.0, 1.02, 0.01, 0]]),
        [np.eye(6)[:, [2, 4]]] * 2,
        np.stack([zero, zero, spin, mass, mass, mass], axis=1),
        np.array([1.0, -9.0, 0.0]),
        np.eye(4),
        3,
    )
    agree(robot, same, q, qd)


def agree(robot, same: IndependentRod, q, qd):
    points = jnp.array([0.0, 0.07, 0.2, 0.31, 0.35])

    @jax.jit
    def everything(q, qd, s):
        return (
            robot.inertia_matrix(q),
            robot.gravitational_force(q),
            robot.gravitational_energy(q),
            robot.coriolis_force(q, qd),
            robot.material_points(q, points, jnp.zeros((5, 3))),
            robot.jacobian_bodyframe(q, s),
        )

    inertia, gravity, energy, coriolis, positions, body = everything(q, qd, 0.31)
    close(inertia, same.inertia_matrix(q), 1e-13)
    close(gravity, same.gravitational_force(q), 1e-12)
    close(energy, same.gravitational_energy(q), 1e-12)
    close(coriolis, same.coriolis_force(q, qd), 1e-8)
    close(positions, [same.pose(q, s)[:3, 3] for s in points], 1e-13)
    rows = [2, 3, 4] if robot.is_planar else slice(None)
    close(body, same.body_jacobian(q, 0.31)[rows], 1e-13)
