"""Fields of shapes that say the same in two ways: to whom sends a value, and in JSON Schema to whom reads about it."""

from collections.abc import Callable, Mapping
from typing import Any

from marshmallow import ValidationError, fields


class Described(fields.Raw):
    """A value that a function checks, with what JSON Schema can say of the rule."""

    def __init__(self, check: Callable[[Any], None], json_schema: Mapping[str, Any], **options: Any) -> None:
        super().__init__(validate=check, **options)
        self.json_schema = json_schema


class Flag(fields.Boolean):
    """true or false: not 1, which marshmallow takes for true."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> bool:  # noqa: ARG002
        if not isinstance(value, bool):
            raise ValidationError("true or false is needed")
        return value
