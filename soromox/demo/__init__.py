"""The program behind `python -m soromox`: a tendon finger, and its parameters from a recording."""

from soromox.demo.finger import (
    QUANTITIES as QUANTITIES,
    Unknowns as Unknowns,
    finger as finger,
    start_values as start_values,
    true_unknowns as true_unknowns,
    with_unknowns as with_unknowns,
)
from soromox.demo.fitting import (
    Fit as Fit,
    FitError as FitError,
    Motion as Motion,
    fit as fit,
    simulate as simulate,
    start_state as start_state,
)
from soromox.demo.recording import (
    Recording as Recording,
    RecordingError as RecordingError,
    excitation as excitation,
    read as read,
    write as write,
)
from soromox.demo.report import (
    table as table,
    write_data as write_data,
    write_figure as write_figure,
)
