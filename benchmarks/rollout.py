"""One second of a tendon-driven rod: implicit steps, their gradients, and diffrax on the same rod.

Three comparisons, each within this run:

- two segments to a tip error of 1e-4: each scheme with the longest step that reaches it, against
  the best of diffrax's adaptive solvers on `robot.forward_dynamics`;
- 1 to 16 segments in steps of 10 ms: run time should at most double with the segments (plus what a
  call costs at all), compile time stay as it is. Once for one arm of 20 cm in ever more segments,
  once for arms that grow by 10 cm a segment: these swing for longer, so that each step takes more
  iterations;
- the first call of a step and of a gradient, and the run time of a gradient over that of the motion.
"""

import itertools

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

from soromox.actuation import ThreadlikeActuator, ThreadlikeRouting
from soromox.simulation import BDF3, DIRK22, DIRK33, BackwardEuler, ImplicitMidpoint, SystemState
from soromox.systems import PCS, LinkSpec, base_poses
from timing import measure, report


jax.config.update("jax_enable_x64", True)


def rod(count: int, segment_length: float = 0.1) -> PCS:
    """Three tendons at 15 mm along all segments [m]."""
    link = LinkSpec.circular(
        length=segment_length,
        radius=0.02,
        density=1000.0,
        young_modulus=1e6,
        poisson_ratio=0.49,
        material_damping_coefficient=1e4,
    )
    angles = 2 * np.pi * np.arange(3) / 3
    intercept = 0.015 * np.stack([0 * angles, np.cos(angles), np.sin(angles)], axis=1)
    tendons = ThreadlikeActuator.tendons(ThreadlikeRouting.linear(intercept, 0 * intercept))
    return PCS.from_links([link] * count, actuators=tendons, base_pose=base_poses.hanging())


def tips(robot: PCS, q: jax.Array) -> jax.Array:
    return jax.vmap(lambda q: robot.forward_kinematics(q, robot.length)[:3, 3])(q)


TENSIONS = jnp.array([6.0, 2.0, 0.0])  # [N]


def implicit(robot: PCS, scheme, dt: float, samples: int):
    steps = round(1 / dt)

    def run(u):
        start = SystemState(t=0.0, y=jnp.zeros(2 * robot.num_dofs))
        return robot.rollout_to(
            start, u, num_steps=steps, dt=1 / steps, save_every=steps // samples, scheme=scheme
        )

    return jax.jit(run)


def adaptive(robot: PCS, solver, samples: int):
    """diffrax on the equations of motion."""

    def run(u, rtol):
        return diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, u: robot.forward_dynamics(t, y, u)),
            solver,
            t0=0.0,
            t1=1.0,
            dt0=1e-4,
            y0=jnp.zeros(2 * robot.num_dofs),
            args=u,
            saveat=diffrax.SaveAt(ts=jnp.linspace(0, 1, samples + 1)),
            stepsize_controller=diffrax.PIDController(rtol=rtol, atol=rtol),
            max_steps=200_000,
            throw=False,
        ).ys

    return jax.jit(run)


def compare_at_equal_accuracy() -> None:
    robot, samples = rod(2), 10
    n = robot.num_dofs
    reference = tips(robot, implicit(robot, DIRK33(), 1e-4, samples)(TENSIONS).q)
    reach = jnp.max(jnp.linalg.norm(reference - reference[0], axis=1))
    error = lambda q: float(jnp.max(jnp.linalg.norm(tips(robot, q) - reference, axis=1)) / reach)

    ours = {}
    for scheme in (BackwardEuler(), ImplicitMidpoint(), DIRK22(), DIRK33(), BDF3()):
        for steps in (10, 20, 30, 50, 100, 200, 500, 1000, 2000, 5000, 10000):
            run = implicit(robot, scheme, 1 / steps, samples)
            off = error(run(TENSIONS).q)
            if off <= 1e-4:
                break
        row = measure(run, TENSIONS, limit=2.0)
        name = type(scheme).__name__
        ours[name] = row["median"]
        report("rollout to 1e-4", solver=name, steps=steps, tip_error=off, **row)

    theirs = {}
    for solver in (diffrax.Kvaerno3(), diffrax.Kvaerno5(), diffrax.Tsit5()):
        name = type(solver).__name__
        run = adaptive(robot, solver, samples)
        for rtol in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7):
            off = error(run(TENSIONS, rtol)[:, :n])
            if off <= 1e-4:
                break
        row = measure(run, TENSIONS, rtol, limit=4.0)
        theirs[name] = row["median"]
        report("rollout to 1e-4", solver=f"diffrax {name}", rtol=rtol, tip_error=off, **row)
    report(
        "rollout to 1e-4: best of ours over best of diffrax",
        ours=min(ours.values()),
        diffrax=min(theirs.values()),
        ratio=min(ours.values()) / min(theirs.values()),
    )


def growth_with_segments() -> None:
    counts = (1, 2, 4, 8, 16)
    arms = {
        "one arm of 20 cm": [rod(count, 0.2 / count) for count in counts],
        "10 cm a segment": [rod(count) for count in counts],
    }
    for arm, robots in arms.items():
        rows = {}
        for count, robot in zip(counts, robots, strict=True):
            rows[count] = measure(implicit(robot, DIRK22(), 0.01, 1), TENSIONS, limit=2.0)
            report("rollout of 100 steps", arm=arm, segments=count, scheme="DIRK22", **rows[count])
        report(
            "rollout ratios",
            arm=arm,
            **{
                f"run_{b}_over_{a}": rows[b]["fastest"] / rows[a]["fastest"]
                for a, b in itertools.pairwise(rows)
            },
            first_call_16_over_1=rows[16]["first_call"] / rows[1]["first_call"],
        )


def cost_of_gradients() -> None:
    robot = rod(2)
    rest = SystemState(t=0.0, y=jnp.zeros(2 * robot.num_dofs))
    for scheme in (BackwardEuler(), DIRK22()):
        name = type(scheme).__name__
        step = jax.jit(lambda u, s=scheme: robot.implicit_step(rest, u, dt=0.01, scheme=s).y)
        report("implicit step", scheme=name, **measure(step, TENSIONS, limit=1.0))
        run = implicit(robot, scheme, 0.01, 1)
        height = lambda u, run=run: tips(robot, run(u).q)[-1, 2]
        forward = measure(jax.jit(height), TENSIONS, limit=2.0)
        backward = measure(jax.jit(jax.value_and_grad(height)), TENSIONS, limit=3.0)
        report("value of 100 steps", scheme=name, **forward)
        report("value and gradient of 100 steps", scheme=name, **backward)
        report("gradient over value", scheme=name, run=backward["fastest"] / forward["fastest"])


cost_of_gradients()
growth_with_segments()
compare_at_equal_accuracy()
