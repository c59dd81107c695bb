"""Joints between links: closed forms, chart changes, poses in and out, bad input."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

from soromox.chain import configuration
from soromox.chain.charts import change_chart
from soromox.simulation import BDF2
from soromox.systems import (
    GVS,
    BaseLink,
    GVSSegment,
    JointSpec,
    LinkSpec,
    StrainBasisSpec,
    SystemState,
    joint_state,
    with_joint_state,
)


AXIS = np.array([1.0, -2.0, 2.0])
UNIT = AXIS / 3
WORLD = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]


def brick(**changes) -> LinkSpec:
    numbers = {"length": 0.2, "height": 0.06, "width": 0.03, "density": 500.0}
    return LinkSpec.rectangular(**(numbers | changes))


def screw(omega, v):
    x, y, z = omega
    X = np.zeros((4, 4))
    X[:3, :3] = [[0, -z, y], [z, 0, -x], [-y, x, 0]]
    X[:3, 3] = v
    return expm(X)


def moved(position, rotvec):
    g = np.eye(4)
    g[:3, :3], g[:3, 3] = Rotation.from_rotvec(rotvec).as_matrix(), position
    return g


JOINTS = {
    "revolute": (JointSpec.revolute(AXIS), [0.7], lambda q: screw(UNIT * q[0], 0 * UNIT)),
    "prismatic": (JointSpec.prismatic(AXIS), [0.7], lambda q: moved(UNIT * q[0], 0 * UNIT)),
    "helical": (
        JointSpec.helical(AXIS, 0.05),
        [9.0],
        lambda q: screw(UNIT * q[0], UNIT * q[0] * 0.05),
    ),
    "cylindrical": (
        JointSpec.cylindrical("y"),
        [0.7, 0.3],
        lambda q: moved([0, q[1], 0], [0, q[0], 0]),
    ),
    "planar_xy": (
        JointSpec.planar("xy"),
        [20.0, 0.3, -0.2],
        lambda q: moved([q[1], q[2], 0], [0, 0, q[0]]),
    ),
    "planar_yz": (
        JointSpec.planar("yz"),
        [0.7, 0.3, -0.2],
        lambda q: moved([0, q[1], q[2]], [q[0], 0, 0]),
    ),
    "planar_xz": (
        JointSpec.planar("xz"),
        [0.7, 0.3, -0.2],
        lambda q: moved([q[1], 0, q[2]], [0, q[0], 0]),
    ),
    "spherical": (JointSpec.spherical(), [0.7, -1.3, 0.4], lambda q: moved([0, 0, 0], q.copy())),
    "free": (
        JointSpec.free(),
        [0.7, -1.3, 0.4, 0.1, 0.2, 0.3],
        lambda q: moved(q[3:], q[:3].copy()),
    ),
}


# as one program: eagerly every operation would be compiled by itself
chain_of = eqx.filter_jit(lambda robot: robot.mechanics().chain)


@pytest.mark.parametrize("name", JOINTS)
def test_joint_moves_as_documented(name):
    """The pose against a closed form; Jacobian and bias against derivatives of the pose."""
    joint, q, pose = JOINTS[name]
    q = jnp.asarray(q)
    robot = GVS.from_segments(GVSSegment(brick(), joint), base_pose=WORLD)
    chain = chain_of(robot)
    qd = jnp.asarray(np.random.default_rng(0).normal(size=len(q)))

    @jax.jit
    def at(q):
        motion = configuration(chain, q, qd).motions[0]
        return motion.pose[0, 0], motion.S[0, 0], motion.nu[0, 0], motion.c[0, 0]

    (g, S, nu, c), (dg, _, dnu, _) = jax.jvp(at, (q,), (qd,))
    np.testing.assert_allclose(g, pose(np.asarray(q)), atol=1e-14)
    body = np.linalg.inv(g) @ dg
    twist = [body[2, 1], body[0, 2], body[1, 0], *body[:3, 3]]
    np.testing.assert_allclose(nu, twist, atol=1e-13)
    np.testing.assert_allclose(S @ qd, twist, atol=1e-13)
    np.testing.assert_allclose(c, dnu, atol=1e-13)
    crossings = robot.joint_crossings(q)
    linear = np.concatenate([crossings.rotation[0], crossings.translation[0]])
    if name in ("planar_xy", "planar_yz", "planar_xz", "spherical", "free"):
        np.testing.assert_allclose(moved(linear[3:], linear[:3]), g, atol=1e-13)
    else:
        np.testing.assert_allclose(screw(linear[:3], linear[3:]), g, atol=1e-13)


def test_crossings_stand_between_links_behind_a_floating_base():
    robot = GVS.from_segments(
        [
            GVSSegment(brick()),
            GVSSegment(brick(length=0.1), JointSpec.revolute("y")),
            GVSSegment(brick(), JointSpec.cylindrical("x")),
        ],
        floating_base=True,
    )
    q = jnp.arange(9.0)
    crossings = robot.joint_crossings(q)
    assert crossings.segments == (1, 2)
    np.testing.assert_allclose(crossings.s, [0.2, 0.3])
    np.testing.assert_allclose(crossings.rotation, [[0, 6, 0], [7, 0, 0]])
    np.testing.assert_allclose(crossings.translation, [[0, 0, 0], [8, 0, 0]])


def test_stiffness_of_joints_is_a_number_values_or_a_matrix():
    K = np.array([[2.0, 0.5, 0], [0.5, 1, 0], [0, 0, 3]])
    robot = GVS.from_segments(
        [
            GVSSegment(brick(), JointSpec.planar("xy", stiffness=K, damping=[1.0, 2, 3])),
            GVSSegment(brick(), JointSpec.revolute("x", stiffness=7.0)),
        ]
    )
    expected = np.zeros((4, 4))
    expected[:3, :3], expected[3, 3] = K, 7
    np.testing.assert_allclose(robot.stiffness_matrix(), expected)
    np.testing.assert_allclose(robot.damping_matrix(np.zeros(4)), np.diag([1.0, 2, 3, 0]))


def tumbling() -> GVS:
    return GVS.from_segments(GVSSegment(brick(), JointSpec.free()), gravity=[0, 0, 0])


def world_momentum(robot, q, qd):
    """Angular momentum about the world's origin and linear momentum."""
    J, p = robot.jacobian(q, 0.0), robot.forward_kinematics(q, 0.0)[:3, 3]
    momentum = jnp.linalg.solve(J.T, robot.inertia_matrix(q) @ qd)
    return momentum.at[:3].add(jnp.cross(p, momentum[3:]))


@pytest.mark.slow
def test_tumbling_body_turns_many_times_without_a_jump():
    robot = tumbling()
    chain = chain_of(robot)
    start = with_joint_state(
        robot, np.zeros(6), np.zeros(6), 0, twist=[3.0, 4.0, -1.0, 0.1, 0.0, 0.2]
    )
    h, steps = 5e-4, 20000

    def stage(carry, weights):
        y, slope, total = carry
        at, share = weights
        q, qd = y + at * h * slope
        slope = jnp.stack([qd, robot.forward_acceleration(q, qd)])
        return (y, slope, total + share * h * slope), None

    def step(y, _):
        zero = jnp.zeros_like(y)
        runge_kutta = (jnp.array([0, 0.5, 0.5, 1]), jnp.array([1, 2, 2, 1]) / 6)
        moved = y + jax.lax.scan(stage, (y, zero, zero), runge_kutta)[0][2]
        return jnp.stack(change_chart(chain, *moved)), jnp.linalg.norm(moved[0, :3])

    final, angles = jax.jit(lambda y: jax.lax.scan(step, y, length=steps))(jnp.stack(start))
    assert np.sum(angles > np.pi) >= 5
    assert np.max(angles) < np.pi + 0.01

    momentum = jax.jit(lambda y: world_momentum(robot, y[0], y[1]))
    before, after = momentum(jnp.stack(start)), momentum(final)
    np.testing.assert_allclose(after, before, atol=1e-10 * np.max(np.abs(before)))
    energy = robot.kinetic_energy(*start)
    assert np.isclose(robot.kinetic_energy(*final), energy, rtol=1e-10)


def spun(rate):
    """Position and coordinates of a brick after 4 s on a ball joint, turning about its z axis."""
    robot = GVS.from_segments(
        GVSSegment(brick(), JointSpec.spherical()), gravity=[0, 0, 0], base_pose=WORLD
    )
    start = SystemState(jnp.zeros(()), jnp.zeros(6).at[5].set(rate))
    motion = robot.rollout_to(start, num_steps=40, dt=0.1, scheme=BDF2())
    return robot.forward_kinematics(motion.q[-1], 0.2)[:2, 3], motion


def test_rollouts_turn_many_times():
    """Uniform rotation is exact, also through the history of a multi-step scheme."""
    position, motion = jax.jit(spun)(5.0)
    assert np.all(motion.result == 0)
    assert np.abs(motion.q).max() < np.pi
    assert np.sum(np.abs(np.diff(motion.q[:, 2])) > 3) == 3  # chart changes
    np.testing.assert_allclose(position, 0.2 * np.array([np.cos(20), np.sin(20)]), atol=1e-12)


@pytest.mark.slow
def test_gradients_of_rollouts_that_turn_many_times():
    slope = jax.jit(lambda rate: jax.jvp(lambda x: spun(x)[0], (rate,), (1.0,))[1])(5.0)
    np.testing.assert_allclose(slope, 0.8 * np.array([-np.sin(20), np.cos(20)]), atol=1e-10)


def test_chart_change_keeps_motion_and_gradient():
    robot = tumbling()
    chain = chain_of(robot)
    r = np.array([2.0, 2.5, -1.0])
    q = jnp.asarray([*r, 0.1, 0.2, 0.3])
    qd = jnp.asarray([1.0, -2.0, 0.5, 0.3, 0.1, 0.2])
    assert np.linalg.norm(r) > np.pi

    def state(y):
        q, qd = y
        pose, J = robot.forward_kinematics(q, 0.2), robot.jacobian(q, 0.2)
        return pose, J @ qd, robot.kinetic_energy(q, qd)

    @jax.jit
    def outcome(y):
        q, qd = y
        J, rate = jax.jvp(lambda q: robot.jacobian(q, 0.2), (q,), (qd,))
        acceleration = J @ robot.forward_acceleration(q, qd) + rate @ qd
        return state(y), jax.jacfwd(state)(y), acceleration

    changed = jax.jit(
        lambda y: (change_chart(chain, *y), jax.jacfwd(lambda y: change_chart(chain, *y))(y))
    )
    turned, slopes = changed((q, qd))
    assert np.linalg.norm(turned[0][:3]) < np.pi
    before, before_slopes, acceleration = outcome((q, qd))
    after, after_slopes, same_acceleration = outcome(turned)
    for i in range(3):
        np.testing.assert_allclose(after[i], before[i], atol=1e-12)
        for j in range(2):
            chained = sum(after_slopes[i][k] @ slopes[k][j] for k in range(2))
            expected = before_slopes[i][j]
            np.testing.assert_allclose(
                chained, expected, atol=1e-11 * np.max(np.abs(expected)) + 1e-11
            )
    np.testing.assert_allclose(same_acceleration, acceleration, atol=1e-11)


def test_rotation_vectors_of_several_joints_are_found():
    robot = GVS.from_segments(
        [
            GVSSegment(brick(), JointSpec.revolute("x")),
            GVSSegment(brick(), JointSpec.spherical()),
            GVSSegment(
                brick(young_modulus=1e6, poisson_ratio=0.4), basis=StrainBasisSpec("legendre")
            ),
            GVSSegment(brick(), JointSpec.planar("xy")),
            GVSSegment(brick(), JointSpec.free()),
        ],
        floating_base=BaseLink(mass=1.0, inertia=np.eye(3)),
    )
    chain = chain_of(robot)
    assert chain.rotation_vectors == (0, 7, 19)
    q = jnp.zeros(robot.num_dofs).at[7].set(4.0).at[16].set(4.0)
    turned, _ = jax.jit(lambda q: change_chart(chain, q, q))(q)
    np.testing.assert_allclose(turned[7], 4 - 2 * np.pi)
    assert turned[16] == 4.0


def test_state_of_a_joint_goes_in_and_out():
    robot = GVS.from_segments(
        [GVSSegment(brick(), JointSpec.revolute("y")), GVSSegment(brick(), JointSpec.spherical())],
        floating_base=True,
    )
    zero = np.zeros(robot.num_dofs)
    quaternion = np.array([0.3, -0.5, 0.1, -0.7])
    twist = np.array([1.0, 2, 3, 4, 5, 6])

    @jax.jit
    def in_and_out(q, qd, s):
        q, qd = with_joint_state(
            robot, q, qd, "base", quaternion=quaternion, position=[1, 2, 3], twist=twist
        )
        motion = robot.forward_kinematics(q, s), robot.jacobian_bodyframe(q, s) @ qd
        q, qd = with_joint_state(robot, q, qd, 1, quaternion=quaternion, twist=[1.0, 2, 3, 0, 0, 0])
        return *motion, joint_state(robot, q, qd, 1), joint_state(robot, q, qd, "base")

    pose, velocity, state, base = in_and_out(zero, zero, 0.0)
    np.testing.assert_allclose(pose[:3, :3], Rotation.from_quat(quaternion).as_matrix(), atol=1e-14)
    np.testing.assert_allclose(velocity, twist, atol=1e-13)
    unit = quaternion / np.linalg.norm(quaternion)
    np.testing.assert_allclose(np.abs(unit @ state.quaternion), 1, rtol=1e-14)
    np.testing.assert_allclose(state.twist, [1, 2, 3, 0, 0, 0], atol=1e-14)
    np.testing.assert_allclose(base.position, [1, 2, 3])
    np.testing.assert_allclose(base.twist, twist, rtol=1e-13)
    with pytest.raises(ValueError, match="segment 0 is revolute"):
        joint_state(robot, zero, zero, 0)
    with pytest.raises(ValueError, match="turns only"):
        with_joint_state(robot, zero, zero, 1, position=[1.0, 0, 0])
    with pytest.raises(ValueError, match="`quaternion` must not be zero"):
        with_joint_state(robot, zero, zero, 1, quaternion=np.zeros(4))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: JointSpec.revolute("w"), "`axis` must be 'x', 'y', 'z' or a vector"),
        (lambda: JointSpec.revolute([0.0, 0, 0]), "`axis` must be finite and not zero"),
        (lambda: JointSpec.prismatic([1.0, np.nan, 0]), "`axis` must be finite and not zero"),
        (lambda: JointSpec.prismatic([1.0, 0]), r"`axis` needs shape \(3,\)"),
        (lambda: JointSpec.helical("x", np.nan), "`pitch` must be finite"),
        (lambda: JointSpec.planar("zx"), "`plane` must be one of xy, yz, xz"),
        (lambda: JointSpec.revolute("x", stiffness=-1.0), "`stiffness` must be non-negative"),
        (lambda: JointSpec.spherical(stiffness=[1.0, 2.0]), "`stiffness` needs shape"),
        (lambda: JointSpec.free(damping=-np.eye(6)), "`damping` must be positive semi-definite"),
    ],
)
def test_bad_joints_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_fixed_joints_have_no_parameters():
    robot = GVS.from_segments([GVSSegment(brick(), JointSpec.revolute("x")), GVSSegment(brick())])
    with pytest.raises(ValueError, match="segment 1 is fixed"):
        robot.update_joint_params(1, stiffness=1.0)
    with pytest.raises(ValueError, match="has no field `spring`"):
        robot.update_joint_params(0, spring=1.0)


def test_joints_are_updated_as_they_are_specified():
    link = brick()
    robot = GVS.from_segments(
        [GVSSegment(link, JointSpec.spherical(stiffness=np.eye(3), damping=[0.1, 0.2, 0.3]))]
    )
    new = robot.update_joint_params(0, stiffness=2.0, damping=0.5)
    np.testing.assert_allclose(new.stiffness_matrix(), 2.0 * np.eye(3))
    np.testing.assert_allclose(new.damping_matrix(np.zeros(3)), 0.5 * np.eye(3))
    screw = GVS.from_segments([GVSSegment(link, JointSpec.helical("x", 0.01))])
    turned = screw.update_joint_params(0, axis="y")
    np.testing.assert_array_equal(turned.params.joint[0].axis, [0.0, 1.0, 0.0])
    with pytest.raises(ValueError, match="`axis` must be finite and not zero"):
        screw.update_joint_params(0, axis=[0.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="`pitch` must be finite"):
        screw.update_joint_params(0, pitch=np.nan)
    with pytest.raises(ValueError, match="`stiffness` must be non-negative"):
        screw.update_joint_params(0, stiffness=-1.0)
