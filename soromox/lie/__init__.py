"""Rotations and rigid motions, accurate at every angle in value and derivatives."""

from soromox.lie import se2 as se2, se3 as se3, series as series, so3 as so3
from soromox.lie.group import Group as Group
