"""Quick checks of inputs against plain schemas, as most are: they accept, or they do not know.

A check is compiled from its schema. A schema with a keyword that is not known here has none; what a check does not
accept is judged by the validator, which knows all keywords and has words for faults.

A check needs no budget: it looks at each keyword of its schema once, and inside of arrays, which do not nest, at most
for so many items.
"""

from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any], bool]

MOST_ITEMS = 64
MAX_DEPTH = 20

_ANNOTATIONS = frozenset(
    {
        *("$comment", "$schema", "default", "deprecated", "description", "examples", "format", "readOnly"),
        *("title", "writeOnly"),
    }
)
_TYPES: Mapping[str, Check] = {
    "array": lambda value: isinstance(value, list),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "string": lambda value: isinstance(value, str),
}
_is_number = _TYPES["number"]


class _NotPlainError(Exception):
    """A schema has more than is known here."""


def quick_check(schema: Any) -> Check | None:
    """Return a check that accepts nothing but valid inputs; None for a schema that is not plain."""
    try:
        return _check_of(schema, depth=0, in_array=False)
    except _NotPlainError:
        return None


def _check_of(schema: Any, *, depth: int, in_array: bool) -> Check:
    if schema is True:
        return lambda _: True
    if not isinstance(schema, dict) or depth == MAX_DEPTH:
        raise _NotPlainError
    checks = []
    for name, wanted in schema.items():
        if name == "properties":
            checks.append(
                _properties({key: _check_of(each, depth=depth + 1, in_array=in_array) for key, each in wanted.items()})
            )
        elif name == "additionalProperties":
            checks += _additional(schema)
        elif name == "items" and not in_array:
            checks.append(_items(_check_of(wanted, depth=depth + 1, in_array=True)))
        elif name not in _ANNOTATIONS:
            checks.append(_simple(name, wanted))
    return _all(checks)


def _simple(name: str, wanted: Any) -> Check:
    if name not in _SIMPLE:
        raise _NotPlainError
    return _SIMPLE[name](wanted)


def _all(checks: list[Check]) -> Check:
    if len(checks) == 1:
        return checks[0]

    def check(value: Any) -> bool:
        for each in checks:  # noqa: SIM110 - all() with a generator takes twice as long
            if not each(value):
                return False
        return True

    return check


def _properties(checks: Mapping[str, Check]) -> Check:
    def check(value: Any) -> bool:
        if isinstance(value, dict):
            for name, each in checks.items():
                if name in value and not each(value[name]):
                    return False
        return True

    return check


def _additional(schema: Mapping[str, Any]) -> list[Check]:
    if schema["additionalProperties"] is True:
        return []
    if schema["additionalProperties"] is not False:
        raise _NotPlainError
    names = schema.get("properties", {}).keys()
    return [lambda value: not isinstance(value, dict) or value.keys() <= names]


def _items(each: Check) -> Check:
    def check(value: Any) -> bool:
        return not isinstance(value, list) or (len(value) <= MOST_ITEMS and all(map(each, value)))

    return check


def _of_type(wanted: Any) -> Check:
    if isinstance(wanted, str):
        return _TYPES[wanted]
    types = [_TYPES[name] for name in wanted]
    return lambda value: any(is_one(value) for is_one in types)


def _required(names: list[str]) -> Check:
    needed = frozenset(names)
    return lambda value: not isinstance(value, dict) or value.keys() >= needed


def _one_of(values: list[Any]) -> Check:
    # Texts only: for numbers and what holds them JSON Schema has an equality of its own.
    texts = {value for value in values if isinstance(value, str)}
    return lambda value: isinstance(value, str) and value in texts


# Keywords that stand for themselves.
_SIMPLE: Mapping[str, Callable[[Any], Check]] = {
    "const": lambda wanted: _one_of([wanted]),
    "enum": _one_of,
    "maxItems": lambda most: lambda value: not isinstance(value, list) or len(value) <= most,
    "maxLength": lambda most: lambda value: not isinstance(value, str) or len(value) <= most,
    "maxProperties": lambda most: lambda value: not isinstance(value, dict) or len(value) <= most,
    "maximum": lambda most: lambda value: not _is_number(value) or value <= most,
    "minItems": lambda least: lambda value: not isinstance(value, list) or len(value) >= least,
    "minLength": lambda least: lambda value: not isinstance(value, str) or len(value) >= least,
    "minProperties": lambda least: lambda value: not isinstance(value, dict) or len(value) >= least,
    "minimum": lambda least: lambda value: not _is_number(value) or value >= least,
    "required": _required,
    "type": _of_type,
}
