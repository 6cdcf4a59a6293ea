"""Forms from the JSON Schema of an input: fields to type into, and the input that was typed.

Objects, lists of objects and scalars become fields, to MAX_DEPTH levels; anything else is a field for JSON.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from functools import partial
from itertools import count
from typing import Any

from app.console.views.json_text import parsed_json

MAX_DEPTH, MAX_FIELDS, MAX_ITEMS = 4, 100, 50
ROOT = "input"  # name of the field of the whole input; those of its parts end with their JSON pointer
COUNT = "items:"  # prefix of the field with the number of items of a list

Schema = Mapping[str, Any]
Typed = Mapping[str, str]
"""What was typed, by the names of the fields."""

_INPUT_TYPES = {"email": "email", "uri": "url", "date": "date", "time": "time"}
_BOUNDS = (
    *(("minimum", "from {}"), ("exclusiveMinimum", "more than {}"), ("maximum", "up to {}")),
    *(
        ("exclusiveMaximum", "less than {}"),
        ("multipleOf", "a multiple of {}"),
        ("minLength", "at least {} characters"),
    ),
    *(("maxLength", "at most {} characters"), ("pattern", "matching {}"), ("format", "{}")),
    *(("minItems", "at least {} items"), ("maxItems", "at most {} items")),
)
_LARGE = frozenset({"group", "items", "json"})
_SCALARS = frozenset({"string", "integer", "number", "boolean"})


class InputKind(StrEnum):
    """InputKind of a field; `lines` is a list of scalars, one a line."""

    TEXT = "text"
    NUMBER = "number"
    CHOICE = "choice"
    LINES = "lines"
    JSON = "json"
    GROUP = "group"
    ITEMS = "items"


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of a form, and its parts if it is a group or a list.

    Attributes:
        pointer: JSON pointer in the input; empty for the whole input.
        note: Description, and bounds in words.
        choices: Values of a choice, as JSON.
        scalar: JSON type of the value, or of the items of `lines`.
    """

    pointer: str
    label: str
    kind: InputKind
    is_required: bool = False
    note: str = ""
    text: str = ""
    choices: Sequence[str] = ()
    scalar: str = "string"
    input_type: str = "text"
    parts: Sequence["FormField"] = field(default_factory=tuple)

    @property
    def name(self) -> str:
        return f"{ROOT}{self.pointer}"

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Return the choices with their texts: those of strings without quotes."""
        values = [(choice, json.loads(choice)) for choice in self.choices]
        return [(choice, value if isinstance(value, str) else choice) for choice, value in values]

    @property
    def counter(self) -> str:
        """Return the name of the field with the number of items."""
        return f"{COUNT}{self.pointer}"


class TypedError(Exception):
    """A text cannot be read as the value of its field."""


def form_of(schema: Schema | None, typed: Typed) -> FormField:
    """Return the form of a schema with what was typed; one field for JSON without a schema that lists properties."""
    root = schema or {}
    try:
        return _Maker(root, typed, count(1)).field("", "Input", root, depth=0, is_required=True)
    except _TooManyFieldsError:
        return _json("", "Input", typed, is_required=True)


def every_field(form: FormField) -> Iterator[FormField]:
    yield form
    for part in form.parts:
        yield from every_field(part)


def typed_input(form: FormField) -> tuple[Any, dict[str, str]]:
    """Return the input that was typed, and the faults of texts that cannot be read by their pointers."""
    faults: dict[str, str] = {}
    found = _read(form, faults)
    return ({} if found is _NOTHING else found), faults


def texts_of(schema: Schema | None, value: Any) -> dict[str, str] | None:
    """Return the texts that show a stored input in the form of a schema; None if the form cannot show all of it."""
    parts = dict(_parts("", value))
    counts = {f"{COUNT}{pointer}": str(len(part)) for pointer, part in parts.items() if isinstance(part, list)}
    fields = [each for each in every_field(form_of(schema, counts)) if each.pointer in parts]
    texts = counts | {each.name: _written(each.kind, parts[each.pointer]) for each in fields}
    return texts if typed_input(form_of(schema, texts)) == (value, {}) else None


def _parts(pointer: str, value: Any) -> Iterator[tuple[str, Any]]:
    yield pointer, value
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        yield from _parts(f"{pointer}/{_escaped(str(name))}", part)


def _written(kind: InputKind, value: Any) -> str:
    if kind is InputKind.JSON:
        return json_text(value)
    if kind is InputKind.LINES and isinstance(value, list):
        return "\n".join(_written(InputKind.TEXT, each) for each in value)
    return value if isinstance(value, str) else json.dumps(value)


def json_text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


class _TooManyFieldsError(Exception):
    """A form would have more than MAX_FIELDS fields."""


@dataclass(frozen=True, slots=True)
class _Maker:
    """Maker of the fields of one schema; `numbers` counts them, since a recursive schema has endlessly many."""

    root: Schema
    typed: Typed
    numbers: Iterator[int]

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
            more["choices"] = tuple(json.dumps(each, ensure_ascii=False) for each in _choices(schema))
        return FormField(
            pointer,
            schema.get("title") or label,
            kind,
            is_required,
            note=_note(schema),
            text=self._text(pointer, schema, kind),
            scalar=scalar,
            input_type=_INPUT_TYPES.get(str(schema.get("format")), "text"),
            **more,
        )

    def _properties(self, pointer: str, schema: Schema, depth: int) -> Iterator[FormField]:
        """Make the fields of an object: required ones first, then scalars; JSONB keeps no order of its own."""
        required = [name for name in schema.get("required", ()) if isinstance(name, str)]
        fields = [
            self.field(f"{pointer}/{_escaped(name)}", name, part, depth=depth + 1, is_required=name in required)
            for name, part in schema["properties"].items()
        ]
        places = {f"{pointer}/{_escaped(name)}": number for number, name in enumerate(required)}
        yield from sorted(fields, key=lambda each: (places.get(each.pointer, len(places)), each.kind in _LARGE))

    def _items(self, pointer: str, schema: Schema, depth: int) -> Iterator[FormField]:
        text = self.typed.get(f"{COUNT}{pointer}", "1")
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else 1
        for at in range(min(number, MAX_ITEMS)):
            yield self.field(f"{pointer}/{at}", f"{at + 1}", schema, depth=depth + 1, is_required=True)

    def _text(self, pointer: str, schema: Schema, kind: InputKind) -> str:
        name = f"{ROOT}{pointer}"
        if name in self.typed:
            text = self.typed[name]
            # A stored text is written without quotes.
            written = json.dumps(text, ensure_ascii=False)
            is_choice = kind is InputKind.CHOICE and written in map(
                partial(json.dumps, ensure_ascii=False), _choices(schema)
            )
            return written if is_choice else text
        # Defaults are shown before anything is typed.
        default = schema.get("default", schema.get("const"))
        if default is None or any(each.startswith((ROOT, COUNT)) for each in self.typed):
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
                target = target.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(target, Mapping) else None
            schema = target
        return schema if isinstance(schema, Mapping) else {}


def _kind_of(schema: Schema, depth: int) -> tuple[InputKind, str]:
    """Return the kind of a field, and the JSON type of its value."""
    types = schema.get("type")
    named = [each for each in types if each != "null"] if isinstance(types, list) else [types]
    type_ = str(named[0]) if len(named) == 1 else ""
    if _choices(schema):
        return InputKind.CHOICE, type_
    if any(each in schema for each in ("anyOf", "oneOf", "allOf", "not", "if", "patternProperties")):
        return InputKind.JSON, type_
    if type_ in _SCALARS:
        return (InputKind.NUMBER if type_ in {"integer", "number"} else InputKind.TEXT), type_
    if depth < MAX_DEPTH:
        if type_ in {"object", "None"} and isinstance(schema.get("properties"), Mapping) and schema["properties"]:
            return InputKind.GROUP, "object"
        if type_ == "array" and isinstance(schema.get("items"), Mapping):
            return InputKind.ITEMS, "array"
    return InputKind.JSON, type_


def _choices(schema: Schema) -> Sequence[Any]:
    if isinstance(schema.get("enum"), list):
        found: list[Any] = schema["enum"]
        return found
    return [True, False] if schema.get("type") == "boolean" else []


def _note(schema: Schema) -> str:
    bounds = [words.format(schema[name]) for name, words in _BOUNDS if name in schema]
    described = str(schema.get("description", ""))
    return ". ".join(each for each in (described.rstrip("."), ", ".join(bounds)) if each)


def _json(pointer: str, label: str, typed: Typed, *, is_required: bool) -> FormField:
    return FormField(pointer, label, InputKind.JSON, is_required, text=typed.get(f"{ROOT}{pointer}", ""))


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


_NOTHING = object()


def _read(form: FormField, faults: dict[str, str]) -> Any:
    """Return the value of a field; _NOTHING if nothing was typed into an optional field."""
    if form.kind is InputKind.GROUP:
        parts = {part: _read(part, faults) for part in form.parts}
        given = {_name_of(part): value for part, value in parts.items() if value is not _NOTHING}
        return given if given or form.is_required else _NOTHING
    if form.kind is InputKind.ITEMS:
        items = [_read(part, faults) for part in form.parts]
        given_items = [item for item in items if item is not _NOTHING and item != {}]
        return given_items if given_items or form.is_required else _NOTHING
    if not form.text.strip():
        return _NOTHING
    try:
        return _value(form)
    except TypedError as error:
        faults[form.pointer] = str(error)
        return _NOTHING


def _value(form: FormField) -> Any:
    if form.kind is InputKind.LINES:
        return [_scalar(line.strip(), form.scalar) for line in form.text.splitlines() if line.strip()]
    if form.kind is InputKind.CHOICE:
        if form.text not in form.choices:
            raise TypedError(f"Choose one of {', '.join(form.choices)}.")
        return json.loads(form.text)
    if form.kind is InputKind.JSON:
        try:
            return parsed_json(form.text)
        except ValueError as error:
            raise TypedError(f"Must be JSON. {error}") from None
    return _scalar(form.text.strip() if form.kind is InputKind.NUMBER else form.text, form.scalar)


def _scalar(text: str, type_: str) -> Any:
    if type_ == "string":
        return text
    if type_ == "boolean":
        if text not in {"true", "false"}:
            raise TypedError("Must be true or false.")
        return text == "true"
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise TypedError(f"{text!r} is not a number.") from None
    if not number.is_finite() or len(text) > 40:
        raise TypedError(f"{text!r} is not a number.")
    is_whole = not set(".eE") & set(text)
    return int(number) if is_whole else float(text)


def _name_of(part: FormField) -> str:
    return part.pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
