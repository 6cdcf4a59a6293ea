"""Changes between two JSON values: each changed place with its values before and after."""

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from app.console.views.difference import different_texts
from app.kernel.formats import is_same_json

MAX_CHANGES = 200


class Absent:
    """A value that one side does not have."""


ABSENT = Absent()


class JsonChange(NamedTuple):
    """A changed place; an empty text is a value that one side does not have."""

    place: str
    before: str
    after: str


def changes_of(before: Any, after: Any) -> list[JsonChange]:
    """List the changes, the first MAX_CHANGES of them."""
    found = islice(_changes("", before, after), MAX_CHANGES)
    return [
        JsonChange(place, *different_texts((_plain(old), _plain(new)), (_json(old), _json(new))))
        for place, old, new in found
    ]


def is_of(change: JsonChange, field: str) -> bool:
    """Return whether a change is of a field, or within it."""
    return change.place == field or change.place.startswith(f"{field}.")


def without_values(change: JsonChange) -> JsonChange:
    """Return a change that only says that there is one."""
    return JsonChange(change.place, *("closed" if text else "" for text in (change.before, change.after)))


def _changes(place: str, before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in dict.fromkeys([*before, *after]):
            where = f"{place}.{name}" if place else str(name)
            yield from _changes(where, before.get(name, ABSENT), after.get(name, ABSENT))
    elif not is_same_json(before, after):
        yield place, before, after


def _plain(value: Any) -> str:
    return value if isinstance(value, str) and value else _json(value)


def _json(value: Any) -> str:
    return "" if value is ABSENT else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
