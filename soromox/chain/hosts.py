"""What the layers above may ask of a robot: small contracts, one per need.

Transmissions and the time stepper see a robot only through these classes.
"""

import abc
from types import ModuleType
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Bool, Float

from soromox.chain.mechanics import Mechanics


class Host(eqx.Module):
    """Generalized coordinates and mechanics. The base coordinates of a floating robot come first."""

    @property
    @abc.abstractmethod
    def num_dofs(self) -> int:
        """Length of `q`."""

    @property
    @abc.abstractmethod
    def num_internal_dofs(self) -> int:
        """Coordinates without those of a floating base; they are the last ones of `q`."""

    @property
    @abc.abstractmethod
    def is_planar(self) -> bool: ...

    @property
    @abc.abstractmethod
    def dtype(self) -> np.dtype:
        """The dtype of the robot's numbers."""

    @abc.abstractmethod
    def mechanics(self) -> Mechanics:
        """Everything derived from the parameters, by one pure function."""

    @property
    @abc.abstractmethod
    def group(self) -> ModuleType:
        """`soromox.lie.se3` or `soromox.lie.se2`."""


class JointRouted(eqx.Module):
    """One-dof joints that a cable can pass one after the other: internal dof i is joint i."""

    @property
    @abc.abstractmethod
    def joint_parents(self) -> tuple[int, ...]:
        """The joint before each joint, -1 at the base."""

    @property
    @abc.abstractmethod
    def joint_screws(self) -> Float[Array, "joints d"]:
        """The screw `[omega; v]` of each joint, in its own frame."""


class LinkFramed(eqx.Module):
    """Rigid links with frames at their joints."""

    @property
    @abc.abstractmethod
    def num_links(self) -> int: ...

    @abc.abstractmethod
    def link_points(
        self,
        q: Float[Array, " dofs"],
        links: tuple[int, ...],
        points: Float[Array, "points 3"],
    ) -> Float[Array, "points 3"]:
        """World positions [m] of points given in the frames of `links` (-1: the base frame).

        Planar robots live in the plane z = 0.
        """


class StrainNodes(NamedTuple):
    """Quadrature nodes along a backbone and the spatial strain `xi = g^-1 dg/ds` there."""

    s: Float[Array, "segments nodes"]  # [m] from the robot's base
    weights: Float[Array, "segments nodes"]  # [m]: integrals over s are weighted sums
    strain: Float[Array, "segments nodes 6"]


class JointCrossings(NamedTuple):
    """Motion of the discrete joints, for paths that cross them."""

    segments: tuple[int, ...]  # the segment behind each joint
    s: Float[Array, " joints"]  # [m] arc length of the joint
    rotation: Float[Array, "joints 3"]  # B_rot q, in the joint frame
    translation: Float[Array, "joints 3"]  # B_trans q [m]


class MaterialFramed(eqx.Module):
    """A backbone with a material frame at every arc length."""

    @abc.abstractmethod
    def material_points(
        self,
        q: Float[Array, " dofs"],
        s: Float[Array, " points"],
        offsets: Float[Array, "points 3"],
    ) -> Float[Array, "points 3"]:
        """World positions [m] of points at arc lengths `s`, offset in the material frame."""

    @abc.abstractmethod
    def strain_nodes(self, q: Float[Array, " dofs"]) -> StrainNodes:
        """Quadrature nodes, weights and strains of all segments.

        A planar strain `[kappa, sigma_x, sigma_y]` is given as `[0, 0, kappa, sigma_x, sigma_y, 0]`.
        """

    @property
    @abc.abstractmethod
    def segment_lengths(self) -> Float[Array, " segments"]:
        """Reference length of each segment [m]."""

    @abc.abstractmethod
    def inside(
        self, X: Float[np.ndarray, " fractions"], offsets: Float[np.ndarray, "segments fractions 3"]
    ) -> Bool[np.ndarray, "segments fractions"]:
        """Whether points at fractions `X` of each segment's length, offset [m] from the backbone,
        lie in its section. For robots with concrete numbers; compiles nothing.
        """


class JointCrossed(eqx.Module):
    """A backbone with discrete joints between its segments."""

    @abc.abstractmethod
    def joint_crossings(self, q: Float[Array, " dofs"]) -> JointCrossings:
        """Motion of every joint that moves, in its own frame: `B_rot q` and `B_trans q`."""
