"""Bodies with a strain along their backbone, and the queries that paths on them need."""

import abc

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from soromox.chain import kinematics
from soromox.chain.bodies import AbstractBodies
from soromox.chain.hosts import Host, MaterialFramed, StrainNodes
from soromox.chain.kinematics import Chain


class StrainedBodies(AbstractBodies):
    """A batch of bodies with a strain `xi = g^-1 dg/ds` along their length."""

    @abc.abstractmethod
    def strain_nodes(
        self, q: Float[Array, "bodies n"]
    ) -> tuple[
        Float[Array, "bodies nodes"], Float[Array, "bodies nodes"], Float[Array, "bodies nodes d"]
    ]:
        """Quadrature nodes [m] from the base of each body, ascending, weights [m], and strains."""


class Continuum(Host, MaterialFramed):
    """A host with one strained body per segment of its backbone (joints between them allowed)."""

    def material_points(
        self,
        q: Float[Array, " dofs"],
        s: Float[Array, " points"],
        offsets: Float[Array, "points 3"],
    ) -> Float[Array, "points 3"]:
        chain = self.mechanics().chain
        group = chain.group

        def one(s, offset):
            body, into = kinematics.locate(chain, s, chain.backbone[-1])
            pose, _ = kinematics.point(chain, q, body, into)
            return group.act(pose, offset[: group.POINT_DIM])

        points = jax.vmap(one)(s, offsets)
        return jnp.pad(points, ((0, 0), (0, 3 - group.POINT_DIM)))

    def strain_nodes(self, q: Float[Array, " dofs"]) -> StrainNodes:
        return strain_nodes(self.mechanics().chain, q)


def strain_nodes(chain: Chain, q: Float[Array, " dofs"]) -> StrainNodes:
    """Nodes and strains of all strained bodies of the chain, in the order of the backbone."""
    lengths = chain.lengths[jnp.array(chain.backbone)]
    starts = jnp.concatenate([jnp.zeros(1, lengths.dtype), jnp.cumsum(lengths)[:-1]])
    parts, order = [], []
    own = kinematics.local_coordinates(chain, q)
    for kind, members, q_kind in zip(chain.kinds, chain.members, own, strict=True):
        if not isinstance(kind, StrainedBodies):
            continue
        places = [chain.backbone.index(body) for body in members]
        s, weights, strain = kind.strain_nodes(q_kind)
        parts.append((starts[np.array(places)][:, None] + s, weights, spatial_strain(strain)))
        order.extend(places)
    # segments with fewer nodes get nodes of weight zero at their end
    most = max(s.shape[1] for s, _, _ in parts)
    padded = [
        tuple(
            jnp.pad(x, ((0, 0), (0, most - x.shape[1]), *[(0, 0)] * (x.ndim - 2)), mode=mode)
            for x, mode in zip(part, ("edge", "constant", "edge"), strict=True)
        )
        for part in parts
    ]
    rows = np.argsort(order)
    return StrainNodes(*(jnp.concatenate(x)[rows] for x in zip(*padded, strict=True)))


def spatial_strain(strain: Float[Array, "*batch d"]) -> Float[Array, "*batch 6"]:
    """`[0, 0, kappa, sigma_x, sigma_y, 0]` of a planar strain; a spatial one as it is."""
    if strain.shape[-1] == 6:
        return strain
    kappa, along, across = (strain[..., i] for i in range(3))
    zero = jnp.zeros_like(kappa)
    return jnp.stack([zero, zero, kappa, along, across, zero], axis=-1)
