"""The public methods of every robot that move it in time or bring it to rest."""

from soromox.actuation import ActuatedHost


class Simulated(ActuatedHost):
    """Implicit steps, rollouts, equilibria."""
