"""Strips of a day: pictures of starts along the minutes of a day, as numbers for SVG."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from app.schedule.day import Day, runs_of

SLOT = 10  # minutes of a bar
BAR_HEIGHT = 60
STRIP_HEIGHT = 10
TICK = 4  # minutes: width of a single start
DENSE = 5  # minutes: starts that are closer are drawn as a band
HOURS_APART = 3


class HourMark(NamedTuple):
    """A full hour: its minute on the axis, also in percent of the day, and its local time."""

    at: int
    percent: float
    label: str


class Bar(NamedTuple):
    """Starts of some minutes: the busiest minute decides the height."""

    at: int
    width: int
    height: float
    starts: int
    most: int
    label: str


class Band(NamedTuple):
    at: int
    width: int


class Dash(NamedTuple):
    """Starts at equal distances, as a dashed line: its path, and the gap between two starts."""

    path: str
    gap: int


class Strip(NamedTuple):
    """Starts of one schedule: single starts as dashes, frequent starts as bands."""

    dashes: Sequence[Dash]
    bands: Sequence[Band]


def hours_of(day: Day) -> list[HourMark]:
    """Return every third full hour of the day's clock; a clock change moves the later hours."""
    found: list[HourMark] = []
    for minute in range(0, day.minutes, 30):
        local = day.at(minute)
        if local.minute == 0 and local.hour % HOURS_APART == 0 and not (found and found[-1].label == f"{local:%H}"):
            found.append(HourMark(minute, round(100 * minute / day.minutes, 2), f"{local:%H}"))
    return found


def path_of(hours: Sequence[HourMark], height: int) -> str:
    """Return the lines of full hours as one path: a list of schedules has a strip in each row."""
    return "".join(f"M{hour.at} 0V{height}" for hour in hours)


def bars_of(day: Day, by_minute: Sequence[int]) -> list[Bar]:
    """Return the bars with starts, scaled to the busiest minute of the day."""
    most, found = max(by_minute, default=0), list[Bar]()
    for at in range(0, len(by_minute), SLOT):
        part = by_minute[at : at + SLOT]
        if starts := sum(part):
            height = max(1.5, BAR_HEIGHT * max(part) / most)
            found.append(Bar(at, len(part), round(height, 1), starts, max(part), f"{day.at(at):%H:%M}"))
    return found


@lru_cache(maxsize=1024)
def strip_of(minutes: int) -> Strip:
    """Draw the bits of `DayStarts.minutes`: a few elements for any number of starts.

    Cached, since many schedules have the same starts, day after day.
    """
    dashes, bands = list[Dash](), list[Band]()
    for first, last, step in runs_of(minutes):
        if step <= DENSE and last > first:
            bands.append(Band(first, last - first + step))
        else:
            dashes.append(Dash(f"M{first} 5H{last + TICK}", max(step - TICK, TICK)))
    return Strip(tuple(dashes), tuple(bands))
