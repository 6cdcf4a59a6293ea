"""Formats of values: compact JSON, stored JSON, SQL arrays, RFC 3339, durations, JSON pointers."""

import json
import math
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, cast

from app.kernel.fault_words import worded

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_DURATION = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")
_ISO_DURATION = re.compile(r"P(?=.)(?:([0-9]{1,6})D)?(?:T(?=.)(?:([0-9]{1,7})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,9})S)?)?")
_CONSONANT_Y = tuple(f"{letter}y" for letter in "bcdfghklmnprstvz")
_SINGULAR_VERBS = {"": "", "are": "is", "have": "has", "were": "was", "would": "would"}
MAX_LEVELS = 500  # of stored JSON; a request may have a fifth of them
MAX_DIGITS = 38  # of an integer; longer integers overflow a double, the type of numbers in most readers

UNSTORABLE = re.compile("[\0\ud800-\udfff]")
"""Characters that cannot be stored: NUL on PostgreSQL, half of a surrogate pair on both databases."""
_MAY_HIDE_UNSTORABLE = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")

_CONTAINERS = frozenset({dict, list})

compact_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Write a value as JSON without spaces, in UTF-8 without escapes."""
sorted_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode
"""Write a value as JSON with the keys of objects in order. Equal numbers may be written differently: 1 and 1.0."""


def canonical_json(value: Any) -> str:
    """Write equal values as equal text, for digests: 1.0 as 1, and 1e22 in digits, as PostgreSQL stores them.

    `te_canonical_json` in `te_send.sql` writes the same.
    """
    return sorted_json(json.loads(sorted_json(value), parse_float=_whole_as_integer))


def _whole_as_integer(text: str) -> int | float:
    number = Decimal(text)
    return int(number) if number == number.to_integral_value() else float(text)


def is_same_json(one: Any, other: Any) -> bool:
    """Return whether two values are equal as JSON: Python's `1 == True`, but JSON's 1 is not true."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same_json(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same_json, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


class Unreadable(dict[str, str]):
    """Replacement of stored JSON that cannot be read or written again; `unreadable` gives the reason."""

    @property
    def why(self) -> str:
        return self["unreadable"]


def stored_json(text: str) -> Any:
    """Parse JSONB in the form of the database, which writes 1e300 with three hundred digits.

    An integer longer than a request may hold was a floating-point number. Manually written rows may hold values that no
    parser here reads, or that cannot be written as JSON again. An error would end the statement, and with it the claims
    and lists of all other rows, so such a value becomes an Unreadable.
    """
    try:
        value = _STORED.decode(text)
    except RecursionError:
        return _too_deep()
    except _TooLargeError:
        return Unreadable(unreadable="a number in it is too large")
    # Counting brackets is much faster than the check, and few values have that many.
    may_be_deep = len(text) > MAX_LEVELS and text.count("[") + text.count("{") > MAX_LEVELS
    return _too_deep() if may_be_deep and is_deeper(value, MAX_LEVELS) else value


def is_deeper(value: object, levels: int) -> bool:
    level: list[Any] = [value] if type(value) in _CONTAINERS else []
    for _ in range(levels):
        level = [
            part
            for each in level
            for part in (each.values() if type(each) is dict else each)
            if type(part) in _CONTAINERS
        ]
        if not level:
            return False
    return any(level)


def is_unstorable(value: object, text: str) -> bool:
    """Return whether parsed JSON has a character that cannot be stored; `text`, its JSON, is searched first: faster."""
    return bool(_MAY_HIDE_UNSTORABLE.search(text)) and any(UNSTORABLE.search(string) for string in _strings(value))


def storable(text: str) -> str:
    """Return a text with a question mark for each character that cannot be stored."""
    return UNSTORABLE.sub("?", text)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        yield from _strings(list(value.values()))
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def array_literal(values: Iterable[object]) -> str:
    """Write values as the text of an SQL array, to be cast to its type; None becomes NULL.

    A list as parameter becomes an expression per value, which costs the driver and the parser three times as much.
    """
    given = [*values]
    types = {*map(type, given)}
    if types == {int}:
        return "{" + ",".join(map(str, given)) + "}"
    if types == {str}:
        array = '{"' + '","'.join(cast("list[str]", given)) + '"}'
        if "\\" not in array and array.count('"') == 2 * len(given):
            return array  # nothing to escape: such as ids, six times as fast
    texts = [
        "NULL" if value is None else '"' + str(value).replace("\\", r"\\").replace('"', r"\"") + '"' for value in given
    ]
    return "{" + ",".join(texts) + "}"


def rfc3339(instant: datetime, timespec: str = "auto") -> str:
    """Write an instant in RFC 3339, with `Z` for UTC; `timespec` as for `datetime.isoformat`."""
    return instant.isoformat(timespec=timespec).replace("+00:00", "Z")


def duration_ms(text: object) -> int | None:
    """Read a duration with a unit, such as `500ms`, `10s`, `5m`, `2h` or `1d`; None for any other value."""
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    return int(match[1]) * _UNITS[match[2]] if match else None


def iso_duration_ms(text: object) -> int | None:
    """Read a duration of ISO 8601 in days, hours, minutes and whole seconds, such as `PT10M`; None otherwise."""
    match = _ISO_DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    return sum(int(number or 0) * _UNITS[unit] for number, unit in zip(match.groups(), "dhms", strict=True))


def show_duration(milliseconds: int) -> str:
    """Write a duration in the largest unit that divides it."""
    unit, size = next((unit, size) for unit, size in _UNITS.items() if milliseconds % size == 0)
    return f"{milliseconds // size}{unit}"


def pointer(path: Iterable[object]) -> str:
    """Write a path as a JSON pointer (RFC 6901)."""
    return "".join(f"/{escaped(str(part))}" for part in path)


def escaped(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")


def unescaped(part: str) -> str:
    """Return the name that a part of a JSON pointer stands for."""
    return part.replace("~1", "/").replace("~0", "~")


def numbered(number: int, noun: str, predicate: str = "", *, or_more: bool = False) -> str:
    """Write a number, its noun and a predicate in the plural, such as `1 job is due` for (1, "job", "are due")."""
    if number == 1 and not or_more:
        verb, _, rest = predicate.partition(" ")
        return f"1 {noun} {_SINGULAR_VERBS.get(verb, f'{verb}s')} {rest}".rstrip()
    ending = "es" if noun.endswith(("ch", "ss")) else "s"
    plural = f"{noun[:-1]}ies" if noun.endswith(_CONSONANT_Y) else f"{noun}{ending}"
    return f"{number:,}{' or more' if or_more else ''} {plural} {predicate}".rstrip()


def marshmallow_faults(messages: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Flatten marshmallow's tree of messages into pairs of a path and a message."""
    if isinstance(messages, dict):
        for key, below in messages.items():
            # marshmallow files the faults of a whole object under "_schema".
            yield from marshmallow_faults(below, path if key == "_schema" else (*path, str(key)))
    elif isinstance(messages, list):
        for message in messages:
            yield from marshmallow_faults(message, path)
    else:
        yield path, worded(str(messages))


class _TooLargeError(Exception):
    """A number exceeds a double: it would become Infinity, which is not JSON."""


def _integer(text: str) -> int | float:
    return int(text) if len(text.lstrip("-")) <= MAX_DIGITS else _finite(text)


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _TooLargeError
    return value


def _too_deep() -> Unreadable:
    return Unreadable(unreadable=f"it is nested deeper than {MAX_LEVELS} levels")


_STORED = json.JSONDecoder(parse_int=_integer, parse_float=_finite)
