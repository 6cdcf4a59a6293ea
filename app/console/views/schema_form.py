"""Forms from the JSON Schema of an input, or of a part of a definition.

Objects, lists of objects and scalars become fields, to MAX_DEPTH levels; anything else is a field for JSON.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from itertools import count
from typing import Any, NamedTuple

from app.console.views.input_field import (
    COUNT,
    INTEGER_OR_STRING,
    LONG_TEXT,
    ROOT,
    STRING_OR_LIST,
    FormField,
    InputKind,
)
from app.kernel.formats import escaped, unescaped

MAX_DEPTH, MAX_FIELDS, MAX_ITEMS = 4, 100, 50

Schema = Mapping[str, Any]
Typed = Mapping[str, str]
"""Typed texts by the names of their fields."""

_INPUT_TYPES = {"email": "email", "uri": "url", "date": "date"}  # a browser's time has no offset
_BOUNDS = {
    "minimum": "from {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "up to {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "matching {}",
    "format": "{}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
}
_LARGE = frozenset({"group", "items", "json"})
_SCALARS = frozenset({"string", "integer", "number", "boolean"})


def form_of(schema: Schema | None, typed: Typed, name: str = ROOT) -> FormField:
    """Return the form of a schema with the typed texts; a single field for JSON if the schema lists no properties."""
    root, label = schema or {}, name.replace("_", " ").capitalize()
    try:
        return _Maker(root, typed, count(1), name).field("", label, root, depth=0, is_required=True)
    except _TooManyFieldsError:
        return FormField("", label, InputKind.JSON, is_required=True, text=typed.get(name, ""), root=name)


class _TooManyFieldsError(Exception):
    """A form would have more than MAX_FIELDS fields."""


class _Maker(NamedTuple):
    """Maker of the fields of one schema; `numbers` counts the fields, since a recursive schema has no end."""

    root: Schema
    typed: Typed
    numbers: Iterator[int]
    name: str

    def field(self, pointer: str, label: str, given: Any, *, depth: int, is_required: bool) -> FormField:
        if next(self.numbers) > MAX_FIELDS:
            raise _TooManyFieldsError
        schema = self._resolved(given)
        kind, scalar = _kind_of(schema, depth)
        more: dict[str, Any] = {}
        if kind is InputKind.GROUP:
            more["parts"] = tuple(self._properties(pointer, schema, depth))
        elif kind is InputKind.ITEMS:
            items = self._resolved(schema["items"])
            if _kind_of(items, depth + 1)[0] is InputKind.JSON:
                kind = InputKind.JSON
            elif _kind_of(items, depth + 1)[0] is not InputKind.GROUP:
                kind, scalar = InputKind.LINES, _kind_of(items, depth + 1)[1]
            else:
                more["parts"] = tuple(self._items(pointer, items, depth))
        if kind is InputKind.CHOICE:
            more["choices"] = tuple(_json_of_choices(schema))
        return FormField(
            pointer,
            schema.get("title") or label,
            kind,
            is_required,
            note=_note(schema),
            text=(text := self._text(pointer, schema, kind)),
            scalar=scalar,
            input_type=_input_type(schema, text),
            root=self.name,
            is_long="contentMediaType" in schema or _longest(schema) > LONG_TEXT,
            **more,
        )

    def _properties(self, pointer: str, schema: Schema, depth: int) -> Iterator[FormField]:
        """Make the fields of an object: required fields first, then scalars; JSONB keeps no order of its own."""
        required = [name for name in schema.get("required", ()) if isinstance(name, str)]
        fields = [
            self.field(f"{pointer}/{escaped(name)}", name, part, depth=depth + 1, is_required=name in required)
            for name, part in schema["properties"].items()
        ]
        places = {f"{pointer}/{escaped(name)}": number for number, name in enumerate(required)}
        yield from sorted(fields, key=lambda each: (places.get(each.pointer, len(places)), each.kind in _LARGE))

    def _items(self, pointer: str, schema: Schema, depth: int) -> Iterator[FormField]:
        text = self.typed.get(f"{COUNT}{self.name}{pointer}", "1")
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else 1
        for at in range(min(number, MAX_ITEMS)):
            yield self.field(f"{pointer}/{at}", f"{at + 1}", schema, depth=depth + 1, is_required=True)

    def _text(self, pointer: str, schema: Schema, kind: InputKind) -> str:
        name = f"{self.name}{pointer}"
        if name in self.typed:
            text = self.typed[name]
            # A stored text is written without quotes.
            written = json.dumps(text, ensure_ascii=False)
            choices = _json_of_choices(schema)
            return written if kind is InputKind.CHOICE and written in choices and text not in choices else text
        # Defaults are shown before anything is typed.
        default = schema.get("default", schema.get("const"))
        if default is None or any(each.startswith((self.name, COUNT)) for each in self.typed):
            return ""
        if kind is InputKind.LINES and isinstance(default, list):
            return "\n".join(str(each) for each in default)
        return default if isinstance(default, str) and kind is not InputKind.CHOICE else json.dumps(default)

    def _resolved(self, schema: Any) -> Schema:
        """Follow references within the schema."""
        for _ in range(10):
            if not isinstance(schema, Mapping) or "$ref" not in schema:
                break
            target: Any = self.root
            for part in filter(None, str(schema["$ref"]).removeprefix("#").split("/")):
                target = target.get(unescaped(part)) if isinstance(target, Mapping) else None
            schema = target
        return schema if isinstance(schema, Mapping) else {}


def _input_type(schema: Schema, text: str) -> str:
    """Return the type of a browser's field that keeps a text: it drops other texts than dates, and trims addresses."""
    type_ = _INPUT_TYPES.get(str(schema.get("format")), "text")
    if type_ == "date" and text:
        return type_ if _is_date(text) else "text"
    return type_ if text == text.strip() else "text"


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _kind_of(schema: Schema, depth: int) -> tuple[InputKind, str]:
    """Return the kind of a field, and the JSON type of its value."""
    types = schema.get("type")
    named = [each for each in types if each != "null"] if isinstance(types, list) else [types]
    type_ = str(named[0]) if len(named) == 1 else ""
    if _choices(schema):
        return InputKind.CHOICE, type_
    if scalar := _scalar_of_alternatives(schema):
        return (InputKind.LINES if scalar == STRING_OR_LIST else InputKind.TEXT), scalar
    if any(each in schema for each in ("anyOf", "oneOf", "allOf", "not", "if", "patternProperties")):
        return InputKind.JSON, type_
    if type_ in _SCALARS:
        return (InputKind.NUMBER if type_ in {"integer", "number"} else InputKind.TEXT), type_
    return _kind_of_parts(schema, type_, depth)


def _kind_of_parts(schema: Schema, type_: str, depth: int) -> tuple[InputKind, str]:
    has_properties = isinstance(schema.get("properties"), Mapping) and schema["properties"]
    if type_ == "object" and not has_properties and schema.get("additionalProperties") == {"type": "string"}:
        return InputKind.PAIRS, type_
    if depth < MAX_DEPTH:
        if type_ in {"object", "None"} and has_properties:
            return InputKind.GROUP, "object"
        if type_ == "array" and isinstance(schema.get("items"), Mapping):
            return InputKind.ITEMS, "array"
    return InputKind.JSON, type_


def _scalar_of_alternatives(schema: Schema) -> str:
    """Return the type of two alternatives that a field distinguishes by the typed text; empty for all other schemas."""
    listed = schema.get("anyOf")
    each = [part for part in listed if isinstance(part, Mapping)] if isinstance(listed, list) else []
    if [part.get("type") for part in each] == ["integer", "string"] or schema.get("type") == ["string", "integer"]:
        return INTEGER_OR_STRING
    if [part.get("type") for part in each] == ["string", "array"] and each[1].get("items") == each[0]:
        return STRING_OR_LIST
    return ""


def _longest(schema: Schema) -> int:
    longest = schema.get("maxLength")
    return longest if isinstance(longest, int) else 0


def _choices(schema: Schema) -> Sequence[Any]:
    if isinstance(schema.get("enum"), list):
        found: list[Any] = schema["enum"]
        return found
    return [True, False] if schema.get("type") == "boolean" else []


def _json_of_choices(schema: Schema) -> list[str]:
    return [json.dumps(each, ensure_ascii=False) for each in _choices(schema)]


def _note(schema: Schema) -> str:
    bounds = [words.format(schema[name]) for name, words in _BOUNDS.items() if name in schema]
    described = str(schema.get("description", ""))
    return ". ".join(each for each in (described.rstrip("."), ", ".join(bounds)) if each)
