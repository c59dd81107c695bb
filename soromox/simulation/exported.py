"""A compiled step that runs without this library."""

from collections.abc import Sequence

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from soromox.actuation import ActuatedHost, loads
from soromox.numerics.checks import ArrayLike, whole_number
from soromox.simulation import implicit
from soromox.simulation.inputs import checked_scheme, checked_step_length, in_dtype
from soromox.simulation.schemes import AbstractScheme
from soromox.simulation.state import RESULTS


_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


def export(
    robot: ActuatedHost,
    dt: ArrayLike,
    num_steps: int = 1,
    scheme: AbstractScheme | None = None,
    batch_size: int | None = None,
    platforms: Sequence[str] = ("cpu",),
) -> jax.export.Exported:
    """`num_steps` implicit steps of `dt` as a program that needs nothing but JAX.

    The program is a function `(y, actuator_state, u) -> (y, actuator_state, result, residual)`:
    `y = [q; qd]` (2n,), the states of stateful laws (k,), possibly none, and the control (m,),
    held over the steps. `result` is the code of `RESULTS`; after a step that fails, state and code
    stay. The numbers of the robot are constants of the program; its dtype is the robot's.

    ```python
    path.write_bytes(robot.export(dt=0.01).serialize())
    # elsewhere, without soromox:
    step = jax.export.deserialize(path.read_bytes())
    y, actuator_state, result, residual = step.call(y, actuator_state, u)
    ```

    **Arguments:**

    - `dt` [s]: length of a step.
    - `scheme`: a scheme of one step; by default `BackwardEuler()`.
    - `batch_size`: all inputs and outputs get a leading axis of this length.
    - `platforms`: what it shall run on: `"cpu"`, `"cuda"`, ...

    `.serialize(vjp_order=1)` keeps its derivative too. Programs in float64 run where
    `jax_enable_x64` is set.

    Raises `ValueError` for a multi-step scheme, an unknown platform, and for numbers of steps that
    are not positive.
    """
    if not isinstance(platforms, Sequence):
        raise TypeError(f"`platforms` needs a list of names, got {platforms!r}.")
    platforms = (platforms,) if isinstance(platforms, str) else tuple(platforms)
    unknown = [name for name in platforms if name not in _PLATFORMS]
    if unknown or not platforms:
        raise ValueError(f"`platforms` must be some of {', '.join(_PLATFORMS)}, got {platforms!r}.")
    scheme = checked_scheme(scheme)
    if scheme.multistep is not None:
        raise ValueError(
            f"`scheme` must be of one step: {type(scheme).__name__} needs the points before. Take "
            "for instance `DIRK22()`."
        )
    for name, count in (("num_steps", num_steps), ("batch_size", batch_size)):
        if count is not None:
            whole_number(count, f"`{name}` must be a positive integer")
    dtype = robot.dtype
    dt = checked_step_length(dt, dtype)
    robot = in_dtype(robot, dtype)
    states = loads.stored_states(robot, dtype)

    def program(y: Array, states: Array, u: Array) -> tuple[Array, Array, Array, Array]:
        mechanics, n = robot.mechanics(), robot.num_dofs

        def advance(point: implicit.Point, _: None) -> tuple[implicit.Point, None]:
            new = implicit.step(robot, mechanics, scheme, point, dt, lambda node: (u, None))
            worst = jnp.maximum(point.residual, new.residual)
            frozen = point.result != RESULTS.successful
            return implicit.keep_where(frozen, point, new._replace(residual=worst)), None

        start = implicit.start(scheme, y[:n], y[n:], states)
        point = jax.lax.scan(advance, start, None, int(num_steps))[0]
        y = jnp.concatenate([point.q, point.qd])
        return y, point.states, point.result, point.residual

    shapes = ((2 * robot.num_dofs,), states.shape, (loads.num_channels(robot),))
    leading = () if batch_size is None else (int(batch_size),)
    inputs = [jax.ShapeDtypeStruct(leading + shape, np.dtype(dtype)) for shape in shapes]
    whole = program if batch_size is None else jax.vmap(program)
    return jax.export.export(jax.jit(whole), platforms=platforms)(*inputs)
