"""Error against step size of all implicit schemes, on a finger of two links with a damped elastic tendon.

Each scheme moves the finger over the same 0.16 s with steps of 8 to 1 ms; the error is measured against `DIRK33`
with steps of 0.25 ms. The picture is `scheme_orders.png`; the printed numbers are the slopes between the two
smallest steps, to be compared with the order that each scheme promises.
"""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from soromox.actuation import ArticulatedTendonImpedance
from soromox.simulation import (
    BDF2,
    BDF3,
    DIRK22,
    DIRK23,
    DIRK33,
    BackwardEuler,
    ImplicitMidpoint,
    SymplecticDIRK22,
)
from soromox.systems import Pendulum, PendulumParams, SystemState, base_poses


jax.config.update("jax_enable_x64", True)

body = PendulumParams(
    mass=jnp.array([0.05, 0.03]),  # [kg]
    moment_inertia=jnp.array([1e-5, 4e-6]),  # [kg m^2]
    length=jnp.array([0.05, 0.04]),  # [m]
    center_of_mass_length=jnp.array([0.025, 0.02]),  # [m]
)
tendon = ArticulatedTendonImpedance.from_routing(
    [[0.010, 0.008]],  # moment arms [m]
    stiffness=80.0,  # [N/m]
    damping=1.5,  # [N s/m]
)
hanging = base_poses.hanging(planar=True)
finger = Pendulum(body, actuators=(), passive_elements=tendon, base_pose=hanging)
start = SystemState(t=0.0, y=jnp.array([0.8, -0.5, 0.0, 0.0]))  # [rad], [rad/s]


def end(scheme, num_steps):
    """Angles after 0.16 s. Stepping one by one compiles once for all step sizes."""
    state = start
    for _ in range(num_steps):
        state = finger.implicit_step(state, dt=0.16 / num_steps, scheme=scheme)
    assert state.result == 0
    return np.asarray(state.q)


counts = np.array([20, 40, 80, 160])
reference = end(DIRK33(), 640)
schemes = [BackwardEuler(), ImplicitMidpoint(), SymplecticDIRK22(), DIRK22(), BDF2()]
schemes += [DIRK23(), DIRK33(), BDF3()]
styles = {1: ":", 2: "--", 3: "-"}
steps = 160 / counts  # [ms]

figure, axes = plt.subplots(figsize=(6.5, 5), layout="constrained")
for i, scheme in enumerate(schemes):
    errors = [np.linalg.norm(end(scheme, count) - reference) for count in counts]
    slope = np.log2(errors[-2] / errors[-1])
    name = type(scheme).__name__
    print(f"{name:17s} order {scheme.order}, slope {slope:.2f}, error at 1 ms {errors[-1]:.1e} rad")
    axes.loglog(
        steps, errors, styles[scheme.order], marker="osd^v<>*"[i], color=f"C{i}", label=name
    )
axes.set(xlabel="step [ms]", ylabel="error of the angles after 0.16 s [rad]")
axes.set_xticks(steps, [f"{step:g}" for step in steps])
axes.minorticks_off()
axes.grid(alpha=0.3)
axes.legend(title="order 1 dotted, 2 dashed, 3 solid", fontsize="small", ncols=2)
figure.savefig("scheme_orders.png", dpi=150)
