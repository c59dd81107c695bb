"""Balances of rods over a motion: energy when driven and damped, momentum when free."""

from collections.abc import Callable
from typing import NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.actuation import ThreadlikeActuator, ThreadlikeImpedance, ThreadlikeRouting
from soromox.simulation import DIRK33
from soromox.systems import (
    GVS,
    PCS,
    BaseLink,
    GVSSegment,
    JointSpec,
    LinkSpec,
    PCSStructure,
    PlanarPCS,
    SoftRobot,
    StrainBasisSpec,
    SystemState,
)


LENGTH, DENSITY, HEIGHT, WIDTH = 0.8, 1000.0, 0.1, 0.06
TENDONS = ThreadlikeRouting.linear([[0.0, 0.04, 0.0], [0.0, -0.03, 0.0]])
SPRINGS = ThreadlikeImpedance(routing=TENDONS, stiffness=20.0, damping=2.0, rest_length=0.7)
LINK = LinkSpec.rectangular(
    length=LENGTH,
    height=HEIGHT,
    width=WIDTH,
    density=DENSITY,
    young_modulus=1e5,
    poisson_ratio=0.4,
    material_damping_coefficient=200.0,
)
NUM_POINTS = 5


def spatial(**keywords) -> PCS:
    return PCS.from_links(LINK, structure=PCSStructure(NUM_POINTS), **keywords)


def planar(**keywords) -> PlanarPCS:
    return PlanarPCS.from_links([LINK, LINK], structure=PCSStructure(NUM_POINTS), **keywords)


def hybrid(**keywords) -> GVS:
    """A soft link and a rigid one on a hinge that the tendons cross."""
    segments = [
        GVSSegment(
            LINK, basis=StrainBasisSpec("legendre", ["kappa_x", "kappa_z"], [0, 0, 1, 0, 0, 0])
        ),
        GVSSegment(
            LINK, JointSpec.revolute("z", stiffness=1.0, damping=0.1), None, num_gauss_points=5
        ),
    ]
    return GVS.from_segments(segments, **keywords)


# in space the programs compile for about twenty seconds
RODS = [
    pytest.param(planar, id="PlanarPCS"),
    pytest.param(spatial, id="PCS", marks=pytest.mark.slow),
    pytest.param(hybrid, id="GVS", marks=pytest.mark.slow),
]


def driven(make: Callable[..., SoftRobot], **keywords) -> SoftRobot:
    tendons = ThreadlikeActuator.tendons(TENDONS)
    return make(actuators=tendons, passive_elements=SPRINGS, **keywords)


def tensions(t):
    return jnp.stack([2 + jnp.sin(8 * t), 1 + jnp.cos(5 * t)])


@pytest.mark.parametrize("make", RODS)
def test_energy_balance_closes_over_a_driven_and_damped_motion(make: Callable[..., SoftRobot]):
    """Work of the tendons minus dissipation is the gain of energy, to third order in the step."""
    robot = driven(make)
    num_steps = 10

    @eqx.filter_jit
    def balance(start, dt):
        motion = robot.rollout_to(start, tensions, num_steps=num_steps, dt=dt, scheme=DIRK33())

        def power(t, q, qd):
            work = qd @ robot.actuation_force(q, tensions(t), qd)
            return jnp.stack([work, -qd @ robot.damping_matrix(q) @ qd])

        ends = jax.vmap(robot.total_energy)(motion.q[::num_steps], motion.qd[::num_steps])
        powers = jax.vmap(power)(motion.t, motion.q, motion.qd)
        simpson = jnp.array([1.0, *[4, 2] * (num_steps // 2 - 1), 4, 1]) * dt / 3
        last = SystemState(motion.t[-1], motion.y[-1])
        return ends[1] - ends[0], simpson @ powers, last, jnp.all(motion.result == 0)

    def residual(dt, repeats):
        state = SystemState(jnp.zeros(()), jnp.zeros(2 * robot.num_dofs))
        gain, work = 0.0, jnp.zeros(2)
        for _ in range(repeats):
            part, powers, state, is_solved = balance(state, dt)
            assert is_solved
            gain, work = gain + part, work + powers
        return abs(gain - jnp.sum(work)), jnp.min(jnp.abs(work))

    (coarse, _), (fine, flow) = residual(0.005, 2), residual(0.0025, 4)
    assert fine < 1e-3 * flow
    assert np.log2(coarse / fine) > 2.5


class Sums(NamedTuple):
    """Sums over the particles of a rod in zero gravity but for `weight`."""

    angular: jax.Array  # about the origin
    linear: jax.Array
    kinetic: jax.Array
    weight: jax.Array  # potential energy in the gravity `DOWN`


DOWN = np.array([1.0, -2.0, -9.0])
BASE = {"mass": 3.0, "inertia": 0.05, "center_of_mass": np.array([0.1, -0.05])}


def base_link(is_planar: bool) -> BaseLink:
    if is_planar:
        return BaseLink(**BASE)
    return BaseLink(
        mass=BASE["mass"],
        inertia=BASE["inertia"] * np.eye(3),
        center_of_mass=[*BASE["center_of_mass"], 0.02],
    )


def particle_sums(robot: SoftRobot, q, qd) -> Sums:
    """From poses alone: velocities by differentiation, sections by hand, NumPy's Gauss points."""
    X, w = np.polynomial.legendre.leggauss(NUM_POINTS)
    area = HEIGHT * WIDTH
    spin = area * np.array([HEIGHT**2 + WIDTH**2, WIDTH**2, HEIGHT**2]) / 12
    count = robot.num_segments
    s = np.concatenate([LENGTH * (i + (X + 1) / 2) for i in range(count)])
    mass = np.tile(DENSITY * LENGTH * w / 2, count)
    base = robot.floating_base

    def particle(s, mass, inertia, offset):
        def pose(q):
            g = robot.forward_kinematics(q, s)
            if not robot.is_planar:
                return g[:3, :3], g[:3, 3] + g[:3, :3] @ offset
            c, s_, zero, one = jnp.cos(g[0]), jnp.sin(g[0]), jnp.zeros(()), jnp.ones(())
            R = jnp.stack([c, -s_, zero, s_, c, zero, zero, zero, one]).reshape(3, 3)
            return R, jnp.pad(g[1:], (0, 1)) + R @ offset

        (R, p), (dR, v) = jax.jvp(pose, (q,), (qd,))
        spinning = dR @ R.T
        omega = jnp.stack([spinning[2, 1], spinning[0, 2], spinning[1, 0]])
        own = R @ inertia @ R.T @ omega
        return Sums(
            own + jnp.cross(p, mass * v),
            mass * v,
            (omega @ own + mass * v @ v) / 2,
            -mass * DOWN[: 2 if robot.is_planar else 3] @ p[: 2 if robot.is_planar else 3],
        )

    offset = np.pad(np.asarray(base.center_of_mass), (0, 3 - base.center_of_mass.size))
    return jax.tree.map(
        lambda x: jnp.sum(x, axis=0),
        jax.vmap(particle)(
            np.append(s, 0.0),
            np.append(mass * area, float(base.mass)),
            np.concatenate(
                [mass[:, None, None] * np.diag(spin), BASE["inertia"] * np.eye(3)[None]]
            ),
            np.concatenate([np.zeros((len(s), 3)), offset[None]]),
        ),
    )


@pytest.mark.parametrize("make", RODS)
def test_a_free_rod_keeps_its_momentum_and_has_the_energy_of_its_particles(
    make: Callable[..., SoftRobot],
):
    """Tendons, springs and damping are inside: over a motion they change no momentum."""
    is_planar = make is planar
    gravity = np.zeros(2 if is_planar else 3)
    robot = driven(make, floating_base=base_link(is_planar), gravity=gravity)
    n = robot.num_dofs
    start = jnp.asarray(0.6 * np.random.default_rng(2).normal(size=2 * n))

    @eqx.filter_jit
    def motion(start):
        end = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, args: robot.forward_dynamics(t, y, tensions(t))),
            diffrax.Dopri8(),
            t0=0.0,
            t1=0.05,
            dt0=1e-3,
            y0=start,
            saveat=diffrax.SaveAt(t1=True),
            stepsize_controller=diffrax.PIDController(rtol=1e-12, atol=1e-12),
        ).ys[0]
        q, qd = jnp.stack([start, end])[:, :n], jnp.stack([start, end])[:, n:]
        heavy = robot.update_params(gravity=DOWN[: gravity.size])
        energies = jax.vmap(robot.kinetic_energy)(q, qd), jax.vmap(heavy.gravitational_energy)(q)
        return q, jax.vmap(lambda q, qd: particle_sums(robot, q, qd))(q, qd), energies

    q, sums, (kinetic, gravitational) = motion(start)
    internal = slice(n - robot.num_internal_dofs, None)
    assert np.abs(q[1] - q[0])[internal].max() > 0.1
    momentum = np.concatenate([sums.angular, sums.linear], axis=1)
    assert np.abs(momentum[1] - momentum[0]).max() < 1e-10 * np.abs(momentum).max()
    assert np.allclose(kinetic, sums.kinetic, rtol=1e-12)
    assert np.allclose(gravitational, sums.weight, rtol=1e-12)
