"""Stored values as the texts of a form: inputs of jobs, and parts of the definition of an endpoint."""

import json
from collections.abc import Iterator
from typing import Any

from app.console.views.input_field import COUNT, ROOT, FormField, InputKind, every_field
from app.console.views.json_text import indented
from app.console.views.schema_form import Schema, form_of
from app.console.views.typed_input import typed_input
from app.kernel.formats import escaped

_GROUPS = frozenset({InputKind.GROUP, InputKind.ITEMS})


def texts_of(schema: Schema | None, value: Any, name: str = ROOT) -> dict[str, str] | None:
    """Return the texts that show a stored value in the form of a schema; None if the form cannot show all of it."""
    parts = dict(_parts("", value))
    counts = {f"{COUNT}{name}{pointer}": str(len(part)) for pointer, part in parts.items() if isinstance(part, list)}
    fields = [each for each in every_field(form_of(schema, counts, name)) if each.pointer in parts]
    texts = counts | {each.name: _written(each, parts[each.pointer]) for each in fields if each.kind not in _GROUPS}
    # Browsers send each end of a line alike, and none at the beginning of a text.
    if any("\r" in text or text.startswith("\n") for text in texts.values()):
        return None
    found, faults = typed_input(form_of(schema, texts, name))
    # As JSON: 1 is neither 1.0 nor true.
    return texts if not faults and json.dumps(found, sort_keys=True) == json.dumps(value, sort_keys=True) else None


def _parts(pointer: str, value: Any) -> Iterator[tuple[str, Any]]:
    yield pointer, value
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        yield from _parts(f"{pointer}/{escaped(str(name))}", part)


def _written(field: FormField, value: Any) -> str:
    if field.kind is InputKind.JSON:
        return indented(value)
    if field.kind is InputKind.PAIRS and isinstance(value, dict):
        return "\n".join(f"{name}: {each}" for name, each in value.items())
    if field.kind is InputKind.LINES and isinstance(value, list):
        return "\n".join(each if isinstance(each, str) else json.dumps(each) for each in value)
    return value if isinstance(value, str) else json.dumps(value)
