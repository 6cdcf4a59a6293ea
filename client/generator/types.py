"""Python types of JSON Schemas."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]

_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
ANY = "Any"


def type_of(schema: Schema, *, sent: bool, models: str = "") -> str:
    """Return the annotation of a schema.

    With `sent` the types are wider: any Sequence for an array, also `datetime` for an instant, and `timedelta` for
    a duration. `models` is the prefix of schema names.
    """
    return " | ".join(_alternatives(schema, sent=sent, models=models))


def _alternatives(schema: Schema, *, sent: bool, models: str) -> list[str]:
    if "$ref" in schema:
        return [models + schema["$ref"].rsplit("/", 1)[1]]
    if "enum" in schema or "const" in schema:
        return _literals(schema.get("enum", [schema.get("const")]))
    options = [*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())]
    if options and "type" not in schema:
        return _united(alternative for each in options for alternative in _alternatives(each, sent=sent, models=models))
    types = schema.get("type", [])
    each = [types] if isinstance(types, str) else types
    if sent and {"string", "integer"} <= set(each):
        each = [*each, "duration"]  # no type of JSON Schema: a text, or milliseconds as a number
    return _united(name for type_ in each for name in _of_type(type_, schema, sent=sent, models=models))


def _literals(values: list[Any]) -> list[str]:
    texts = [value for value in values if value is not None]
    found = [f"Literal[{', '.join(json.dumps(text) for text in texts)}]"] if texts else []
    return found + (["None"] if None in values else [])


def _of_type(type_: str, schema: Schema, *, sent: bool, models: str) -> list[str]:
    match type_:
        case "string" if schema.get("format") == "date-time" and sent:
            return ["str", "datetime"]
        case "duration":
            return ["timedelta"]
        case "array":
            item = type_of(schema.get("items", {}), sent=sent, models=models)
            return [f"Sequence[{item}]" if sent else f"list[{item}]"]
        case "object":
            more = schema.get("additionalProperties")
            value = type_of(more, sent=sent, models=models) if isinstance(more, Mapping) else ANY
            return [f"Mapping[str, {value}]" if sent else f"dict[str, {value}]"]
        case _:
            return [_PLAIN[type_]]


def _united(names: Iterator[str]) -> list[str]:
    distinct = list(dict.fromkeys(names))
    if not distinct or ANY in distinct:
        return [ANY]
    return [name for name in distinct if name != "None"] + (["None"] if "None" in distinct else [])


def references(value: Any) -> Iterator[str]:
    """Yield the names of the schemas that a part of the document references."""
    if isinstance(value, Mapping):
        reference = value.get("$ref")
        if isinstance(reference, str):
            yield reference.rsplit("/", 1)[1]
        for child in value.values():
            yield from references(child)
    elif isinstance(value, list):
        for child in value:
            yield from references(child)


def reachable(roots: Iterator[str], schemas: Mapping[str, Schema]) -> set[str]:
    """Return the names of the roots and of all schemas that they reference."""
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in schemas and name not in found:
            found.add(name)
            waiting.extend(references(schemas[name]))
    return found
