"""Cron expressions: five fields, parsed strictly into the sets of values they match.

croniter accepts far more than crontab(5) (seconds, years, L, W, #, ?, hashes, ranges that wrap) and reads some of it
in its own way (`9-9` in the hours means all day), so the text is parsed here and croniter only gets plain lists.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import NamedTuple

from app.kernel.errors import Detail, InvalidCronError

MAX_LENGTH = 512

WORDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
SUPPORTED = (
    "Use five fields: minute (0-59), hour (0-23), day of month (1-31), month (1-12 or JAN-DEC), "
    "day of week (0-7 or SUN-SAT); each is *, a value, a range a-b, a step */n, a-b/n or a/n, "
    f"or a comma-separated list of these. Or use one of {', '.join(WORDS)}."
)

_MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
_LONGEST_MONTH = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}
_ITEM = re.compile(
    r"(?:(?P<star>\*)|(?P<low>[0-9]{1,2}|[A-Z]{3})(?:-(?P<high>[0-9]{1,2}|[A-Z]{3}))?)(?:/(?P<step>[0-9]{1,2}))?"
)


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    names: Mapping[str, int]

    @property
    def size(self) -> int:
        return self.high - self.low + 1


_FIELDS = (
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day of month", 1, 31, {}),
    _Field("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, start=1)}),
    _Field("day of week", 0, 7, {name: number for number, name in enumerate(_WEEKDAYS)}),
)


class CronExpression(NamedTuple):
    """Values that each field matches; Sunday is 0.

    `either_day` is crontab(5)'s rule: if neither day field begins with `*`, one match is enough, otherwise both must
    match. `sub_hourly`: the minute field begins with `*`.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    either_day: bool
    sub_hourly: bool

    @classmethod
    def parse(cls, text: str) -> "CronExpression":
        """Parse an expression; raises InvalidCronError if it is malformed or matches no date."""
        if len(text) > MAX_LENGTH or not text.isascii():
            raise _invalid(f"Must have at most {MAX_LENGTH} ASCII characters.")
        text = text.strip(" \t")
        fields = re.split(r"[ \t]+", WORDS.get(text.lower(), text).upper())
        if len(fields) != len(_FIELDS):
            raise _invalid(f"{text!r} is not a cron expression.")
        minutes, hours, days, months, weekdays = map(_values, _FIELDS, fields)
        expression = cls(
            minutes,
            hours,
            days,
            months,
            weekdays,
            either_day=not fields[2].startswith("*") and not fields[4].startswith("*"),
            sub_hourly=fields[0].startswith("*"),
        )
        if not expression.either_day and not expression.has_day_of_month():
            raise _invalid(f"{text!r} never fires: no month of its list has such a day.")
        return expression

    def matches(self, wall: datetime) -> bool:
        return self.matches_date(wall) and wall.hour in self.hours and wall.minute in self.minutes

    def matches_date(self, date: date) -> bool:
        by_day, by_weekday = date.day in self.days, date.isoweekday() % 7 in self.weekdays
        day = (by_day or by_weekday) if self.either_day else (by_day and by_weekday)
        return day and date.month in self.months

    @property
    def minutes_of_day(self) -> int:
        """Return the minutes of a matching date as bits: bit n is the minute n."""
        hour = sum(1 << minute for minute in self.minutes)
        return sum(hour << 60 * number for number in self.hours)

    def has_day_of_month(self) -> bool:
        """True if one of the months has one of the days; 29 February eventually falls on every weekday."""
        return min(self.days) <= max(_LONGEST_MONTH.get(month, 31) for month in self.months)


def listed(values: Sequence[int], size: int) -> str:
    """Write the values of a field as a list, or `*` for all `size` values."""
    return "*" if len(values) == size else ",".join(map(str, values))


def _values(field: _Field, text: str) -> tuple[int, ...]:
    values: set[int] = set()
    for item in text.split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise _invalid(f"{item!r} is not valid as {field.name}.")
        low, high = _range(field, item, match)
        step = int(match["step"] or 1)
        if not 1 <= step <= field.size:
            raise _invalid(f"{item!r} is not valid as {field.name}: the step must be from 1 to {field.size}.")
        values.update(range(low, high + 1, step))
    if field.name == "day of week":
        values = {value % 7 for value in values}  # 0 and 7 are Sunday
    return tuple(sorted(values))


def _range(field: _Field, item: str, match: re.Match[str]) -> tuple[int, int]:
    if match["star"]:
        return field.low, field.high
    low = _number(field, item, match["low"])
    if match["high"] is None:
        return low, field.high if match["step"] else low
    high = _number(field, item, match["high"])
    if match["high"] == "SUN" and low > high:
        high = 7  # MON-SUN: at the end of a range Sunday closes the week
    if low > high:
        raise _invalid(f"{item!r} is not valid as {field.name}: the range runs backwards.")
    return low, high


def _number(field: _Field, item: str, text: str) -> int:
    number = field.names.get(text, -1) if text.isalpha() else int(text)
    if not field.low <= number <= field.high:
        raise _invalid(f"{item!r} is not valid as {field.name}.")
    return number


def _invalid(reason: str) -> InvalidCronError:
    return InvalidCronError(
        f"The request is not valid. /cron: {reason} {SUPPORTED}", [Detail(pointer="/cron", message=reason)]
    )
