"""Robots whose equation of motion is linear, and their exact matrices."""

from collections.abc import Sequence

import numpy as np

from soromox.actuation import Actuator
from soromox.systems import Pendulum, PendulumParams


INERTIA = 0.5


def oscillator(
    stiffness: float = 4.0,
    damping: float = 0.3,
    dtype: np.dtype = np.float64,
    actuators: Actuator | Sequence[Actuator] | None = None,
) -> Pendulum:
    """A balanced link without gravity: `0.5 qdd + damping qd + stiffness q = u`."""
    one = np.ones(1, dtype)
    params = PendulumParams(
        mass=one,
        moment_inertia=INERTIA * one,
        length=one,
        center_of_mass_length=0 * one,
        gravity=np.zeros(2, dtype),
        joint_stiffness=stiffness * one,
        joint_damping=damping * one,
    )
    return Pendulum(params, actuators=actuators)


def system_matrix(stiffness: float = 4.0, damping: float = 0.3) -> np.ndarray:
    """L of `dy/dt = L y`, `y = [q, qd]`."""
    return np.array([[0.0, 1.0], [-stiffness / INERTIA, -damping / INERTIA]])
