"""JSON Schemas of an endpoint's input, derived from a signature, TypedDict or dataclass."""

import dataclasses
import inspect
import types
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints, is_typeddict

_PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    datetime: {"type": "string", "format": "date-time"},
    dict: {"type": "object"},
    list: {"type": "array"},
    Any: {},
}


def schema_of_function(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the schema of a function's arguments; a single TypedDict or dataclass is the whole input.

    Args:
        function: Function with annotated arguments; its return type is ignored.

    Returns:
        JSON Schema of an object without further properties; arguments without a default are required.

    Raises:
        TypeError: An argument has no type, or a type that JSON does not have.
    """
    hints = get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters
    for name, parameter in parameters.items():
        if name not in hints or parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            raise TypeError(f"{name}: each argument of an endpoint needs a name and a type")
    if whole := whole_input(function):
        return schema_of(whole)
    required = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]
    return _object({name: schema_of(hints[name]) for name in parameters}, required)


def whole_input(function: Callable[..., Any]) -> Any:
    """Return the type of a function's only argument if it is a TypedDict or dataclass, else None."""
    parameters = list(inspect.signature(function).parameters)
    only = get_type_hints(function).get(parameters[0]) if len(parameters) == 1 else None
    return only if is_typeddict(only) or dataclasses.is_dataclass(only) else None


def schema_of(type_: Any) -> dict[str, Any]:
    """Return the schema of a type.

    Args:
        type_: str, bool, int, float, None, datetime, dict, list, Any, a Literal, a union, or a TypedDict or dataclass.

    Returns:
        JSON Schema; empty for Any.

    Raises:
        TypeError: JSON does not have the type.
    """
    if type_ in _PLAIN:
        return dict(_PLAIN[type_])
    if is_typeddict(type_):
        hints = get_type_hints(type_, include_extras=True)
        return _object({name: schema_of(each) for name, each in hints.items()}, sorted(type_.__required_keys__))
    if dataclasses.is_dataclass(type_):
        hints = get_type_hints(type_)
        fields = [field for field in dataclasses.fields(type_) if field.init]
        needed = [f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING]
        return _object({field.name: schema_of(hints[field.name]) for field in fields}, needed)
    return _of_parts(type_, get_args(type_))


def _of_parts(type_: Any, parts: tuple[Any, ...]) -> dict[str, Any]:
    match get_origin(type_):
        case origin if origin in {Required, NotRequired}:
            found = schema_of(parts[0])
        case origin if origin is Literal:
            found = {"enum": list(parts)}
        case origin if origin in {Union, types.UnionType}:
            found = {"anyOf": [schema_of(each) for each in parts]}
        case origin if origin is list:
            found = {"type": "array", "items": schema_of(parts[0])}
        case origin if origin is dict and parts[0] is str:
            found = {"type": "object", "additionalProperties": schema_of(parts[1])}
        case _:
            raise TypeError(f"{type_!r} has no JSON counterpart")
    return found


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    found = {"type": "object", "properties": properties, "additionalProperties": False}
    return found | ({"required": required} if required else {})


def as_json(value: Any) -> Any:
    """Return a value with its dataclasses, at any depth, replaced by dictionaries of their init fields."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value) if field.init}
    if isinstance(value, Mapping):
        return {name: as_json(each) for name, each in value.items()}
    return [as_json(each) for each in value] if isinstance(value, (list, tuple)) else value
