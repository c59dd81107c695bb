"""Components whose numbers can be read and replaced as one immutable collection."""

import dataclasses
import functools
from typing import Any, ClassVar, TypeVar

import equinox as eqx
from equinox import AbstractVar

from soromox.numerics.parameters import Parameters, conform


# not `typing.Self`, which a runtime type checker refuses here
ParametrisedT = TypeVar("ParametrisedT", bound="Parametrised")
ComposedT = TypeVar("ComposedT", bound="Composed")


class Parametrised(eqx.Module):
    """A part that keeps all its numbers in one field `params`."""

    params: AbstractVar[Parameters]

    def with_params(self: ParametrisedT, params: Parameters) -> ParametrisedT:
        """A copy with these numbers; their names, shapes and structure must stay."""
        return eqx.tree_at(
            lambda part: part.params,
            self,
            conform(self.params, params, f"{type(self).__name__}.params"),
        )

    def update_params(self: ParametrisedT, **changes: Any) -> ParametrisedT:
        """A copy with the named numbers replaced."""
        return self.with_params(self.params.replace(**changes))


class Composed(eqx.Module):
    """A component whose `params` read through to the parts it is made of.

    `params_type` names the fields that hold numbers; by default they are all fields that are not
    static. A part that is `Parametrised` shows its own `params`, any other shows itself; nothing is
    stored twice.
    """

    params_type: ClassVar[type[Parameters] | None] = None

    @property
    def params(self) -> Any:
        """All numbers of the component, as an instance of `params_type`."""
        params_type = _params_type(type(self))
        names = _names(params_type)
        return params_type(**{name: _numbers(getattr(self, name)) for name in names})

    def with_params(self: ComposedT, params: Parameters) -> ComposedT:
        """A copy with these numbers; its class, law, labels and sizes stay.

        Raises `TypeError` for params of another component, and `ValueError` for other shapes or
        another structure: reconstruct the component and the robot for that.
        """
        params_type = _params_type(type(self))
        if not isinstance(params, params_type):
            raise TypeError(
                f"`{type(self).__name__}` needs `{params_type.__name__}`, "
                f"got `{type(params).__name__}`."
            )
        names = _names(params_type)
        return self.update_params(**{name: getattr(params, name) for name in names})

    def update_params(self: ComposedT, **changes: Any) -> ComposedT:
        """A copy with the named numbers replaced; traceable, and `self` is unchanged."""
        kind = type(self).__name__
        known = _names(_params_type(type(self)))
        for name in changes:
            if name not in known:
                raise ValueError(f"`{kind}` has no parameter `{name}`; it has: {', '.join(known)}.")
        # replacing them in the params runs their value checks
        changed = self.params.replace(**changes)
        parts = [_with_numbers(getattr(self, name), getattr(changed, name)) for name in changes]
        return eqx.tree_at(
            lambda component: [getattr(component, name) for name in changes],
            self,
            parts,
            is_leaf=lambda node: any(node is getattr(self, name) for name in changes),
        )


@functools.cache
def _params_type(component: type[Composed]) -> type[Parameters]:
    if component.params_type is not None:
        return component.params_type
    fields = [f for f in dataclasses.fields(component) if not f.metadata.get("static", False)]
    annotations = {"__annotations__": {field.name: field.type for field in fields}}
    module = {"__module__": component.__module__}
    return type(f"{component.__name__}Params", (Parameters,), annotations | module)


def _names(params_type: type[Parameters]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(params_type))


def _numbers(part: Any) -> Any:
    return part.params if isinstance(part, Parametrised) else part


def _with_numbers(part: Any, numbers: Any) -> Any:
    return part.with_params(numbers) if isinstance(part, Parametrised) else numbers
