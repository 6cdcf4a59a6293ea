"""Examples of the OpenAPI document: whole bodies for schemas with variants, else composed of their fields.

The example of a field comes from its metadata, its name (`BY_NAME`) or its type.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from marshmallow import Schema, fields, validate

from app.web.openapi.example_bodies import BY_NAME, WHOLE

# The first match counts; every type is a Field.
_BY_TYPE: Sequence[tuple[type[fields.Field[Any]], Any]] = (
    (fields.DateTime, "2026-03-15T10:00:00Z"),
    (fields.Boolean, True),
    (fields.Number, 1),
    (fields.String, "text"),
    (fields.Field, {}),
)


def of(schema: type[Schema] | None) -> dict[str, Any] | None:
    """Return the examples of a body by their labels; None without a schema."""
    return None if schema is None else {label: {"value": value} for label, value in _values(schema()).items()}


def of_path(path: str) -> list[dict[str, Any]]:
    names = re.findall(r"<(\w+)>", path)
    return [{"in": "path", "name": name, "example": BY_NAME[name]} for name in names]


def _values(schema: Schema) -> Mapping[str, Any]:
    whole = WHOLE.get(type(schema).__name__)
    if whole is not None:
        return whole
    shown = {field.data_key or name: field for name, field in schema.fields.items()}
    return {"example": {name: _value(name, field) for name, field in shown.items()}}


def _value(name: str, field: fields.Field[Any]) -> Any:
    if "example" in field.metadata:
        return field.metadata["example"]
    if isinstance(field, fields.Nested):
        nested = list(_values(field.schema).values())
        return nested if field.many else nested[0]
    if isinstance(field, fields.List):
        if isinstance(field.inner, fields.Nested):
            return list(_values(field.inner.schema).values())
        return [_value(name, field.inner)]
    return BY_NAME[name] if name in BY_NAME else _of_type(field)


def _of_type(field: fields.Field[Any]) -> Any:
    if isinstance(field, fields.Enum):
        return str(next(iter(field.enum.__members__)))
    for validator in field.validators:
        if isinstance(validator, validate.OneOf):
            return next(iter(validator.choices))
    return next(example for kind, example in _BY_TYPE if isinstance(field, kind))
