"""What rods cost: work that grows linearly with their segments, and construction without compiling."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.actuation import ThreadlikeActuator, ThreadlikeImpedance, ThreadlikeRouting
from soromox.systems import (
    GVS,
    PCS,
    GVSSegment,
    LinearProfile,
    LinkSpec,
    PCSStructure,
    PlanarPCS,
    SoftRobot,
    StrainBasisSpec,
)


NUMBERS = {
    "length": 0.1,
    "density": 1000.0,
    "young_modulus": 1e5,
    "poisson_ratio": 0.4,
    "material_damping_coefficient": 20.0,
}
LINK = LinkSpec.circular(radius=0.01, **NUMBERS)
TAPERED = LinkSpec.circular(radius=LinearProfile(0.02, 0.01), **NUMBERS)


class Work(NamedTuple):
    """Numbers written by a traced program: in all (loops count each time), and at once."""

    total: int
    largest: int


def work(jaxpr) -> Work:
    total, largest = 0, 0
    for equation in jaxpr.eqns:
        sizes = [var.aval.size for var in equation.outvars]
        total, largest = total + sum(sizes), max([largest, *sizes])
        for part in jax.tree.leaves(
            list(equation.params.values()),
            is_leaf=lambda x: hasattr(x, "eqns") or hasattr(x, "jaxpr"),
        ):
            inner = getattr(part, "jaxpr", part)
            if hasattr(inner, "eqns"):
                each = work(inner)
                total += equation.params.get("length", 1) * each.total
                largest = max(largest, each.largest)
    return Work(total, largest)


def work_of_dynamics(robot: SoftRobot) -> Work:
    zero, u = jnp.zeros(robot.num_dofs), jnp.zeros(robot.num_actuators)
    return work(jax.make_jaxpr(SoftRobot.forward_acceleration)(robot, zero, zero, u).jaxpr)


def variable_strain(links: list[LinkSpec], **keywords) -> GVS:
    basis = StrainBasisSpec("legendre", ["kappa_y", "kappa_z", "sigma_x"], 1)
    return GVS.from_segments([GVSSegment(link, basis=basis) for link in links], **keywords)


@pytest.mark.parametrize("make", [PCS.from_links, PlanarPCS.from_links, variable_strain])
def test_work_of_forward_dynamics_grows_linearly(make):
    """No square matrix, and no loop over arrays of all segments; tendons and springs included."""
    paths = ThreadlikeRouting.linear([[0.0, 0.005, 0.0], [0.0, -0.005, 0.0]])
    parts = {
        "actuators": ThreadlikeActuator.tendons(paths),
        "passive_elements": ThreadlikeImpedance(
            routing=paths, stiffness=1.0, damping=1.0, rest_length=0.1
        ),
    }
    robots = [make([LINK] * count, **parts) for count in (4, 16, 64)]
    small, middle, large = map(work_of_dynamics, robots)
    assert abs((large.total - middle.total) / (middle.total - small.total) - 4) < 0.01
    assert large.largest <= 4.01 * middle.largest
    assert large.largest < robots[-1].num_dofs ** 2


def test_inactive_strains_cost_nothing():
    masks = np.tril(np.ones((6, 6), dtype=int))
    works = [
        work_of_dynamics(PCS.from_links([LINK] * 4, structure=PCSStructure(2, mask))).total
        for mask in masks
    ]
    assert np.all(np.diff(works) > 0)


def test_construction_compiles_nothing():
    """Compiling one operation at a time is what makes construction slow."""
    compiled = []

    def listen(event, duration, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(duration)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        # shapes that no other test has compiled for
        PCS.from_links([LINK] * 19)
        PlanarPCS.from_links([TAPERED] * 21, gravity=(0.0, -1.0))
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert compiled == []
