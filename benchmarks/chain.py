"""Forward dynamics of serial chains of 8 to 128 joints: run time and compile time.

From 16 joints on, doubling the chain should at most multiply the run time by 2.2; the compile time
should stay nearly flat, since the program is a scan over the bodies.
"""

import jax
import jax.numpy as jnp
import numpy as np

from soromox.systems import ArticulatedSoftRobot, ArticulatedSoftRobotParams
from timing import measure, report


def chain(count: int) -> ArticulatedSoftRobot:
    rng = np.random.default_rng(0)
    axes = rng.normal(size=(count, 3))
    screws = np.hstack([axes / np.linalg.norm(axes, axis=1, keepdims=True), np.zeros((count, 3))])
    params = ArticulatedSoftRobotParams(
        joint_screw=screws,
        tip_position=np.tile([0.1, 0.0, 0.0], (count, 1)),
        center_of_mass_position=np.tile([0.05, 0.0, 0.0], (count, 1)),
        mass=np.full(count, 0.1),
        center_of_mass_inertia=np.tile(1e-4 * np.eye(3), (count, 1, 1)),
    )
    return ArticulatedSoftRobot(params)


jax.config.update("jax_enable_x64", True)
rows = {}
for count in (8, 16, 32, 64, 128):
    robot = chain(count)
    q = jnp.asarray(np.random.default_rng(1).normal(size=count))
    accelerate = jax.jit(lambda q, robot=robot: robot.forward_acceleration(q, q))
    rows[count] = measure(accelerate, q, repeats=200, limit=2.0)
    report("chain", joints=count, **rows[count])
report(
    "chain ratios",
    **{f"run_{2 * n}_over_{n}": rows[2 * n]["fastest"] / rows[n]["fastest"] for n in (16, 32, 64)},
    first_call_128_over_8=rows[128]["first_call"] / rows[8]["first_call"],
)
