"""Inverse dynamics of a tree of bodies: one sweep out, one sweep back."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from soromox.chain.kinematics import (
    Chain,
    Configuration,
    follow,
    pad_columns,
    tip_wrenches,
)
from soromox.numerics import apply, einsum


def chain_inverse_dynamics(
    chain: Chain,
    config: Configuration,
    qd: Float[Array, " dofs"],
    qdd: Float[Array, " dofs"],
) -> Float[Array, " dofs"]:
    """`M qdd + C qd + G` in O(bodies), for the configuration evaluated at `(q, qd)`.

    The base accelerates against gravity, which needs no other code. Armature, elasticity and
    damping are not included.
    """
    layout, group = chain.topology.layout, chain.group
    gravity = jnp.concatenate([jnp.zeros(group.DIM - group.POINT_DIM, qd.dtype), chain.gravity])
    root = -group.rotate_inverse(chain.base_pose, gravity)
    nu = layout.place([motion.nu[:, -1] for motion in config.motions], chain.members)
    c = layout.place([motion.c[:, -1] for motion in config.motions], chain.members)
    drive = apply(config.S, layout.to_local(qdd)) + c
    bracket = jax.vmap(group.bracket)

    def step(tips, level):
        X, nu, drive, lanes = level
        twist, acceleration = (follow(tip, lanes) for tip in tips)
        tip_twist = apply(X, twist) + nu
        tip_acceleration = apply(X, acceleration) + drive + bracket(tip_twist, nu)
        return (tip_twist, tip_acceleration), (twist, acceleration)

    lanes = (layout.num_lanes, group.DIM)
    start = (jnp.zeros(lanes, qd.dtype), jnp.broadcast_to(root, lanes))
    levels = (config.X, nu, drive, layout.parent_lanes)
    twists, accelerations = jax.lax.scan(step, start, levels)[1]

    qdd_local = layout.to_local(qdd)
    wrenches, forces = [], []
    for kind, members, motion in zip(chain.kinds, chain.members, config.motions, strict=True):
        wrench, force = jax.vmap(lambda *body: _body_forces(group, *body))(
            kind.mass,
            motion.pose[:, :-1],
            motion.S[:, :-1],
            motion.nu[:, :-1],
            motion.c[:, :-1],
            layout.pick(twists, members),
            layout.pick(accelerations, members),
            layout.pick(qdd_local, members)[:, : motion.S.shape[-1]],
        )
        wrenches.append(wrench)
        forces.append(pad_columns(force, layout.width))
    tips = tip_wrenches(chain, config, layout.place(wrenches, chain.members))
    local = layout.place(forces, chain.members) + apply(config.S.mT, tips)
    return layout.to_global(local)


def _body_forces(group, mass, pose, S, nu, c, twist, acceleration, qdd):
    """Wrench in the base frame and generalized force of one body's own nodes."""
    X = jax.vmap(group.Ad_inverse)(pose)
    bracket, cobracket = jax.vmap(group.bracket), jax.vmap(group.cobracket)
    eta = X @ twist + nu
    acc = X @ acceleration + S @ qdd + c + bracket(eta, nu)
    F = apply(mass, acc) - cobracket(eta, apply(mass, eta))
    return einsum("kij,ki->j", X, F), einsum("kin,ki->n", S, F)
