"""Fields of specs: each declares its valid values, default and template rule."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from marshmallow import ValidationError, fields, validate

from app.catalog.templates.compilation import FieldKind, FieldRule
from app.kernel.described_fields import described
from schema.inline_bounds import HEADER_NAME, MAX_TIMEOUT_MS, MAX_URL

F = TypeVar("F", bound=fields.Field[Any])

# The names under which a delivery carries its ids.
RESERVED_METADATA = re.compile(r"trace(parent|state)|te-.*")

_RULE = "template_rule"
# The OpenAPI document shows these patterns, so they mean the same in ECMAScript and to `match`.
SOLE_SECRET = re.compile(r"^\s*\{\{\s*secret\.[^{}]+\}\}\s*$")
NOT_SOLE_SECRET = "Must be one {{secret.NAME}} placeholder."
_BRACES = str.maketrans({"{": "{{", "}": "}}"})
# A password that is anything but one secret; it ends at the last @ before the path.
_READABLE_PASSWORD = r"[^/?#:]*://[^/?#:]*:(?!\{\{\s*secret\.[^{}]+\}\}@[^/?#@]*(?:[/?#]|$))[^/?#]+@"


def matches(pattern: str | re.Pattern[str], message: str) -> validate.Regexp:
    """Validate by a pattern; marshmallow formats messages, so the braces of placeholders are doubled."""
    return validate.Regexp(pattern, error=message.translate(_BRACES))


CheckValue = Callable[[Any], None]
"""Raises the error of a value that it refuses."""


class DescribedValue(fields.Raw):
    """Value checked by a function; `json_schema` describes the check in the OpenAPI document."""

    def __init__(self, check: CheckValue, json_schema: Mapping[str, Any], **options: Any) -> None:
        super().__init__(validate=check, **options)
        self.json_schema = json_schema


class TextInOrder(fields.String):
    """String with checks that run until the first fault: a later check may rely on the length that an earlier allows.

    marshmallow runs all validators of a field.
    """

    def _validate(self, value: Any) -> None:
        for validator in self.validators:
            validator(value)


class Flag(fields.Boolean):
    """Boolean that accepts only true and false; marshmallow also accepts 1."""

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> bool:  # noqa: ARG002
        if not isinstance(value, bool):
            raise ValidationError("Must be true or false.")
        return value


def templated(field: F, kind: FieldKind, namespaces: frozenset[str], schemes: frozenset[str] = frozenset()) -> F:
    """Allow variables of these namespaces in a field; other fields take no placeholders."""
    field.metadata = {**field.metadata, _RULE: FieldRule(kind, namespaces, schemes)}
    return field


def rule_of(field: fields.Field[Any]) -> FieldRule | None:
    return field.metadata.get(_RULE)


def whole(minimum: int, maximum: int, **options: Any) -> fields.Integer:
    return fields.Integer(strict=True, validate=validate.Range(minimum, maximum), **options)


def milliseconds(**options: Any) -> fields.Integer:
    return whole(1, MAX_TIMEOUT_MS, **options)


def soft_milliseconds() -> fields.Integer:
    """Declare the time after which a running attempt is reported; `check_spec` compares it with the limit."""
    description = "below `timeout_ms`; an attempt that takes longer continues, and writes a WARN line and an event"
    return whole(1, MAX_TIMEOUT_MS, **described(description))


def text(maximum: int = 1024, **options: Any) -> fields.String:
    return fields.String(validate=validate.Length(1, maximum), **options)


def sole_secret(**options: Any) -> fields.String:
    """Declare a secret; it must be a placeholder, because all readers of the endpoint see the spec."""
    return fields.String(validate=matches(SOLE_SECRET, NOT_SOLE_SECRET), **options)


def target_url(scheme: str, namespaces: frozenset[str]) -> fields.String:
    """Declare the target URL: scheme, or scheme plus `s` for TLS; a password must be a placeholder."""
    letters = "".join(f"[{letter.upper()}{letter}]" for letter in scheme)
    pattern = re.compile(rf"^(?!{_READABLE_PASSWORD})([\s\S]*\{{\{{|{letters}[Ss]?://[^/?#])")
    needed = (
        f"Must start with {scheme}:// or {scheme}s:// and a host; a password in the URL must be a {{{{secret.NAME}}}} "
        "placeholder."
    )
    starts = matches(pattern, needed)
    url = TextInOrder(required=True, validate=[validate.Length(1, MAX_URL), starts])
    return templated(url, FieldKind.URL, namespaces, frozenset({scheme, f"{scheme}s"}))


def header_map(reserved: re.Pattern[str], *, are_tokens: bool) -> DescribedValue:
    """Declare headers, an object of strings; `reserved` matches the lower-case names that the service sets.

    With `are_tokens`, names are HTTP tokens and case-insensitive.
    """
    names = {"pattern": HEADER_NAME.pattern} if are_tokens else {"minLength": 1}
    return DescribedValue(
        partial(_check_headers, reserved=reserved, are_tokens=are_tokens),
        {"type": "object", "additionalProperties": {"type": "string"}, "propertyNames": names},
        load_default={},
        **described("Headers that the service sets are not allowed."),
    )


def _check_headers(value: Any, reserved: re.Pattern[str], *, are_tokens: bool) -> None:
    if not isinstance(value, Mapping):
        raise ValidationError("Must be an object of strings.")
    faults, seen = {}, set()
    for name, content in value.items():
        if not isinstance(content, str):
            faults[name] = "Must be a string."
        elif not (HEADER_NAME.fullmatch(name) if are_tokens else name and name.isprintable()):
            faults[name] = "Must be a valid header name."
        elif reserved.fullmatch(name.lower()):
            faults[name] = "The service sets this header. Leave it out."
        elif are_tokens and name.lower() in seen:
            faults[name] = "Given more than once."
        seen.add(name.lower())
    if faults:
        raise ValidationError(faults)
