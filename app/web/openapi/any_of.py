"""Fields with one of several schemas, and their description in the OpenAPI document.

`spec` and `retry_policy` are described by the schemas with which the catalog validates them.
"""

from collections.abc import Mapping
from typing import Any

from marshmallow import Schema, ValidationError, fields

from app.catalog.specs.spec_fields import DescribedValue, rule_of


class AnyOf(fields.Dict):
    """Object with one of several schemas; accepts any object of a request, which the catalog validates later."""

    def __init__(self, *shapes: Schema, **options: Any) -> None:
        super().__init__(**options)
        self.shapes = shapes

    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> Any:  # noqa: ARG002
        """Return the stored value, even if it matches none of the schemas."""
        return value


class CheckedObject(AnyOf):
    """Object with one schema, validated here, or one of a few words."""

    def __init__(self, shape: Schema, *words: str, **options: Any) -> None:
        super().__init__(shape, **options)
        self.words = words

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> Any:
        if isinstance(value, str) and value in self.words:
            return value
        if self.words and not isinstance(value, Mapping):
            raise ValidationError(f"Must be an object, or {' or '.join(map(repr, self.words))}.")
        given: Any = super()._deserialize(value, attr, data, **kwargs)  # type: ignore[no-untyped-call]
        faults = self.shapes[0].validate(given)
        if faults:
            raise ValidationError(faults)
        return given


def describe(converter: Any, field: fields.Field[Any], ret: dict[str, Any]) -> Mapping[str, Any]:
    """Extend `ret`, apispec's description of a field; apispec calls it as a method of its converter."""
    if isinstance(field, AnyOf):
        ret.pop("type")
        ret.pop("additionalProperties")
        options = [converter.resolve_nested_schema(shape) for shape in field.shapes]
        options += (
            [{"type": "string", "enum": list(field.words)}] if isinstance(field, CheckedObject) and field.words else []
        )
        options += [{"type": "null"}] if field.allow_none else []
        return {"anyOf": options} if len(options) > 1 else options[0]
    own = field.json_schema if isinstance(field, DescribedValue) else {}
    return {**own, **_variables(field, ret.get("description", ""))}


def _variables(field: fields.Field[Any], description: str) -> dict[str, Any]:
    """Describe the variables that a field of a spec may contain."""
    rule = rule_of(field)
    if rule is None or not rule.namespaces:
        return {}
    names = ", ".join(f"`{{{{{name}.…}}}}`" for name in sorted(rule.namespaces))
    return {"description": f"{description} May contain {names}.".strip()}
