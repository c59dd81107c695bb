"""How the benchmarks measure: the first call, then the median of repeats."""

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax


def _seconds(call: Callable[..., Any], *args: Any) -> float:
    start = time.perf_counter()
    jax.block_until_ready(call(*args))
    return time.perf_counter() - start


def measure(
    call: Callable[..., Any], *args: Any, repeats: int = 20, limit: float = 5.0
) -> dict[str, float | int]:
    """Seconds of `call(*args)`, results waited for.

    `first_call` includes tracing and compiling if `call` is a fresh jitted function; `median` is
    over up to `repeats` further calls, fewer (at least one) once they have taken `limit` seconds.
    """
    first = _seconds(call, *args)
    laps = [_seconds(call, *args)]
    while len(laps) < repeats and sum(laps) < limit:
        laps.append(_seconds(call, *args))
    return {
        "first_call": first,
        "median": statistics.median(laps),
        "fastest": min(laps),
        "repeats": len(laps),
    }


def report(name: str, **values: Any) -> None:
    """Prints one row of JSON: the name, the given values, and where it was measured."""
    device = jax.devices()[0]
    where = {"backend": device.platform, "device": device.device_kind, "jax": jax.__version__}
    rounded = {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in values.items()}
    print(json.dumps({"name": name, **rounded, **where}), flush=True)
