"""Long scans whose gradients need memory for about the square root of the number of steps."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from soromox.simulation.root import SOLUTION


# Up to here all states are kept: chunks would cost a second program of the step.
MAX_STEPS_KEPT = 256

Advance = Callable[[PyTree, PyTree], PyTree]
Sample = Callable[[Array, PyTree], tuple[PyTree, PyTree]]


def checkpointed_scan(
    advance: Advance,
    sample: Sample,
    carry: PyTree,
    rows: PyTree,
    num_steps: int,
    save_every: int,
) -> PyTree:
    """Samples of `num_steps` steps, one after every `save_every`.

    `advance(carry, (k, row))` takes step k, `row` being entry k of each array in `rows`;
    `sample(k, carry)` returns the carry and what is saved after k steps. Backwards, chunks of steps
    are computed again, unless there are few. Solving a step costs most and its solution is small,
    so solutions are kept within a chunk; where samples are as many as steps, the solutions of all
    chunks are kept too (half the size of the samples) and nothing is solved twice. Nested scans
    with `jax.checkpoint`, so that forward mode works too.
    """
    num_saves = num_steps // save_every
    target = math.sqrt(num_steps) if num_steps > MAX_STEPS_KEPT else num_steps
    policy = jax.checkpoint_policies.save_only_these_names(SOLUTION)
    step = jax.checkpoint(advance, policy=policy, prevent_cse=False)

    if save_every > target:  # chunks within the time between two samples
        num_chunks, size = split(save_every, target)
        slots = np.arange(num_chunks * size)
        after = np.arange(num_saves)[:, None] * save_every
        k = (after + np.minimum(slots, save_every - 1)).reshape(num_saves, num_chunks, size)
        valid = np.broadcast_to((slots < save_every).reshape(num_chunks, size), k.shape)
        is_padded = slots.size > save_every
    else:  # chunks of several samples
        num_chunks, size = split(num_saves, target / save_every)
        k = np.arange(num_chunks * size * save_every).reshape(num_chunks, size, save_every)
        k, valid, is_padded = np.minimum(k, num_steps - 1), None, False

    def run(carry: PyTree, slots: PyTree) -> PyTree:
        def body(carry: PyTree, slot: PyTree) -> tuple[PyTree, None]:
            k, row, valid = slot
            new = step(carry, (k, row))
            if is_padded:
                new = jax.tree.map(lambda a, b: jnp.where(valid, a, b), new, carry)
            return new, None

        return jax.lax.scan(body, carry, slots)[0]

    def run_and_sample(carry: PyTree, slots: PyTree) -> tuple[PyTree, PyTree]:
        carry = run(carry, slots)
        return sample(slots[0][-1] + 1, carry)

    taken = jax.tree.map(lambda array: _take(array, k), rows)
    slots = (jnp.asarray(k, jnp.int32), taken, None if valid is None else jnp.asarray(valid))
    if save_every > target:
        chunk = jax.checkpoint(run, prevent_cse=False) if num_chunks > 1 else run

        def between_samples(carry: PyTree, slots: PyTree) -> tuple[PyTree, PyTree]:
            carry = jax.lax.scan(lambda c, s: (chunk(c, s), None), carry, slots)[0]
            return sample(slots[0][-1, -1] + 1, carry)

        return jax.lax.scan(between_samples, carry, slots)[1]

    def several_samples(carry: PyTree, slots: PyTree) -> tuple[PyTree, PyTree]:
        return jax.lax.scan(run_and_sample, carry, slots)

    if num_chunks > 1:
        several_samples = jax.checkpoint(
            several_samples, policy=policy if save_every <= 2 else None, prevent_cse=False
        )
    saved = jax.lax.scan(several_samples, carry, slots)[1]
    # no `-1`, which cannot be inferred for the empty controls of a robot without actuators
    flat = lambda x: x.reshape((x.shape[0] * x.shape[1], *x.shape[2:]))
    return jax.tree.map(lambda x: flat(x)[:num_saves], saved)


def split(length: int, target: float) -> tuple[int, int]:
    """`(outer, inner)` with `inner` near `target` and `outer * inner >= length`, equal if possible."""
    if length <= 16:
        return 1, length
    target = max(1.0, target)
    near = range(math.ceil(target / 2), math.floor(2 * target) + 1)
    exact = [inner for inner in near if length % inner == 0]
    if exact:
        inner = min(exact, key=lambda inner: abs(math.log(inner / target)))
    else:
        inner = round(target)
    return math.ceil(length / inner), inner


def _take(array: Array, k: np.ndarray) -> Array:
    if np.array_equal(k.reshape(-1), np.arange(len(array))):
        return array.reshape((*k.shape, *array.shape[1:]))
    return array[k]
