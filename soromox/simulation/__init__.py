"""Implicit steps, rollouts, equilibria and linear models of robots."""

from soromox.simulation.adaptive import Adaptive as Adaptive
from soromox.simulation.equilibrium import (
    Equilibrium as Equilibrium,
    static_equilibrium as static_equilibrium,
)
from soromox.simulation.exported import export as export
from soromox.simulation.inputs import Signal as Signal
from soromox.simulation.linear import (
    Modes as Modes,
    linearize as linearize,
    linearize_step as linearize_step,
    natural_modes as natural_modes,
)
from soromox.simulation.rollout import (
    Controller as Controller,
    implicit_step as implicit_step,
    rollout_to as rollout_to,
)
from soromox.simulation.schemes import (
    BDF2 as BDF2,
    BDF3 as BDF3,
    DIRK22 as DIRK22,
    DIRK23 as DIRK23,
    DIRK33 as DIRK33,
    AbstractScheme as AbstractScheme,
    BackwardEuler as BackwardEuler,
    ImplicitMidpoint as ImplicitMidpoint,
    SymplecticDIRK22 as SymplecticDIRK22,
)
from soromox.simulation.state import RESULTS as RESULTS, SystemState as SystemState
