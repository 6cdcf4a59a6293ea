"""Objects that have one of several shapes, and how the OpenAPI document tells of those.

A `spec` and a `retry_policy` it describes by the very shapes that the catalog checks them by.
"""

from collections.abc import Mapping
from typing import Any

from marshmallow import Schema, fields

from app.catalog.fields import DEFAULTS, FIELDS
from app.catalog.retry_policy import RetryPolicy
from app.catalog.shape_fields import Described
from app.catalog.shapes import RETRY_POLICY, SPECS
from schema.states import EndpointType


class Shaped(fields.Dict):
    """An object of one of these shapes. When it is read it only has to be an object; the catalog looks closer."""

    def __init__(self, *shapes: Schema, **options: Any) -> None:
        super().__init__(**options)
        self.shapes = shapes

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> Any:  # noqa: ARG002
        """Show what is stored, also where it has another shape."""
        return value


def describe(converter: Any, field: fields.Field[Any], ret: dict[str, Any]) -> Mapping[str, Any]:
    """Add to what apispec has found about a field; it calls this as a method of its converter."""
    if isinstance(field, Shaped):
        ret.pop("type")
        ret.pop("additionalProperties")
        options = [converter.resolve_nested_schema(shape) for shape in field.shapes]
        options += [{"type": "null"}] if field.allow_none else []
        return {"anyOf": options} if len(options) > 1 else options[0]
    own = field.json_schema if isinstance(field, Described) else {}
    return {**own, **_default(field), **_variables(field, ret.get("description", ""))}


def _default(field: fields.Field[Any]) -> dict[str, Any]:
    """Find what an absent field of a shape means."""
    endpoint_type = _type_of(field)
    if field.parent is RETRY_POLICY:
        defaults = RetryPolicy().as_json()
    else:
        defaults = {} if endpoint_type is None else dict(DEFAULTS[endpoint_type])
    return {"default": defaults[field.name]} if field.name in defaults else {}


def _variables(field: fields.Field[Any], description: str) -> dict[str, Any]:
    """Tell which variables may stand in a field of a spec."""
    endpoint_type = _type_of(field)
    rule = None if endpoint_type is None else FIELDS[endpoint_type].get(field.name or "")
    if rule is None:
        return {}
    names = ", ".join(f"`{{{{{name}.…}}}}`" for name in sorted(rule.namespaces))
    return {"description": f"{description} May hold {names}.".strip()}


def _type_of(field: fields.Field[Any]) -> EndpointType | None:
    """Find the transport whose spec has this field at its top."""
    return next((endpoint_type for endpoint_type, shape in SPECS.items() if field.parent is shape), None)
