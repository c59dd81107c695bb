"""Inverse dynamics of a tree of bodies: one sweep out, one sweep back."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from soromox.chain.kinematics import (
    Chain,
    Configuration,
    follow,
    local_coordinates,
    pad_columns,
    sweep,
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
    wrenches, forces = body_loads(chain, config, qd, qdd)
    tips = tip_wrenches(chain, config, wrenches)
    return chain.topology.layout.to_global(forces + apply(config.S.mT, tips))


def body_loads(
    chain: Chain,
    config: Configuration,
    qd: Float[Array, " dofs"],
    qdd: Float[Array, " dofs"] | None = None,
) -> tuple[Float[Array, "levels lanes d"], Float[Array, "levels lanes n"]]:
    """Wrench at the base and generalized force that each body's own inertia takes.

    Without `qdd` the coordinates do not accelerate: gravity and velocity remain.
    """
    layout, group = chain.topology.layout, chain.group
    gravity = jnp.concatenate([jnp.zeros(group.DIM - group.POINT_DIM, qd.dtype), chain.gravity])
    root = -group.rotate_inverse(chain.base_pose, gravity)
    bias = [motion.c for motion in config.motions]
    if qdd is not None:
        own = zip(config.motions, local_coordinates(chain, qdd), strict=True)
        bias = [motion.c + einsum("bkdn,bn->bkd", motion.S, a) for motion, a in own]
    nu = layout.place([motion.nu[:, -1] for motion in config.motions], chain.members)
    drive = layout.place([change[:, -1] for change in bias], chain.members)
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
    twists, accelerations = sweep(step, start, levels)

    wrenches, forces = [], []
    for kind, members, motion, change in zip(
        chain.kinds, chain.members, config.motions, bias, strict=True
    ):
        wrench, force = jax.vmap(lambda *body: _body_forces(group, *body))(
            kind.mass,
            motion.pose[:, :-1],
            motion.S[:, :-1],
            motion.nu[:, :-1],
            change[:, :-1],
            layout.pick(twists, members),
            layout.pick(accelerations, members),
        )
        wrenches.append(wrench)
        forces.append(pad_columns(force, layout.width))
    return layout.place(wrenches, chain.members), layout.place(forces, chain.members)


def _body_forces(group, mass, pose, S, nu, drive, twist, acceleration):
    """Wrench in the base frame and generalized force of one body's own nodes."""
    X = jax.vmap(group.Ad_inverse)(pose)
    bracket, cobracket = jax.vmap(group.bracket), jax.vmap(group.cobracket)
    eta = X @ twist + nu
    acc = X @ acceleration + drive + bracket(eta, nu)
    F = apply(mass, acc) - cobracket(eta, apply(mass, eta))
    return einsum("kij,ki->j", X, F), einsum("kin,ki->n", S, F)
