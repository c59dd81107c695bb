"""What a body is: where its points lie, how they move, and what mass they carry.

A *kind* is a batch of bodies that move by the same formula. It answers for its nodes (the points
that carry inertia, at centres of mass) and its tip (where children hang), all relative to the
body's base frame. The recursion of this package sees only these answers. Kinds are derived from
the parameters of a robot once per call; they hold what can be computed without `q`.
"""

import abc
from types import ModuleType
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from equinox import AbstractVar
from jaxtyping import Array, Float, Int

from soromox.lie import so3
from soromox.numerics import einsum, safe


class Motion(NamedTuple):
    """Points of a batch of bodies: the nodes in order, then the tip.

    With `X = Ad(pose^-1)` a point's body twist is `X eta_base + nu`, `nu = S qd`, and
    `c = (dS/dt) qd`.
    """

    pose: Float[Array, "bodies points *pose"]
    S: Float[Array, "bodies points d n"]
    nu: Float[Array, "bodies points d"]
    c: Float[Array, "bodies points d"]


class AbstractBodies(eqx.Module):
    """A batch of bodies of one kind."""

    group: AbstractVar[ModuleType]
    mass: AbstractVar[Float[Array, "bodies nodes d d"]]  # weighted spatial inertia at each node
    length: AbstractVar[Float[Array, " bodies"]]  # [m] arc length, 0 for a bare joint

    @abc.abstractmethod
    def motion(self, q: Float[Array, "bodies n"], qd: Float[Array, "bodies n"]) -> Motion:
        """Poses and motion of all nodes and the tip relative to the base frame."""

    @abc.abstractmethod
    def point(
        self, body: int | Int[Array, ""], s: Float[Array, ""], q: Float[Array, " n"]
    ) -> tuple[Float[Array, "*pose"], Float[Array, "d n"]]:
        """Pose and Jacobian `S` of the point of one body at arc length `s` [m] from its base."""


class ScrewBodies(AbstractBodies):
    """Rigid links behind joints `exp(B q)`: revolute, prismatic, helical, cylindrical, or a weld.

    The columns of `B` must commute (one screw, or rotation and translation along one axis), so
    that the body Jacobian of the joint is `B` itself and its bias vanishes. Arc length runs on the
    straight line from the joint to the tip.
    """

    group: ModuleType = eqx.field(static=True)
    screw: Float[Array, "bodies d n"]  # in the joint frame
    before: Float[Array, "bodies *pose"]  # joint frame in the body's base frame
    tip: Float[Array, "bodies point"]  # [m] tip in the link frame
    mass: Float[Array, "bodies nodes d d"]
    length: Float[Array, " bodies"]
    ends: Float[Array, "bodies points *pose"]  # nodes and tip in the link frame
    S: Float[Array, "bodies points d n"]

    def __init__(
        self,
        group: ModuleType,
        screw: Float[Array, "bodies d n"],
        before: Float[Array, "bodies *pose"],
        node: Float[Array, "bodies nodes *pose"],
        tip: Float[Array, "bodies point"],
        mass: Float[Array, "bodies nodes d d"],
    ):
        """`node` and `tip` are given in the link frame, which moves with the link."""
        self.group, self.screw, self.before, self.tip, self.mass = group, screw, before, tip, mass
        self.length = jax.vmap(safe.norm)(tip)
        tips = jax.vmap(lambda p: translation(group, p))(tip)
        self.ends = jnp.concatenate([node, tips[:, None]], axis=1)
        X = jax.vmap(jax.vmap(group.Ad_inverse))(self.ends)
        self.S = X @ screw[:, None]

    def motion(self, q: Float[Array, "bodies n"], qd: Float[Array, "bodies n"]) -> Motion:
        group = self.group

        def one(screw, before, ends, q):
            link = group.compose(before, group.exp(screw @ q))
            return jax.vmap(group.compose, (None, 0))(link, ends)

        pose = jax.vmap(one)(self.screw, self.before, self.ends, q)
        nu = einsum("bpdn,bn->bpd", self.S, qd)
        return Motion(pose, self.S, nu, jnp.zeros_like(nu))

    def point(self, body, s, q):
        group = self.group
        length = self.length[body]
        fraction = jnp.where(length > 0, s / jnp.where(length > 0, length, 1), 0)
        end = translation(group, fraction * self.tip[body])
        link = group.compose(self.before[body], group.exp(self.screw[body] @ q))
        return group.compose(link, end), group.Ad_inverse(end) @ self.screw[body]


class FreeBodies(AbstractBodies):
    """Rigid links on free joints, `g = translation(p) exp(hat r)`.

    Coordinates are `[r; p]` in space (rotation vector, position in the base frame) and
    `[theta; p]` in the plane. Nodes are given in the link frame, which is also the tip.
    """

    group: ModuleType = eqx.field(static=True)
    mass: Float[Array, "bodies nodes d d"]
    ends: Float[Array, "bodies points *pose"]
    X: Float[Array, "bodies points d d"]

    def __init__(
        self,
        group: ModuleType,
        node: Float[Array, "bodies nodes *pose"],
        mass: Float[Array, "bodies nodes d d"],
    ):
        self.group, self.mass = group, mass
        tip = jnp.broadcast_to(group.identity(mass.dtype), (node.shape[0], 1, *node.shape[2:]))
        self.ends = jnp.concatenate([node, tip], axis=1)
        self.X = jax.vmap(jax.vmap(group.Ad_inverse))(self.ends)

    @property
    def length(self) -> Float[Array, " bodies"]:
        return jnp.zeros(self.mass.shape[0], self.mass.dtype)

    def motion(self, q: Float[Array, "bodies n"], qd: Float[Array, "bodies n"]) -> Motion:
        def one(ends, X, q, qd):
            pose, S, c = free_joint(self.group, q, qd)
            poses = jax.vmap(self.group.compose, (None, 0))(pose, ends)
            return Motion(poses, X @ S, X @ (S @ qd), X @ c)

        return jax.vmap(one)(self.ends, self.X, q, qd)

    def point(self, body, s, q):
        pose, S, _ = free_joint(self.group, q, jnp.zeros_like(q))
        return pose, S


def free_joint(group: ModuleType, q: Array, qd: Array) -> tuple[Array, Array, Array]:
    """Pose, body Jacobian `S` and bias `(dS/dt) qd`; the body twist is `[T(-r) rd; R^T pd]`."""
    k = group.DIM - group.POINT_DIM  # rotational coordinates
    turn = group.exp(jnp.concatenate([q[:k], jnp.zeros_like(q[k:])]))
    pose = group.compose(translation(group, q[k:]), turn)
    if k == 1:  # rotations of the plane commute
        T, c_omega = jnp.ones((1, 1), q.dtype), jnp.zeros(1, q.dtype)
    else:
        T = so3.tangent(-q[:k])
        c_omega = so3.tangent_derivative(-q[:k], -qd[:k]) @ qd[:k]
    R_T = group.rotation(turn).T
    S = jax.scipy.linalg.block_diag(T, R_T)
    # the velocity is constant in the base frame: its body components turn against omega
    twist = S @ qd
    turning = group.bracket(jnp.concatenate([twist[:k], jnp.zeros_like(twist[k:])]), twist)
    return pose, S, jnp.concatenate([c_omega, -turning[k:]])


def translation(group: ModuleType, point: Float[Array, " point"]) -> Float[Array, "*pose"]:
    """The pose that only moves by `point` [m]."""
    return group.from_rotation_translation(jnp.eye(group.POINT_DIM, dtype=point.dtype), point)
