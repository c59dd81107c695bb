"""Frames of rigid links, shared by the hosts that have them."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from soromox.chain import Host, JointRouted, LinkFramed, configuration, kinematics
from soromox.chain.bodies import translation


class RigidLinks(Host, JointRouted, LinkFramed):
    """A host whose internal bodies are rigid links behind one-dof joints, one after the other."""

    @property
    def num_links(self) -> int:
        return self.num_internal_dofs

    def link_points(
        self,
        q: Float[Array, " dofs"],
        links: tuple[int, ...],
        points: Float[Array, "points 3"],
    ) -> Float[Array, "points 3"]:
        chain = self.mechanics().chain
        group = chain.group
        config = configuration(chain, q, jnp.zeros_like(q))
        tips = kinematics.tip_poses(chain, config)
        backbone = jnp.array(chain.backbone)
        back = jax.vmap(lambda tip: translation(group, -tip))(chain.kinds[-1].tip)
        frames = jax.vmap(group.compose)(tips[backbone], back)
        # the base frame: the fixed base, or the floating base link
        base = tips[:1] if chain.backbone[0] > 0 else chain.base_pose[None]
        frames = jnp.concatenate([frames, base])  # index -1 is the base
        local = points[:, : group.POINT_DIM]
        world = jax.vmap(group.act)(frames[jnp.array(links)], local)
        return jnp.pad(world, ((0, 0), (0, 3 - group.POINT_DIM)))
