"""Immutable collections of physical numbers."""

import dataclasses
from typing import TypeVar

import equinox as eqx
import jax
import numpy as np

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
    fields = {field.name: field for field in dataclasses.fields(part) if field.init}
    for name, value in changes.items():
        if name not in fields:
            raise ValueError(f"`{kind}` has no field `{name}`; it has: {', '.join(fields)}.")
        old = getattr(part, name)
        if fields[name].metadata.get("static", False) and not _is_same(old, value):
            raise ValueError(
                f"`{kind}.{name}` is {old!r} and cannot become {value!r}: only numbers can be "
                "replaced, reconstruct the component and the robot."
            )
    conformed = {
        name: conform(getattr(part, name), value, f"{kind}.{name}")
        for name, value in changes.items()
        if not fields[name].metadata.get("static", False)
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


def _is_same(old: object, new: object) -> bool:
    # a tuple of ints may come back as a list or an array
    return bool(np.array_equal(old, new)) or (type(old) is type(new) and old == new)


def _summary(part: object) -> str:
    return type(part).__name__ if isinstance(part, eqx.Module) else repr(part)
