"""Immutable collections of physical numbers."""

import dataclasses
from typing import TypeVar

import equinox as eqx
import jax

from soromox.numerics.checks import as_array


ModuleT = TypeVar("ModuleT", bound=eqx.Module)

SelfT = TypeVar("SelfT")  # not `typing.Self`, which a runtime type checker refuses here


class Parameters(eqx.Module):
    """Named numbers; `replace` returns a copy with some of them changed."""

    def replace(self: SelfT, **changes: object) -> SelfT:
        """A copy with the named fields changed.

        Numbers are replaced by numbers of the same shape, parts by parts of the same structure;
        the dtype stays. Works under `jit`, `grad` and `vmap`.

        Raises `ValueError` for an unknown field, a wrong shape, or a change of structure
        (channel counts, paths, spans): reconstruct the component and the robot for that.
        """
        return replace_fields(self, changes)


def replace_fields(part: ModuleT, changes: dict[str, object]) -> ModuleT:
    """`Parameters.replace`, for any module whose constructor takes its fields."""
    kind = type(part).__name__
    names = [field.name for field in dataclasses.fields(part) if field.init]
    for name in changes:
        if name not in names:
            raise ValueError(f"`{kind}` has no field `{name}`; it has: {', '.join(names)}.")
    conformed = {
        name: conform(getattr(part, name), value, f"{kind}.{name}")
        for name, value in changes.items()
    }
    return dataclasses.replace(part, **conformed)


def conform(old: object, new: object, name: str) -> object:
    """`new` in the dtype of `old`, after checking that it has its shape and structure."""
    if eqx.is_array(old):
        if new is None:
            raise ValueError(f"`{name}` is a number and cannot become None: reconstruct.")
        return as_array(new, name, old.dtype, old.shape)
    if jax.tree.structure(old) != jax.tree.structure(new):
        raise ValueError(
            f"`{name}` would change the structure from {_summary(old)} to {_summary(new)}. "
            "Only numbers can be replaced: reconstruct the component and the robot."
        )
    leaves = zip(jax.tree.leaves(old), jax.tree.leaves(new), strict=True)
    conformed = [as_array(b, name, a.dtype, a.shape) if eqx.is_array(a) else b for a, b in leaves]
    return jax.tree.unflatten(jax.tree.structure(old), conformed)


def _summary(part: object) -> str:
    return type(part).__name__ if isinstance(part, eqx.Module) else repr(part)
