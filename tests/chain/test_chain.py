"""The recursion itself: welds, trees, momentum, elimination against dense algebra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from soromox.chain import Chain, Mechanics, ScrewBodies, Topology, configuration, eliminate, solve
from soromox.chain.bodies import translation
from soromox.lie import se2, so3
from tests.hosts import floating_arm, floating_pendulum, hand


def rod(screws: list[bool], lengths: list[float]) -> Mechanics:
    """A planar chain of uniform rods; True is a revolute joint in front, False a weld."""
    kinds, members = [], []
    for turning in (True, False):
        bodies = [i for i, is_joint in enumerate(screws) if is_joint == turning]
        if not bodies:
            continue
        own = jnp.array([lengths[i] for i in bodies])
        along = jnp.stack([own, jnp.zeros_like(own)], axis=-1)
        screw = jnp.array([[1.0], [0.0], [0.0]])[:, : int(turning)]
        mass = jax.vmap(lambda x: jnp.diag(jnp.stack([x**3 / 12, x, x])))(own)
        kinds.append(
            ScrewBodies(
                se2,
                screw=jnp.broadcast_to(screw, (len(bodies), *screw.shape)),
                before=jnp.zeros((len(bodies), 3)),
                node=jax.vmap(lambda p: translation(se2, p))(along / 2)[:, None],
                tip=along,
                mass=mass[:, None],
            )
        )
        members.append(tuple(bodies))
    topology = Topology(tuple(range(-1, len(screws) - 1)), tuple(int(x) for x in screws))
    gravity = jnp.array([0.0, -9.81])
    base = jnp.array([0.3, 0.0, 0.0])
    chain = Chain(topology, tuple(members), tuple(kinds), base, gravity, tuple(range(len(screws))))
    blocks = jnp.zeros((len(screws), 1, 1, 1))
    zeros = jnp.zeros(topology.num_dofs)
    return Mechanics(chain, blocks, blocks, zeros, zeros)


def test_a_link_cut_in_two_and_welded_moves_the_same():
    whole = rod([True, True], [0.5, 0.8])
    cut = rod([True, False, True, False], [0.2, 0.3, 0.35, 0.45])
    q, qd, tau = jnp.array([[0.4, -1.1], [2.0, -3.0], [0.3, 0.1]])
    accelerate = jax.jit(lambda mechanics, *state: mechanics.forward_acceleration(*state))
    np.testing.assert_allclose(
        accelerate(cut, q, qd, tau), accelerate(whole, q, qd, tau), rtol=1e-13
    )
    np.testing.assert_allclose(cut.inertia_matrix(q), whole.inertia_matrix(q), rtol=1e-13)


def test_elimination_solves_the_dense_system():
    mechanics = hand().mechanics()
    chain, n = mechanics.chain, mechanics.num_dofs
    rng = np.random.default_rng(0)
    q, rhs = jnp.asarray(rng.normal(size=n)), jnp.asarray(rng.normal(size=(n, 2)))
    diagonal = jnp.asarray(rng.uniform(0.1, 1, n))

    @jax.jit
    def both(q, rhs):
        H = chain.topology.layout.to_local(diagonal)[..., None]
        factor = eliminate(chain, configuration(chain, q, jnp.zeros(n)), H)
        dense = mechanics.inertia_matrix(q) - jnp.diag(mechanics.armature) + jnp.diag(diagonal)
        return (
            solve(chain, factor, rhs),
            jnp.linalg.solve(dense, rhs),
            solve(chain, factor, rhs[:, 0]),
        )

    many, dense, one = both(q, rhs)
    np.testing.assert_allclose(many, dense, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(many[:, 0], one, rtol=1e-12)


@pytest.mark.parametrize("build", [floating_arm, floating_pendulum], ids=lambda f: f.__name__)
def test_a_free_chain_keeps_its_momentum(build):
    """Linear momentum and angular momentum about the origin have no rate without gravity."""
    robot = build()
    robot = robot.update_params(gravity=jnp.zeros_like(robot.params.gravity))
    rng = np.random.default_rng(5)
    q, qd = (jnp.asarray(rng.normal(size=robot.num_dofs)) for _ in range(2))

    def momentum(q, qd):
        conjugate = robot.inertia_matrix(q) @ qd
        if robot.is_planar:
            p, linear = q[1:3], conjugate[1:3]
            return jnp.stack([conjugate[0] + p[0] * linear[1] - p[1] * linear[0], *linear])
        # turning everything about the origin by w moves r by T(r)^-1 w and p by w x p
        turning = so3.tangent_inverse(q[:3]).T @ conjugate[:3]
        return jnp.concatenate([turning + jnp.cross(q[3:6], conjugate[3:6]), conjugate[3:6]])

    @jax.jit
    def rate(q, qd):
        # joint springs and motors are inside: they change nothing
        qdd = robot.forward_acceleration(q, qd, jnp.ones(robot.num_actuators))
        return jax.jvp(momentum, (q, qd), (qd, qdd))

    value, slope = rate(q, qd)
    assert jnp.max(jnp.abs(slope)) < 1e-10 * jnp.max(jnp.abs(value))


@pytest.mark.parametrize(
    ("parents", "message"),
    [((), "at least one body"), ((0,), "earlier body"), ((-1, 1), "earlier body"), ((-2,), "-1")],
)
def test_refused_topologies(parents, message):
    with pytest.raises(ValueError, match=message):
        Topology(parents, (1,) * len(parents))
