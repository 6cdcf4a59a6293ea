"""Differences between two versions of a definition: one line for each value, named by its path."""

from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any, NamedTuple

from app.kernel.formats import canonical_json

LONGEST = 400  # characters of a value
ABSENT = ""
_QUOTED = frozenset('."')

Path = tuple[str, ...]


class ChangedValue(NamedTuple):
    """A value that differs; an empty text stands for a value that is absent."""

    path: str
    before: str
    after: str


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[ChangedValue]:
    """Return the values that differ as JSON, by their paths such as `spec.timeout_ms`; lists are compared as a whole.

    A field without a value is None. Within a field, null is a value.
    """
    old, new = (
        {path: value for name, each in fields.items() if each is not None for path, value in _flat((name,), each)}
        for fields in (before, after)
    )
    return [
        ChangedValue(".".join(map(_quoted, path)), *_texts(old.get(path), new.get(path)))
        for path in sorted({*old, *new})
        if _json(old.get(path)) != _json(new.get(path))
    ]


def _flat(path: Path, value: Any) -> "Iterator[tuple[Path, list[Any]]]":
    """Yield the paths of the values within a value; each value is in a list, unlike a value that is absent."""
    if isinstance(value, Mapping) and value:
        for name, each in value.items():
            yield from _flat((*path, str(name)), each)
    else:
        yield path, [value]


def _quoted(name: str) -> str:
    return name if name and _QUOTED.isdisjoint(name) else canonical_json(name)


def _json(value: list[Any] | None) -> str:
    return ABSENT if value is None else canonical_json(value[0])


def _texts(old: list[Any] | None, new: list[Any] | None) -> tuple[str, str]:
    return different_texts((_plain(old), _plain(new)), (_json(old), _json(new)))


def different_texts(plain: tuple[str, str], exact: tuple[str, str]) -> tuple[str, str]:
    """Return plain texts of two different values, or exact ones if these look alike; cut around their difference."""
    before, after = exact if plain[0].split() == plain[1].split() else plain
    if max(len(before), len(after)) <= LONGEST:
        return before, after
    equal = takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
    differ_at = sum(1 for _ in equal)
    start = max(0, differ_at - LONGEST // 2)
    return _cut(before, start), _cut(after, start)


def _plain(value: list[Any] | None) -> str:
    return value[0] if value and isinstance(value[0], str) and value[0] else _json(value)


def _cut(text: str, start: int) -> str:
    end = start + LONGEST
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
