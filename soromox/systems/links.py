"""What the robots of rigid links share: frames of links, and how their numbers become bodies."""

from types import ModuleType

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from soromox.chain import JointRouted, LinkFramed, ScrewBodies, configuration, kinematics
from soromox.chain.bodies import translation
from soromox.numerics.parameters import Parameters
from soromox.systems.joint_matrices import split_coupling
from soromox.systems.plan import BodyPlan, rigid_inertia
from soromox.systems.soft_robot import SoftRobot


def link_plan(
    group: ModuleType,
    params: Parameters,
    parents: tuple[int, ...],
    *,
    screw: Float[Array, "n d"],
    before: Float[Array, "n *pose"],
    center_of_mass: Float[Array, "n point"],
    inertia: Float[Array, "n ..."],
    tip: Float[Array, "n point"],
    armature: Float[Array, " n"],
) -> BodyPlan:
    """The bodies of a tree of rigid links on one-dof joints.

    `params` holds what links have alike in space and in the plane: `mass`, `gravity` and
    `joint_stiffness`, `joint_damping`, `joint_rest_configuration`.
    """
    links = tuple(range(len(parents)))
    node = jax.vmap(lambda p: translation(group, p))(center_of_mass)
    bodies = ScrewBodies(
        group,
        screw=screw[:, :, None],
        before=before,
        node=node[:, None],
        tip=tip,
        mass=jax.vmap(rigid_inertia)(params.mass, inertia)[:, None],
    )
    stiffness, coupling_stiffness = split_coupling(params.joint_stiffness)
    damping, coupling_damping = split_coupling(params.joint_damping)
    return BodyPlan(
        kinds=(bodies,),
        members=(links,),
        parents=parents,
        backbone=links,
        stiffness=(stiffness,),
        damping=(damping,),
        armature=armature,
        rest=params.joint_rest_configuration,
        gravity=params.gravity,
        coupling_stiffness=coupling_stiffness,
        coupling_damping=coupling_damping,
    )


class RigidLinks(SoftRobot, JointRouted, LinkFramed):
    """A robot whose internal bodies are rigid links behind one-dof joints, one after the other."""

    @property
    def num_internal_dofs(self) -> int:
        return self.params.mass.size

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
