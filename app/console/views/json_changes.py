"""Changes between two JSON values: each changed place with its values before and after."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MAX_CHANGES, MAX_TEXT = 200, 500


class Absent:
    """A value that one side does not have."""


ABSENT = Absent()


@dataclass(frozen=True, slots=True)
class JsonChange:
    """A changed place; an empty text is a value that one side does not have."""

    place: str
    before: str
    after: str


def changes_of(before: Any, after: Any) -> list[JsonChange]:
    """List the changes, the first MAX_CHANGES of them."""
    found = [JsonChange(place, _written(old), _written(new)) for place, old, new in _changes("", before, after)]
    return found[:MAX_CHANGES]


def _changes(place: str, before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in dict.fromkeys([*before, *after]):
            where = f"{place}.{name}" if place else str(name)
            yield from _changes(where, before.get(name, ABSENT), after.get(name, ABSENT))
    elif before is not after and (type(before) is not type(after) or before != after):
        yield place, before, after


def _written(value: Any) -> str:
    if value is ABSENT:
        return ""
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
