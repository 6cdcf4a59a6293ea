"""Intervals: instants at equal distances from a start, by elapsed time."""

from datetime import datetime, timedelta
from typing import NamedTuple

from app.kernel.errors import Detail, InvalidRequestError
from app.kernel.formats import duration_ms

SHORTEST_MS = 10
LONGEST_MS = 366 * 86_400_000


class Interval(NamedTuple):
    """A tick at `start`, and one every `every_ms` milliseconds after it."""

    start: datetime
    every_ms: int

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first tick strictly after an instant; None when the calendar ends before it."""
        if instant < self.start:
            return self.start
        try:
            return self.tick((instant - self.start) // self._every + 1)
        except OverflowError:
            return None

    def numbers(self, after: datetime, until: datetime) -> range:
        """Return the numbers of the ticks later than `after` and not later than `until`; `start` has number 0."""
        every = self._every
        first, last = (after - self.start) // every, (until - self.start) // every
        return range(max(0, first + 1), max(0, last + 1))

    def tick(self, number: int) -> datetime:
        """Return the tick with a number; raises OverflowError beyond the end of the calendar."""
        return self.start + number * self._every

    @property
    def _every(self) -> timedelta:
        return timedelta(milliseconds=self.every_ms)


def parse_every(value: object) -> int:
    """Parse `every` ("10ms", "10s", "5m", "2h", "1d", or a number of milliseconds) into milliseconds.

    Raises InvalidRequestError for anything else, and for an interval that is not between 10 ms and 366 days.
    """
    milliseconds = value if isinstance(value, int) and not isinstance(value, bool) else duration_ms(value)
    if milliseconds is None:
        raise _invalid("Must be a number with a unit, such as 500ms, 10s, 5m, 2h or 1d, or milliseconds.")
    if not SHORTEST_MS <= milliseconds <= LONGEST_MS:
        raise _invalid(f"Must be from {SHORTEST_MS} ms to 366 days.")
    return milliseconds


def _invalid(message: str) -> InvalidRequestError:
    return InvalidRequestError.of_faults(Detail(pointer="/every", message=message))
