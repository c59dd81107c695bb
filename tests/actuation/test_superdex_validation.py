"""What another engine was seen to refuse we refuse, and what it should have refused too."""

import json
from pathlib import Path

import numpy as np
import pytest

from soromox.actuation import (
    AffineJointTransmission,
    DirectEffort,
    DisplacementControl,
    ForceControl,
    LinearJoint,
    McKibbenMuscle,
    SpatialTendonTransmission,
    Waypoint,
)
from soromox.simulation import RESULTS, SystemState
from soromox.systems import GVS, GVSSegment, JointSpec, LinkSpec
from tests.hosts import pendulum, tapered_pcs


POINT = [0.0, 0.1, 0.0]
NAN, INF = np.nan, np.inf


def gear(joints=(0,), coefficients=(0.1,)):
    transmission = AffineJointTransmission.linear(3, joints, coefficients)
    return pendulum(actuators=()).add_transmission(transmission)[0]


def tendon(*elements):
    return pendulum(actuators=()).add_transmission(SpatialTendonTransmission(elements))[0]


def rigid_gvs(joint: JointSpec) -> GVS:
    link = LinkSpec.circular(length=0.2, radius=0.02, density=1000.0)
    return GVS.from_segments([GVSSegment(link, joint), GVSSegment(link, JointSpec.revolute("z"))])


def tendon_on(joint: JointSpec):
    return rigid_gvs(joint).add_transmission(SpatialTendonTransmission([LinearJoint(0, 1.0)]))


def gear_on(joint: JointSpec, dof: int):
    robot = rigid_gvs(joint)
    row = AffineJointTransmission.linear(robot.num_internal_dofs, (dof,), (1.0,))
    return robot.add_transmission(row)


def driven(law, **options):
    return gear().attach_actuator(0, law, **options)


def muscle(pressure=1e5, **changes):
    numbers = {
        "thread_length": 0.2,
        "number_of_turns": 2.0,
        "minimum_pressure": 0.0,
        "deflated_stiffness": 100.0,
        "deflated_equilibrium_length": 0.15,
    }
    return driven(McKibbenMuscle(**(numbers | changes)), command=pressure)


def state_of(robot, values):
    return robot.with_transmission_actuator_state_variables(0, values)


def step(dt):
    return pendulum().implicit_step(SystemState(0.0, np.zeros(6)), dt=dt)


one, two = Waypoint(0, POINT), Waypoint(1, POINT)
REFUSED = {
    "linear size mismatch": lambda: gear((0, 1), (0.1,)),
    "linear joint -1": lambda: gear((-1,)),
    "linear joint 99": lambda: gear((99,)),
    "linear spherical joint": lambda: gear_on(JointSpec.spherical(), 1),
    "linear hard joint": lambda: gear_on(JointSpec.fixed(), 1),  # it has no dof to name
    "linear nan coef": lambda: gear((0,), (NAN,)),
    "linear inf coef": lambda: gear((0,), (INF,)),
    "linear float index": lambda: gear((0.5,)),
    "spatial empty": lambda: tendon(),
    "spatial one waypoint": lambda: tendon(one),
    "spatial link 99": lambda: tendon(one, Waypoint(99, POINT)),
    "spatial nan pos": lambda: tendon(one, Waypoint(1, [NAN, 0, 0])),
    "spatial inf pos": lambda: tendon(one, Waypoint(1, [INF, 0, 0])),
    "spatial wrong len pos": lambda: tendon(one, Waypoint(1, [0.0, 0.0])),
    "spatial isolated waypoint": lambda: tendon(one, LinearJoint(1, 1.0), one, two),
    "spatial isolated trailing waypoint": lambda: tendon(one, two, LinearJoint(1, 1.0), two),
    "spatial LJ spherical": lambda: tendon_on(JointSpec.spherical()),
    "spatial LJ hard": lambda: tendon_on(JointSpec.fixed()),
    "spatial LJ bad index": lambda: tendon(LinearJoint(3, 1.0)),
    "spatial LJ nan coef": lambda: tendon(LinearJoint(0, NAN)),
    "no actuator: num state": lambda: gear().num_transmission_actuator_state_variables(0),
    "no actuator: get state": lambda: gear().transmission_actuator_state_variables(0),
    "no actuator: set state": lambda: state_of(gear(), [0.0]),
    "disp negative stiffness": lambda: DisplacementControl(-1.0),
    "disp nan stiffness": lambda: DisplacementControl(NAN),
    "disp negative damping": lambda: DisplacementControl(1.0, -1.0),
    "disp nan target": lambda: driven(DisplacementControl(1.0), command=NAN),
    "disp inf target": lambda: driven(DisplacementControl(1.0), command=INF),
    "disp set nan state": lambda: state_of(driven(DisplacementControl(1.0)), [NAN]),
    "disp set 2 state": lambda: state_of(driven(DisplacementControl(1.0)), [0.0, 1.0]),
    "disp set 0 state": lambda: state_of(driven(DisplacementControl(1.0)), []),
    "force negative": lambda: driven(ForceControl(), command=-1.0),
    "force nan": lambda: driven(ForceControl(), command=NAN),
    "force inf": lambda: driven(ForceControl(), command=INF),
    "force set -2 state": lambda: state_of(driven(ForceControl()), [-2.0]),
    "force set nan": lambda: state_of(driven(ForceControl()), [NAN]),
    "mckibben pressure=nan": lambda: muscle(NAN),
    "mckibben pressure=inf": lambda: muscle(INF),
    "mckibben set nan": lambda: state_of(muscle(), [NAN]),
    "mckibben minimum_pressure=nan": lambda: muscle(minimum_pressure=NAN),
    "mckibben minimum_pressure=inf": lambda: muscle(minimum_pressure=INF),
    "mckibben default params": lambda: McKibbenMuscle(),
    "bad transmission index -1": lambda: gear().transmission_displacement(-1, np.zeros(3)),
    "bad transmission index 999": lambda: gear().transmission_displacement(999, np.zeros(3)),
    "attach to bad index": lambda: gear().attach_actuator(1, DirectEffort()),
    "add to link (rigid) actor": lambda: tapered_pcs().add_transmission(
        SpatialTendonTransmission([one, two])
    ),
    "set_pose nan": None,  # a result code: below
    "set_pose wrong size": lambda: pendulum().implicit_step(SystemState(0.0, np.zeros(4)), dt=0.1),
    "step 0": lambda: step(0.0),
    "step -1e-3": lambda: step(-1e-3),
    "step nan": lambda: step(NAN),
    "step inf": lambda: step(INF),
} | {
    f"mckibben {theirs}={value}": lambda ours=ours, value=value: muscle(**{ours: value})
    for theirs, ours in {
        "thread_length": "thread_length",
        "number_of_wraps": "number_of_turns",
        "deflated_stiffness": "deflated_stiffness",
        "deflated_equilibrium_length": "deflated_equilibrium_length",
    }.items()
    for value in (0.0, -1.0, NAN, INF)
}
# where we differ, or where there is nothing of the kind here
NOT_OURS = {
    "spatial link -1 (world/root)",  # a waypoint on the base
    "None actor",
    "jac wrong size",
    "jac float32 out array",
    "jac list out",
    "max_iter -1",
    "abs_tol -1",
}
# what they accept and we do too (`test_accepted`), or what calls nothing
SENSIBLE = {
    "linear ok",
    "linear empty",
    "linear zero coef",
    "linear dup joint",
    "spatial ok",
    "spatial only linear joint",
    "spatial LJ unrelated neighbour (warn)",
    "spatial identical waypoints (zero length)",
    "spatial same link only",
    "disp ok",
    "disp ok again",
    "disp state",
    "disp n",
    "disp get",
    "disp zero stiffness",
    "disp set -0.1",
    "force ok",
    "force after failed attach: state",
    "force negative allowed",
    "force state",
    "force state after",
    "force state after nan",
    "force -0.0",
    "mckibben pressure=0.0",
    "mckibben pressure=-1.0",
    "mckibben minimum_pressure=0.0",
    "mckibben minimum_pressure=-1.0",
    "mckibben L>b (thread 0.05 < L0 0.1)",
    "mckibben ok",
    "mckibben state",
    "mckibben set -5e5",
    "remove transmission fn exists?",
}


def test_every_refusal_on_record_is_ours(shared_reference: Path):
    record = json.loads((shared_reference / "superdex" / "validation_results.json").read_text())
    theirs = {case["case"] for case in record if case["result"] != "ACCEPTED"}
    assert theirs - set(REFUSED) == NOT_OURS
    assert {case["case"] for case in record} - theirs - set(REFUSED) == SENSIBLE


@pytest.mark.parametrize("name", [name for name, call in REFUSED.items() if call is not None])
def test_refused(name):
    with pytest.raises((ValueError, TypeError, IndexError)):
        REFUSED[name]()


def test_a_pose_that_is_nan_ends_the_step_with_a_code():
    state = pendulum().implicit_step(SystemState(0.0, [NAN, 0, 0, 0, 0, 0]), dt=0.1)
    assert state.result == RESULTS.non_finite


def test_accepted():
    """What is unusual but makes sense: empty gears, zero arms, double joints, vacuum, -0.0."""
    q = np.array([0.1, -0.2, 0.3])
    np.testing.assert_allclose(gear((), ()).transmission_displacement(0, q), 0)
    np.testing.assert_allclose(gear((0, 0), (0.1, 0.2)).transmission_displacement(0, q), 0.03)
    np.testing.assert_allclose(tendon(one, one).transmission_displacement(0, q), 0)
    np.testing.assert_allclose(gear((0,), (0.0,)).transmission_displacement(0, q), 0)
    only_joint = tendon(LinearJoint(2, 0.1))
    np.testing.assert_allclose(only_joint.transmission_displacement(0, q), 0.03)
    apart = tendon(one, two, LinearJoint(0, 0.1))  # a joint that the path does not end at
    assert apart.transmission_displacement_jacobian(0, q).shape == (3,)
    assert gear_on(JointSpec.spherical(), 3)[1] == 1  # the hinge behind a ball
    assert gear_on(JointSpec.fixed(), 0)[1] == 1
    assert muscle(minimum_pressure=-1.0).num_actuators == 1
    assert muscle(thread_length=0.05).num_actuators == 1  # shorter than the muscle
    for pressure in (0.0, -1.0, -5e5):
        robot = muscle(pressure)
        np.testing.assert_array_equal(robot.transmission_actuator_state_variables(0), [pressure])
    assert driven(ForceControl(), command=-0.0).num_actuators == 1
    assert driven(ForceControl(True), command=-1.0).num_actuators == 1
    assert driven(DisplacementControl(0.0), command=-0.1).num_actuators == 1
