"""Fast path of the validation: accepts valid inputs of plain schemas, which most schemas are.

Inputs that are not accepted, and schemas with other keywords than the keywords below, go to the validator, which
supports all keywords and reports faults. The fast path needs no budget: it evaluates each keyword of a schema at most
once, and in arrays, which do not nest, at most MAX_ITEMS times.
"""

from collections.abc import Mapping
from typing import Any

MAX_ITEMS = 64
MAX_DEPTH = 20

_KNOWN = frozenset(
    {
        *("$comment", "$schema", "default", "deprecated", "description", "examples", "format", "readOnly", "title"),
        *("additionalProperties", "const", "enum", "items", "maxItems", "maxLength", "maxProperties", "maximum"),
        *("minItems", "minLength", "minProperties", "minimum", "properties", "required", "type", "writeOnly"),
    }
)
_TYPES: Mapping[type, frozenset[str]] = {
    bool: frozenset({"boolean"}),
    dict: frozenset({"object"}),
    float: frozenset({"number"}),
    int: frozenset({"integer", "number"}),
    list: frozenset({"array"}),
    str: frozenset({"string"}),
    type(None): frozenset({"null"}),
}


def accepts(schema: Any, value: Any, depth: int = 0, *, in_array: bool = False) -> bool:
    """Return whether a value is certainly valid; False: the validator decides."""
    if not isinstance(schema, dict) or depth == MAX_DEPTH:
        return schema is True
    if not (schema.keys() <= _KNOWN and _has_type(schema, value) and _is_among(schema, value)):
        return False
    if isinstance(value, dict):
        return _accepts_object(schema, value, depth, in_array=in_array)
    if isinstance(value, list):
        return _accepts_array(schema, value, depth, in_array=in_array)
    if isinstance(value, str):
        return _has_length(schema, value, "Length")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return not is_number or bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))


def _has_type(schema: Mapping[str, Any], value: Any) -> bool:
    wanted, types = schema.get("type", ()), _TYPES.get(type(value), frozenset())  # none of an unreadable value
    return not wanted or not types.isdisjoint([wanted] if isinstance(wanted, str) else wanted)


def _is_among(schema: Mapping[str, Any], value: Any) -> bool:
    # Strings only: JSON Schema has its own equality for numbers, and for objects and arrays with numbers.
    if "const" in schema and not (isinstance(value, str) and value == schema["const"]):
        return False
    return "enum" not in schema or (isinstance(value, str) and value in schema["enum"])


def _has_length(schema: Mapping[str, Any], value: Any, unit: str) -> bool:
    return bool(schema.get(f"min{unit}", 0) <= len(value) <= schema.get(f"max{unit}", len(value)))


def _accepts_object(schema: Mapping[str, Any], value: dict[str, Any], depth: int, *, in_array: bool) -> bool:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    return (
        _has_length(schema, value, "Properties")
        and all(name in value for name in schema.get("required", ()))
        and (others is True or (others is False and value.keys() <= properties.keys()))
        and all(
            accepts(properties[name], item, depth + 1, in_array=in_array)
            for name, item in value.items()
            if name in properties
        )
    )


def _accepts_array(schema: Mapping[str, Any], value: list[Any], depth: int, *, in_array: bool) -> bool:
    if not _has_length(schema, value, "Items"):
        return False
    items = schema.get("items", True)
    is_small = len(value) <= MAX_ITEMS and not in_array
    return items is True or (is_small and all(accepts(items, item, depth + 1, in_array=True) for item in value))
