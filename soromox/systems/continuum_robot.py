"""What the robots with bending links share: distributed loads, sections, updates of links."""

import abc
from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Float

from soromox.chain import Continuum
from soromox.numerics import einsum
from soromox.numerics.checks import ArrayLike, as_array
from soromox.systems import terms
from soromox.systems.link_updates import updated_links
from soromox.systems.sections import LinearProfile
from soromox.systems.soft_robot import SoftRobot


SelfT = TypeVar("SelfT")


class ContinuumRobot(SoftRobot, Continuum):
    """A robot whose parameters hold its links as `params.link`."""

    @property
    @abc.abstractmethod
    def num_gauss_points(self) -> int:
        """Points of the rule that integrates sections along a link (the most of all links)."""

    @property
    def segment_lengths(self) -> Float[Array, " segments"]:
        return self.params.link.length

    def inside(
        self, X: Float[np.ndarray, " fractions"], offsets: Float[np.ndarray, "segments fractions 3"]
    ) -> Bool[np.ndarray, "segments fractions"]:
        z = 0 * offsets[..., 2] if self.is_planar else offsets[..., 2]
        return self.params.link.cross_section.contains(X, offsets[..., 1], z)

    def update_link_params(self: SelfT, **changes: ArrayLike | LinearProfile) -> SelfT:
        """A robot with the named numbers of its links changed; one number stands for all links.

        - `length`, `density`, `reference_strain`, `shear_correction`;
        - `radius`; `height`, `width`; `semi_major`, `semi_minor`: those that the links have, one
          value for each link of that shape, or a `LinearProfile` on tapered robots;
        - `young_modulus`, `shear_modulus` or `poisson_ratio`, `material_damping_coefficient` of
          elastic links. Stiffness and damping follow. `young_modulus` alone keeps the shear modulus:
          give `poisson_ratio` with it to keep that ratio;
        - `stiffness`, `damping` (N, d, d). Elastic links become explicit ones, which keep the
          other matrix as it is now. This changes the structure, so it raises under `jit`.

        Raises `ValueError` for an unknown name or a wrong shape, naming it.
        """
        link = updated_links(self.params.link, changes, self.num_gauss_points)
        return eqx.tree_at(lambda robot: robot.params.link, self, link)

    def distributed_force(
        self, q: ArrayLike, density: ArrayLike | Callable[[Array], ArrayLike]
    ) -> Float[Array, " n"]:
        """Generalized force of a load along the whole backbone: `integral J(s)^T w(s) ds`.

        `density` is a wrench per metre of reference length, `[moment; force]` (6,) or (3,) in world
        axes, or a function of arc length `s` [m] that returns one. Pass the result as `tau_ext`.
        """
        if not callable(density):
            density = as_array(density, "density", self._state_dtype(q), (self.group.DIM,))
        return self._run(_Distributed(density), q=q)


class _Distributed(eqx.Module):
    """`distributed_force` of one density, as a function that can be compiled."""

    density: Array | Callable[[Array], ArrayLike]

    def __call__(self, robot: ContinuumRobot, q: Float[Array, " dofs"]) -> Float[Array, " dofs"]:
        nodes = robot.strain_nodes(q)

        def pull(s: Array) -> Array:
            wrench = self.density(s) if callable(self.density) else self.density
            wrench = as_array(wrench, "density(s)", q.dtype, (robot.group.DIM,))
            return terms.jacobian_at(robot, q, s, None).T @ wrench

        return einsum("sk,skn->n", nodes.weights, jax.vmap(jax.vmap(pull))(nodes.s))
