"""Typed inputs: the value that the texts of a form stand for, and the faults of texts that cannot be read."""

import json
from decimal import Decimal, InvalidOperation
from typing import Any

from app.console.views.input_field import INTEGER_OR_STRING, STRING_OR_LIST, FormField, InputKind
from app.console.views.json_text import parsed_json
from app.kernel.formats import unescaped

MAX_NUMBER = 40  # characters
_NOTHING = object()


class TypedError(Exception):
    """A text cannot be read as the value of its field."""


def typed_input(form: FormField) -> tuple[Any, dict[str, str]]:
    """Return the input that was typed, and the faults of texts that cannot be read by their pointers."""
    faults: dict[str, str] = {}
    found = _read(form, faults)
    return ({} if found is _NOTHING else found), faults


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
    lines = [line.strip() for line in form.text.splitlines() if line.strip()]
    if form.kind is InputKind.LINES and form.scalar == STRING_OR_LIST:
        return lines[0] if len(lines) == 1 else lines
    if form.kind is InputKind.LINES:
        return [_scalar(line, form.scalar) for line in lines]
    if form.kind is InputKind.PAIRS:
        return _pairs(lines)
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


def _pairs(lines: list[str]) -> dict[str, str]:
    pairs = [(name.strip(), value.strip()) for name, colon, value in (line.partition(":") for line in lines) if colon]
    if len(pairs) < len(lines):
        raise TypedError("Each line must be a name, a colon and a value.")
    names = [name for name, _ in pairs]
    if twice := {name for name in names if names.count(name) > 1}:
        raise TypedError(f"{min(twice)!r} is given more than once.")
    return dict(pairs)


def _scalar(text: str, type_: str) -> Any:
    if type_ == "string" or (type_ == INTEGER_OR_STRING and not (text.strip().isascii() and text.strip().isdigit())):
        return text
    if type_ == "boolean":
        if text not in {"true", "false"}:
            raise TypedError("Must be true or false.")
        return text == "true"
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise TypedError(f"{text!r} is not a number.") from None
    if not number.is_finite() or len(text) > MAX_NUMBER:
        raise TypedError(f"{text!r} is not a number.")
    is_whole = not set(".eE") & set(text)
    return int(number) if is_whole else float(text)


def _name_of(part: FormField) -> str:
    return unescaped(part.pointer.rpartition("/")[2])
