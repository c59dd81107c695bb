"""Derivatives of tip position and acceleration of rods by everything that a user can set.

State, material, geometry, reference shape and routing are one vector of relative changes. Forward
and reverse mode and the Hessian come from one compiled program over many points; its values and
gradients at displaced points give the central differences.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from soromox.actuation import (
    LinearThreadlikeRoutingParams,
    ThreadlikeActuator,
    ThreadlikeRouting,
)
from soromox.systems import (
    GVS,
    PCS,
    GVSSegment,
    JointSpec,
    LinearProfile,
    LinkSpec,
    PCSStructure,
    PlanarPCS,
    PlanarPCSStructure,
    SoftRobot,
    StrainBasisSpec,
)


# A thick rod: short or thin ones make inertia matrices of poor condition.
NUMBERS = {
    "length": 0.8,
    "radius": (0.1, 0.08),
    "density": 1000.0,
    "young_modulus": 1e5,
    "shear_modulus": 4e4,
    "material_damping_coefficient": 60.0,
}
ROUTING = ThreadlikeRouting.linear([[0.0, 0.05, -0.02]], [[0.0, -0.02, 0.01]])
TENSION = 3.0  # [N]


def link() -> LinkSpec:
    return LinkSpec.circular(**(NUMBERS | {"radius": LinearProfile(*NUMBERS["radius"])}))


def spatial() -> PCS:
    return PCS.from_links(
        link(),
        gravity=[1.0, -2.0, -9.0],
        structure=PCSStructure(2, [1, 1, 1, 1, 0, 0]),
        actuators=ThreadlikeActuator.tendons(ROUTING),
    )


def planar() -> PlanarPCS:
    return PlanarPCS.from_links(
        link(),
        gravity=[1.0, -9.0],
        structure=PlanarPCSStructure(2),
        actuators=ThreadlikeActuator.tendons(ROUTING),
    )


def variable() -> GVS:
    segment = GVSSegment(
        link(),
        JointSpec.revolute("y", stiffness=0.5, damping=0.1),
        StrainBasisSpec("legendre", ["kappa_x", "kappa_z"], [0, 0, 1, 0, 0, 0]),
    )
    return GVS.from_segments(
        segment, gravity=[1.0, -2.0, -9.0], actuators=ThreadlikeActuator.tendons(ROUTING)
    )


ROBOTS = {"PCS": spatial, "PlanarPCS": planar, "GVS": variable}


def tip(robot: SoftRobot, q, qd) -> jax.Array:
    position = robot.group.translation(robot.forward_kinematics_tips(q)[-1])
    return weighted(position)


def acceleration(robot: SoftRobot, q, qd) -> jax.Array:
    return weighted(robot.forward_acceleration(q, qd, jnp.full(1, TENSION, q.dtype))) / 100


def weighted(x) -> jax.Array:
    """A sum that sees every entry."""
    return jnp.arange(1, x.size + 1).astype(x.dtype) @ x


# a robot's programs compile for ten seconds (tip) to a minute (acceleration)
KINDS = [
    pytest.param((name, quantity), marks=marks, id=f"{name}-{quantity.__name__}")
    for name, quantity, marks in (
        ("PlanarPCS", tip, ()),
        ("PCS", tip, ()),
        ("GVS", tip, pytest.mark.slow),
        ("PlanarPCS", acceleration, pytest.mark.slow),
        ("PCS", acceleration, pytest.mark.slow),
        ("GVS", acceleration, pytest.mark.slow),
    )
]


def changed(robot: SoftRobot, change: dict[str, Any]) -> SoftRobot:
    """The robot with all its numbers moved by relative changes, through the public updates."""
    numbers = {
        name: (1 + change[name]) * np.asarray(NUMBERS[name], robot.dtype) for name in NUMBERS
    }
    base, tip = numbers.pop("radius")
    reference = robot.params.link.reference_strain + change["reference_strain"]
    robot = robot.update_link_params(
        radius=LinearProfile(base, tip), reference_strain=reference, **numbers
    )
    transmission = robot.actuators[0].params.transmission
    old = transmission.routing
    paths = LinearThreadlikeRoutingParams(
        old.intercept.at[0, 1:].add(0.05 * change["intercept"]),
        old.slope.at[0, 1:].add(0.05 * change["slope"]),
    )
    return robot.update_actuator_params(0, transmission=transmission.replace(routing=paths))


class Derivatives(NamedTuple):
    value: np.ndarray  # (points,)
    reverse: np.ndarray  # (points, numbers)
    forward: np.ndarray
    hessian: np.ndarray  # (points, numbers, numbers)


STEP = 1e-4


def derivatives(quantity: Callable, robot: SoftRobot, rebuild, points: np.ndarray) -> Derivatives:
    """At several points at once, in the precision of the points."""

    def value(z):
        change = rebuild(z)
        return quantity(changed(robot, change), change["q"], change["qd"])

    def first_order(z):
        both = jax.value_and_grad(value)(z)
        return both, both

    def everything(z):
        (forward, hessian), (value, reverse) = jax.jacfwd(first_order, has_aux=True)(z)
        return value, reverse, forward, hessian

    return Derivatives(*map(np.asarray, jax.jit(jax.vmap(everything))(points)))


def numbers_of(robot: SoftRobot):
    """Names of the entries of the vector of changes, its parts, and two points: straight, bent."""
    shapes = {name: np.shape(NUMBERS[name]) for name in NUMBERS} | {
        "reference_strain": robot.params.link.reference_strain.shape,
        "intercept": (2,),
        "slope": (2,),
        "q": (robot.num_dofs,),
        "qd": (robot.num_dofs,),
    }
    zero = {name: jnp.zeros(shape, robot.dtype) for name, shape in shapes.items()}
    straight, rebuild = ravel_pytree(zero)
    names = np.repeat(sorted(zero), [zero[name].size for name in sorted(zero)])
    bent = 0.3 * np.random.default_rng(0).uniform(-1, 1, straight.size)
    return names, rebuild, np.stack([straight, bent.astype(robot.dtype)])


def in_single_precision(robot: SoftRobot) -> SoftRobot:
    cast = lambda x: x.astype(jnp.float32) if eqx.is_inexact_array(x) else x
    return jax.tree.map(cast, robot)


def take(result: Derivatives, index) -> Derivatives:
    return Derivatives(*(array[index] for array in result))


class Case(NamedTuple):
    quantity: Callable
    names: np.ndarray
    straight: Derivatives
    bent: Derivatives
    single: Derivatives  # both points in float32
    slope: np.ndarray  # central differences of the value, at the bent point
    curvature: np.ndarray  # and of the gradient


@pytest.fixture(scope="module", params=KINDS)
def case(request: pytest.FixtureRequest) -> Case:
    name, quantity = request.param
    robot = ROBOTS[name]()
    names, rebuild, ends = numbers_of(robot)
    steps = STEP * np.eye(len(names))
    points = np.concatenate([ends, ends[1] + steps, ends[1] - steps])
    result = derivatives(quantity, robot, rebuild, points)
    single = in_single_precision(robot)
    ahead, behind = (take(result, 2 + np.arange(len(names)) + k * len(names)) for k in range(2))
    return Case(
        quantity,
        names,
        take(result, 0),
        take(result, 1),
        derivatives(quantity, single, *numbers_of(single)[1:]),
        (ahead.value - behind.value) / (2 * STEP),
        (ahead.reverse - behind.reverse) / (2 * STEP),
    )


def close(ours, theirs, tolerance) -> bool:
    """Equal to `tolerance` of the largest entry."""
    return bool(np.abs(ours - theirs).max() <= tolerance * np.abs(theirs).max())


def test_derivatives_are_finite_at_the_straight_pose(case: Case):
    for array in case.straight:
        assert np.all(np.isfinite(array))
    if case.quantity is acceleration:  # no number is lost: each matters, if only with another
        for name in set(case.names):
            assert np.any(case.straight.hessian[case.names == name] != 0), name


def test_forward_and_reverse_mode_agree(case: Case):
    for point in (case.straight, case.bent):
        assert close(point.forward, point.reverse, 1e-12)
        assert close(point.hessian, point.hessian.T, 1e-11)


def test_derivatives_equal_central_differences(case: Case):
    for name in set(case.names):
        rows = case.names == name
        floor = 1e-3 * np.abs(case.slope).max()
        error = np.abs(case.bent.reverse - case.slope)[rows]
        assert np.all(error <= 1e-6 * (np.abs(case.slope[rows]) + floor)), name
        floor = 1e-3 * np.abs(case.curvature).max()
        error = np.abs(case.bent.hessian - case.curvature)[rows]
        assert np.all(error <= 1e-5 * (np.abs(case.curvature[rows]) + floor)), name


def test_derivatives_agree_in_single_precision(case: Case):
    for i, double in enumerate((case.straight, case.bent)):
        for ours, theirs in zip(take(case.single, i), double, strict=True):
            assert ours.dtype == np.float32
            assert close(ours, theirs, 1e-3)
