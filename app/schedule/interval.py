"""Intervals: instants at equal distances from a start, by elapsed time."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.errors import Detail, InvalidRequestError

SHORTEST_MS = 1000
LONGEST_MS = 366 * 86_400_000
_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_TEXT = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")


@dataclass(frozen=True, slots=True)
class Interval:
    """A tick at `start`, and one every `every_ms` milliseconds after it."""

    start: datetime
    every_ms: int

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first tick strictly after an instant; None when the calendar ends before it."""
        if instant < self.start:
            return self.start
        every = timedelta(milliseconds=self.every_ms)
        try:
            return self.start + ((instant - self.start) // every + 1) * every
        except OverflowError:
            return None


def parse_every(value: object) -> int:
    """Parse `every` ("500ms", "10s", "5m", "2h", "1d", or a number of milliseconds) into milliseconds.

    Raises InvalidRequestError for anything else, and for an interval that is not between a second and 366 days.
    """
    milliseconds = None
    if isinstance(value, int) and not isinstance(value, bool):
        milliseconds = value
    elif isinstance(value, str) and (match := _TEXT.fullmatch(value)):
        milliseconds = int(match[1]) * _UNITS[match[2]]
    if milliseconds is None:
        raise _invalid("must be a number with a unit, such as 10s, 5m, 2h or 1d, or milliseconds")
    if not SHORTEST_MS <= milliseconds <= LONGEST_MS:
        raise _invalid("must be from one second to 366 days")
    return milliseconds


def show_every(milliseconds: int) -> str:
    """Return an interval as text in the largest unit that divides it."""
    unit, size = next((unit, size) for unit, size in _UNITS.items() if milliseconds % size == 0)
    return f"{milliseconds // size}{unit}"


def _invalid(message: str) -> InvalidRequestError:
    return InvalidRequestError(f"every {message}", [Detail(pointer="/every", message=message)])
