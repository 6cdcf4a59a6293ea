"""Stored inputs as the texts of a form, for a job like another job and for the editor of a schedule."""

import json
from collections.abc import Iterator
from typing import Any

from app.console.views.input_field import COUNT, InputKind, every_field
from app.console.views.json_text import indented
from app.console.views.schema_form import Schema, form_of
from app.console.views.typed_input import typed_input
from app.kernel.formats import escaped


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
        yield from _parts(f"{pointer}/{escaped(str(name))}", part)


def _written(kind: InputKind, value: Any) -> str:
    if kind is InputKind.JSON:
        return indented(value)
    if kind is InputKind.LINES and isinstance(value, list):
        return "\n".join(_written(InputKind.TEXT, each) for each in value)
    return value if isinstance(value, str) else json.dumps(value)
