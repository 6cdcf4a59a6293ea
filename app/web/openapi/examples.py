"""Examples of the OpenAPI document: whole bodies where a schema has variants, else composed of their fields.

A field's example comes from its own metadata, from its name (`BY_NAME`), or from its type.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from marshmallow import Schema, fields, validate

from app.web.openapi.example_bodies import BY_NAME, WHOLE

# The first match counts: for marshmallow a DateTime is not a String, and everything is a Field.
_BY_TYPE: Sequence[tuple[type[fields.Field[Any]], Any]] = (
    (fields.DateTime, "2026-03-15T10:00:00Z"),
    (fields.Boolean, True),
    (fields.Number, 1),
    (fields.String, "text"),
    (fields.Field, {}),
)


def of_request(schema: type[Schema]) -> dict[str, Any]:
    """Make the examples of a request body."""
    return _labelled(_values(schema(), _is_sent))


def of_answer(schema: type[Schema] | None) -> dict[str, Any] | None:
    """Make the examples of an answer; None where it has no body."""
    return None if schema is None else _labelled(_values(schema(), _is_received))


def of_path(path: str) -> list[dict[str, Any]]:
    """Describe the parameters of a path, with examples."""
    names = re.findall(r"<(\w+)>", path)
    return [{"in": "path", "name": name, "example": BY_NAME[name]} for name in names]


def _labelled(values: Mapping[str, Any]) -> dict[str, Any]:
    return {label: {"value": value} for label, value in values.items()}


def _is_sent(field: fields.Field[Any]) -> bool:
    return not field.dump_only


def _is_received(field: fields.Field[Any]) -> bool:
    return not field.load_only


def _values(schema: Schema, shown: Callable[[fields.Field[Any]], bool]) -> Mapping[str, Any]:
    """Return the examples of a schema by their labels."""
    whole = WHOLE.get(type(schema).__name__)
    if whole is not None:
        return whole
    return {
        "example": {
            field.data_key or name: _value(name, field, shown) for name, field in schema.fields.items() if shown(field)
        }
    }


def _value(name: str, field: fields.Field[Any], shown: Callable[[fields.Field[Any]], bool]) -> Any:
    if "example" in field.metadata:
        return field.metadata["example"]
    if isinstance(field, fields.Nested):
        nested = list(_values(field.schema, shown).values())
        return nested if field.many else nested[0]
    if isinstance(field, fields.List):
        if isinstance(field.inner, fields.Nested):
            return list(_values(field.inner.schema, shown).values())
        return [_value(name, field.inner, shown)]
    return BY_NAME[name] if name in BY_NAME else _of_type(field)


def _of_type(field: fields.Field[Any]) -> Any:
    if isinstance(field, fields.Enum):
        return str(next(iter(field.enum.__members__)))
    for validator in field.validators:
        if isinstance(validator, validate.OneOf):
            return next(iter(validator.choices))
    return next(example for kind, example in _BY_TYPE if isinstance(field, kind))
