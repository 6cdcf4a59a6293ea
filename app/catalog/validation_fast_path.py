"""Fast path of the validation: checks of inputs against plain schemas, which most schemas are.

A check is compiled from its schema, and either accepts an input or is undecided. Undecided inputs, and schemas with
other keywords than the ones below, go to the validator, which supports all keywords and reports faults.

A check needs no budget: it evaluates each keyword of its schema once, and in arrays, which do not nest, at most
MAX_ITEMS times.
"""

import operator
from collections.abc import Callable, Mapping, Sized
from functools import partial
from typing import Any

Check = Callable[[Any], bool]
Operator = Callable[[Any, Any], bool]

MAX_ITEMS = 64
MAX_DEPTH = 20

_ANNOTATIONS = frozenset(
    {
        *("$comment", "$schema", "default", "deprecated", "description", "examples", "format", "readOnly"),
        *("title", "writeOnly"),
    }
)
_TYPES: Mapping[str, tuple[type, ...]] = {
    "array": (list,),
    "boolean": (bool,),
    "integer": (int,),
    "null": (type(None),),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}
_NUMBERS = {"integer", "number"}
# Keywords that bound numbers, or the lengths of a type.
_BOUNDS: Mapping[str, tuple[type[Sized] | None, Operator]] = {
    "maxItems": (list, operator.le),
    "maxLength": (str, operator.le),
    "maxProperties": (dict, operator.le),
    "maximum": (None, operator.le),
    "minItems": (list, operator.ge),
    "minLength": (str, operator.ge),
    "minProperties": (dict, operator.ge),
    "minimum": (None, operator.ge),
}


class _NotPlainError(Exception):
    """The schema uses a keyword that the fast path does not support."""


def quick_check(schema: Any) -> Check | None:
    """Return a check that accepts only valid inputs; None for a schema that is not plain."""
    try:
        return _check_of(schema, depth=0, in_array=False)
    except _NotPlainError:
        return None


def _check_of(schema: Any, *, depth: int, in_array: bool) -> Check:
    if schema is True:
        return _anything
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
    match name:
        case "const":
            return _one_of([wanted])
        case "enum":
            return _one_of(wanted)
        case "required":
            return partial(_has, frozenset(wanted))
        case "type":
            return _of_type([wanted] if isinstance(wanted, str) else wanted)
    if name not in _BOUNDS:
        raise _NotPlainError
    type_, compare = _BOUNDS[name]
    return partial(_number_is, compare, wanted) if type_ is None else partial(_length_is, type_, compare, wanted)


def _anything(_value: Any) -> bool:
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number_is(compare: Operator, bound: float, value: Any) -> bool:
    return not _is_number(value) or compare(value, bound)


def _length_is(type_: type[Sized], compare: Operator, bound: int, value: Any) -> bool:
    return not isinstance(value, type_) or compare(len(value), bound)


def _has(names: frozenset[str], value: Any) -> bool:
    return not isinstance(value, dict) or value.keys() >= names


def _has_no_other(names: frozenset[str], value: Any) -> bool:
    return not isinstance(value, dict) or value.keys() <= names


def _is_among(texts: frozenset[str], value: Any) -> bool:
    return isinstance(value, str) and value in texts


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
    return [partial(_has_no_other, frozenset(schema.get("properties", {})))]


def _items(each: Check) -> Check:
    def check(value: Any) -> bool:
        return not isinstance(value, list) or (len(value) <= MAX_ITEMS and all(map(each, value)))

    return check


def _of_type(names: list[str]) -> Check:
    types = tuple(type_ for name in names for type_ in _TYPES[name])
    is_flag_allowed = "boolean" in names or _NUMBERS.isdisjoint(names)

    def check(value: Any) -> bool:
        return isinstance(value, types) and (is_flag_allowed or not isinstance(value, bool))

    return check


def _one_of(values: list[Any]) -> Check:
    # Strings only: JSON Schema has its own equality for numbers, and for objects and arrays with numbers.
    return partial(_is_among, frozenset(value for value in values if isinstance(value, str)))
