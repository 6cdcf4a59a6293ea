"""Load of a day: the starts of many timetables, minute by minute."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import add

from app.schedule.day import DayStarts


@dataclass(slots=True)
class DayLoad:
    """Sum of the starts of many timetables.

    Digits: bit n of `_digits[k]` is the binary digit k of the number of starts in the minute n, so that one addition
    counts all minutes of a timetable.
    """

    minutes: int
    starts: int = 0
    _digits: list[int] = field(default_factory=list)
    _bands: list[Sequence[int]] = field(default_factory=list)

    def add(self, more: DayStarts) -> None:
        self.starts += more.starts
        if more.of_minute is not None:
            self._bands.append(more.of_minute)
            return
        carry = more.minutes
        for number, digit in enumerate(self._digits):
            self._digits[number], carry = digit ^ carry, digit & carry
            if not carry:
                return
        if carry:
            self._digits.append(carry)

    def by_minute(self) -> list[int]:
        """Return the number of starts in each minute of the day."""
        counts = [0] * self.minutes
        for number, digit in enumerate(self._digits):
            text = f"{digit:0{self.minutes}b}"[::-1] if self.minutes else ""
            for minute, bit in enumerate(text):
                if bit == "1":
                    counts[minute] += 1 << number
        for band in self._bands:
            counts = list(map(add, counts, band))
        return counts


def busiest(by_minute: Sequence[int], most: int) -> list[int]:
    """Return up to `most` minutes with more than one start: most starts first, then the earliest."""
    minutes = [minute for minute, starts in enumerate(by_minute) if starts > 1]
    return sorted(minutes, key=lambda minute: (-by_minute[minute], minute))[:most]
