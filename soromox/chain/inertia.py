"""Inertia and Coriolis matrices, kinetic and gravitational energy."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Scalar

from soromox.chain.bodies import Motion
from soromox.chain.kinematics import (
    Chain,
    Configuration,
    base_poses,
    base_twists,
    configuration,
    gather,
    pad_columns,
    propagate,
    sweep,
    tip_wrenches,
)
from soromox.numerics import apply, einsum


def body_inertias(chain: Chain, config: Configuration) -> Float[Array, "levels lanes both both"]:
    """Inertia of each body alone over (base twist, own coordinates): blocks bb, bq, qq."""
    layout = chain.topology.layout
    blocks = []
    for kind, motion in zip(chain.kinds, config.motions, strict=True):
        J = node_jacobians(chain, motion)
        blocks.append(einsum("bkdi,bkde,bkej->bij", J, kind.mass, J))
    return layout.place(blocks, chain.members)


def node_jacobians(chain: Chain, motion: Motion) -> Float[Array, "bodies nodes d both"]:
    """`J_k = [X_k  S_k]` of the nodes of one kind, columns padded to the widest body."""
    X = jax.vmap(jax.vmap(chain.group.Ad_inverse))(motion.pose[:, :-1])
    return jnp.concatenate([X, pad_columns(motion.S[:, :-1], chain.topology.layout.width)], axis=-1)


def inertia_matrix(chain: Chain, q: Float[Array, " dofs"]) -> Float[Array, "dofs dofs"]:
    """`M(q)` without armature, by composite inertias."""
    layout = chain.topology.layout
    d = chain.group.DIM
    config = configuration(chain, q, jnp.zeros_like(q))
    own = body_inertias(chain, config)
    J = jnp.concatenate([config.X, config.S], axis=-1)

    def composite(inertia, level):
        J, own, lanes = level
        A = own + J.mT @ inertia @ J
        return gather(A[..., :d, :d], lanes), A

    end = jnp.zeros((layout.num_lanes, d, d), own.dtype)
    levels = (J, own, layout.parent_lanes)
    A = sweep(composite, end, levels, reverse=True)

    # unit accelerations of each body push its base; the push travels to the base of the robot
    identity = layout.to_local(jnp.eye(chain.topology.num_dofs, dtype=q.dtype))
    tips = tip_wrenches(chain, config, A[..., :d, d:] @ identity)
    lower = layout.to_global(config.S.mT @ tips)  # rows of ancestors, columns of descendants
    own_blocks = layout.to_global(A[..., d:, d:] @ identity)
    return lower + lower.T + own_blocks


def coriolis_matrix(
    chain: Chain, q: Float[Array, " dofs"], qd: Float[Array, " dofs"]
) -> Float[Array, "dofs dofs"]:
    """`C(q, qd)` with `dM/dt - 2C` skew-symmetric.

    `C = sum_k J_k^T (Mass dJ_k/dt + N J_k)`,
    `N = 1/2 (Mass ad(eta) - ad(eta)^T Mass - momentum_matrix(Mass eta))`.
    """
    layout, group = chain.topology.layout, chain.group
    num_dofs = chain.topology.num_dofs
    config, rate = jax.jvp(lambda q: configuration(chain, q, qd), (q,), (qd,))
    identity = jnp.eye(num_dofs, dtype=q.dtype)
    local = layout.to_local(identity)
    jacobians = base_twists(chain, config, identity)

    # d/dt of the sweep `J_tip = X J_base + S`
    jacobian_rates = propagate(chain, config.X, rate.X @ jacobians + rate.S @ local)

    wrenches, own_rows = [], []
    for kind, members, motion, motion_rate in zip(
        chain.kinds, chain.members, config.motions, rate.motions, strict=True
    ):
        nodes, node_rates = jax.jvp(
            lambda pose, S, motion=motion: node_jacobians(chain, motion._replace(pose=pose, S=S)),
            (motion.pose, motion.S),
            (motion_rate.pose, motion_rate.S),
        )
        base = jnp.concatenate(
            [layout.pick(jacobians, members), layout.pick(local, members)], axis=1
        )
        base_rate = jnp.concatenate(
            [
                layout.pick(jacobian_rates, members),
                jnp.zeros_like(layout.pick(local, members)),
            ],
            axis=1,
        )
        J = einsum("bkdi,bij->bkdj", nodes, base)
        dJ = einsum("bkdi,bij->bkdj", node_rates, base) + einsum("bkdi,bij->bkdj", nodes, base_rate)
        eta = J @ qd
        ad = jax.vmap(jax.vmap(group.ad))(eta)
        momentum = jax.vmap(jax.vmap(group.momentum_matrix))(apply(kind.mass, eta))
        N = 0.5 * (kind.mass @ ad - ad.mT @ kind.mass - momentum)
        force = kind.mass @ dJ + N @ J
        both = einsum("bkdi,bkdj->bij", nodes, force)
        wrenches.append(both[:, : group.DIM])
        own_rows.append(both[:, group.DIM :])
    tips = tip_wrenches(chain, config, layout.place(wrenches, chain.members))
    rows = layout.place(own_rows, chain.members) + config.S.mT @ tips
    return layout.to_global(rows)


def total_mass(chain: Chain) -> Scalar:
    """Mass of all bodies [kg]."""
    return sum(jnp.sum(kind.mass[..., -1, -1]) for kind in chain.kinds)


def kinetic_energy(chain: Chain, q: Float[Array, " dofs"], qd: Float[Array, " dofs"]) -> Scalar:
    """Kinetic energy of the bodies [J], without armature."""
    config = configuration(chain, q, qd)
    twists = base_twists(chain, config, qd)
    energy = jnp.zeros((), q.dtype)
    for kind, members, motion in zip(chain.kinds, chain.members, config.motions, strict=True):
        base = chain.topology.layout.pick(twists, members)
        X = jax.vmap(jax.vmap(chain.group.Ad_inverse))(motion.pose[:, :-1])
        eta = einsum("bkde,be->bkd", X, base) + motion.nu[:, :-1]
        energy += 0.5 * einsum("bkd,bkde,bke->", eta, kind.mass, eta)
    return energy


def gravitational_energy(chain: Chain, q: Float[Array, " dofs"]) -> Scalar:
    """`-sum m g . p` over all nodes [J]: zero for a mass at the origin of the world."""
    config = configuration(chain, q, jnp.zeros_like(q))
    bases = base_poses(chain, config)
    energy = jnp.zeros((), q.dtype)
    for kind, members, motion in zip(chain.kinds, chain.members, config.motions, strict=True):
        base = chain.topology.layout.pick(bases, members)
        act = jax.vmap(jax.vmap(chain.group.act, (None, 0)))
        positions = act(base, jax.vmap(jax.vmap(chain.group.translation))(motion.pose[:, :-1]))
        energy -= einsum("bk,bkp,p->", kind.mass[..., -1, -1], positions, chain.gravity)
    return energy
