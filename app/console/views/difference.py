"""Differences between two versions of a definition: one line for each value, named by its path."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.kernel.formats import compact_json

LONGEST = 400  # characters of a value
ABSENT = ""


@dataclass(frozen=True, slots=True)
class ChangedValue:
    """A value that differs; an empty text stands for a value that is absent."""

    path: str
    before: str
    after: str


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[ChangedValue]:
    """Return the values that differ, by their paths such as `spec.timeout_ms`; lists are compared as a whole."""
    old, new = dict(_flat("", before)), dict(_flat("", after))
    paths = sorted({*old, *new})
    return [ChangedValue(path, _text(old, path), _text(new, path)) for path in paths if old.get(path) != new.get(path)]


def _flat(prefix: str, value: Any) -> "list[tuple[str, Any]]":
    if isinstance(value, Mapping) and value:
        return [
            pair for name, each in value.items() for pair in _flat(f"{prefix}.{name}" if prefix else str(name), each)
        ]
    return [] if value is None or not prefix else [(prefix, value)]


def _text(values: Mapping[str, Any], path: str) -> str:
    if path not in values:
        return ABSENT
    text = values[path] if isinstance(values[path], str) else compact_json(values[path])
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
