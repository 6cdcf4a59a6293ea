"""Cron schedules: every tick occurs once, at any change of a zone's clock.

The expected ticks come from a search minute by minute that reads the wall clock, as a cron daemon does.
"""

import bisect
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from app.kernel.errors import InvalidCronError
from app.schedule.cron import Schedule
from app.schedule.cron_expression import CronExpression
from app.schedule.zones import time_zone
from tests.cases import IS_WHOLE, choice_of, each_case
from tests.ticks import ticks_between
from tests.unit.schedule.expressions import field

MINUTE = timedelta(minutes=1)


# Changes by an hour, half an hour, two hours, a whole day; at midnight, at 2:00, at odd minutes; once or twice a year.
ZONES = [
    "Europe/Berlin",
    "Europe/Dublin",
    "America/New_York",
    "America/Sao_Paulo",
    "America/Havana",
    "America/St_Johns",
    "America/Caracas",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
    "Africa/Casablanca",
    "Asia/Tehran",
    "Asia/Pyongyang",
    "Pacific/Apia",
    "Pacific/Chatham",
]


@cache
def transitions(zone: str) -> list[datetime]:
    """Find the instants from 1990 to 2030 at which a zone's clock changes."""
    info, found = time_zone(zone), []
    begin, end = int(datetime(1990, 1, 1, tzinfo=UTC).timestamp()), int(datetime(2030, 1, 1, tzinfo=UTC).timestamp())

    def offset(second: int) -> timedelta | None:
        return datetime.fromtimestamp(second, info).utcoffset()

    for day in range(begin, end, 86400):
        if offset(day) != offset(day + 86400):
            after = bisect.bisect_left(range(day, day + 86400), True, key=lambda s, d=day: offset(s) != offset(d))
            found.append(datetime.fromtimestamp(day + after, UTC))
    return found


def matches(fields: CronExpression, wall: datetime) -> bool:
    by_day = wall.day in fields.days
    by_weekday = wall.isoweekday() % 7 in fields.weekdays
    day = (by_day or by_weekday) if fields.either_day else (by_day and by_weekday)
    return day and wall.month in fields.months and wall.hour in fields.hours and wall.minute in fields.minutes


def ticks(text: str, zone: str, begin: datetime, end: datetime) -> Iterator[datetime]:
    """Yield the ticks in (begin, end], minute by minute, by the latest wall time seen so far."""
    fields, info = CronExpression.parse(text), time_zone(zone)
    elapsed = len(fields.hours) == 24 or text.startswith("*")
    # Start early enough to know the wall times of the first pass: no clock here goes back by more than two hours.
    now = begin.replace(second=0, microsecond=0) - timedelta(hours=3)
    latest = now.astimezone(info).replace(tzinfo=None) - MINUTE
    while (now := now + MINUTE) <= end:
        wall = now.astimezone(info).replace(tzinfo=None, fold=0)
        first_pass = wall > latest
        fires = matches(fields, wall) and (first_pass or elapsed)
        if first_pass and len(fields.hours) < 24:
            skipped = (wall - latest) // MINUTE - 1
            fires = fires or any(matches(fields, latest + n * MINUTE) for n in range(1, skipped + 1))
        latest = max(latest, wall)
        if fires and now > begin:
            yield now


@st.composite
def expressions(draw: st.DrawFn) -> str:
    # Mostly open days; otherwise hardly any window would contain a tick.
    days = draw(st.one_of(st.just("*"), field(1, 31)))
    weekdays = draw(st.one_of(st.just("*"), field(0, 7)))
    return f"{draw(field(0, 59))} {draw(field(0, 23))} {days} * {weekdays}"


@pytest.mark.sampled
@settings(max_examples=120 if IS_WHOLE else 40, deadline=None)
@given(st.sampled_from(ZONES), st.data(), expressions(), st.integers(-14 * 3600, 3 * 3600), st.integers(60, 900))
def test_ticks_around_a_clock_change_match_the_wall_clock(
    zone: str, data: st.DataObject, text: str, lead: int, minutes: int
) -> None:
    begin = data.draw(st.sampled_from(transitions(zone))) + timedelta(seconds=lead)
    end = begin + minutes * MINUTE
    try:
        schedule = Schedule.parse(text, zone)
    except InvalidCronError:
        assume(False)
    assert ticks_between(schedule, begin, end) == list(ticks(text, zone, begin, end))


@pytest.mark.sampled
@each_case("zone", choice_of(ZONES, 3))
@each_case("text", ["30 2 * * *", "*/20 0-4 * * *", "15 * * * *", "0 0,3 * * *"])
def test_ticks_at_recent_clock_changes_of_a_zone_match_the_wall_clock(zone: str, text: str) -> None:
    schedule = Schedule.parse(text, zone)
    for change in transitions(zone)[-14:]:
        begin, end = change - timedelta(hours=3), change + timedelta(hours=4)
        assert ticks_between(schedule, begin, end) == list(ticks(text, zone, begin, end))


@pytest.mark.sampled
@settings(max_examples=200 if IS_WHOLE else 60, deadline=None)
@given(
    st.sampled_from([*ZONES, "UTC", "Asia/Kathmandu"]),
    expressions(),
    st.integers(0, 4_070_908_800).map(lambda second: datetime.fromtimestamp(second, UTC)),
)
@example("Europe/Berlin", "0 0 29 2 */7", datetime(2072, 3, 1, tzinfo=UTC))
def test_ticks_strictly_increase_and_match_the_expression(zone: str, text: str, start: datetime) -> None:
    try:
        schedule = Schedule.parse(text, zone)
    except InvalidCronError:
        assume(False)
    fields, tick, info = CronExpression.parse(text), start, time_zone(zone)
    for _ in range(5):
        following = schedule.next_after(tick)
        assert following is not None
        assert following > tick
        assert following.tzinfo is UTC
        wall = following.astimezone(info)
        # A tick without a match follows a clock that has just been set forward.
        jumped = (following - MINUTE).astimezone(info).utcoffset() != wall.utcoffset()
        assert matches(fields, wall) or jumped
        tick = following
