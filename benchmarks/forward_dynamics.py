"""Forward dynamics of rods of 4 to 64 constant-strain segments in space: run, compile, construct.

Doubling the segments should at most double the run time (plus what a call costs at all), and leave
the first call as it is: the program is a scan over the segments. The robot is that of
`peer_rods.py forward_dynamics N`, so that the two can be run in turn.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np

from soromox.systems import PCS, LinkSpec
from timing import measure, report


def rod(count: int) -> PCS:
    link = LinkSpec.circular(
        length=0.1,
        radius=0.02,
        density=1000.0,
        young_modulus=1e6,
        poisson_ratio=0.49,
        material_damping_coefficient=1e4,
    )
    return PCS.from_links([link] * count)


jax.config.update("jax_enable_x64", True)
rows = {}
for count in (4, 8, 16, 32, 64):
    start = time.perf_counter()
    robot = rod(count)
    construct = time.perf_counter() - start
    y = jnp.asarray(np.random.default_rng(0).normal(size=2 * robot.num_dofs) * 0.5)
    dynamics = jax.jit(lambda y, robot=robot: robot.forward_dynamics(0.0, y))
    rows[count] = measure(dynamics, y, repeats=500, limit=3.0)
    report("PCS forward dynamics", segments=count, construct=construct, **rows[count])
report(
    "PCS forward dynamics ratios",
    **{f"run_{2 * n}_over_{n}": rows[2 * n]["fastest"] / rows[n]["fastest"] for n in (8, 16, 32)},
    first_call_64_over_4=rows[64]["first_call"] / rows[4]["first_call"],
)
