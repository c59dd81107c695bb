"""A progress bar for compiled loops."""

import dataclasses

import jax
from jaxtyping import Array, ArrayLike, Int
from tqdm import tqdm


@dataclasses.dataclass(eq=False)
class _Bar:
    bar: tqdm | None = None


@dataclasses.dataclass(frozen=True)
class Progress:
    """Shows how many of `num_steps` are done, at most about a hundred times.

    Equal for equal counts, so that a compiled loop is used again with it.
    """

    num_steps: int
    shown: _Bar = dataclasses.field(default_factory=_Bar, compare=False, repr=False)

    def report(self, k: Int[Array, ""]) -> None:
        """To be called in every step k, compiled or not."""
        every = max(1, self.num_steps // 100)
        due = (k % every == 0) | (k == self.num_steps - 1)
        jax.lax.cond(due, lambda: jax.debug.callback(self._show, k + 1), lambda: None)

    def _show(self, done: ArrayLike) -> None:
        # lanes of a batch and the recomputation of a gradient report again: show the farthest
        done, bar = int(done), self.shown.bar
        if bar is None and done < self.num_steps:
            bar = self.shown.bar = tqdm(total=self.num_steps, unit="step")
        if bar is None:
            return
        bar.update(max(0, done - bar.n))
        if done >= self.num_steps:
            bar.close()
            self.shown.bar = None
