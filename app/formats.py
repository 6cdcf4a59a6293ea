"""Formats of values: compact JSON, stored JSON, SQL arrays, RFC 3339, durations, JSON pointers."""

import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_DURATION = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")
MAX_DIGITS = 38  # of an integer; longer ones overflow a double, which is what most readers hold numbers in

compact_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Write a value as JSON without spaces, with other scripts than Latin as they are."""


def stored_json(text: str) -> Any:
    """Parse JSONB as the database writes it: it keeps 1e300 as a decimal and shows it with three hundred digits.

    An integer longer than a request may hold was a floating-point number.
    """
    return _STORED.decode(text)


def array_literal(values: Iterable[object]) -> str:
    """Write values as the text of an SQL array, to be cast to its type.

    A list becomes an expression for each of its values, which costs the driver and the parser three times as much.
    """
    texts = [str(value).replace("\\", r"\\").replace('"', r"\"") for value in values]
    return '{"' + '","'.join(texts) + '"}' if texts else "{}"


def rfc3339(instant: datetime, timespec: str = "auto") -> str:
    """Write an instant in RFC 3339, with `Z` for UTC; `timespec` is that of `datetime.isoformat`."""
    return instant.isoformat(timespec=timespec).replace("+00:00", "Z")


def duration_ms(text: object) -> int | None:
    """Read a duration with a unit, such as `500ms`, `10s`, `5m`, `2h` or `1d`; None for whatever is not one."""
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    return int(match[1]) * _UNITS[match[2]] if match else None


def show_duration(milliseconds: int) -> str:
    """Write a duration in the largest unit that divides it."""
    unit, size = next((unit, size) for unit, size in _UNITS.items() if milliseconds % size == 0)
    return f"{milliseconds // size}{unit}"


def pointer(path: Iterable[object]) -> str:
    """Write a path as a JSON pointer (RFC 6901)."""
    return "".join(f"/{escaped(str(part))}" for part in path)


def escaped(part: str) -> str:
    """Escape one part of a JSON pointer."""
    return part.replace("~", "~0").replace("/", "~1")


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
        yield path, str(messages)


def _integer(text: str) -> int | float:
    return int(text) if len(text.lstrip("-")) <= MAX_DIGITS else float(text)


_STORED = json.JSONDecoder(parse_int=_integer)
