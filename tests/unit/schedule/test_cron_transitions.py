"""Cron schedules at every clock change from 2020 to 2035 in many zones, compared with the evaluator cronsim.

Both agree on the matching local times. A skipped time of fixed hours runs once after the gap, a repeated time runs the
first time, and hourly schedules follow the clock. cronsim recognises "fixed hours" by the spelling (no `*` at the
beginning of the minutes or hours), this project by the values, see app/schedule/cron.py. If the two differ, the
tables below are the specification.
"""

import bisect
import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from cronsim import CronSim
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from app.kernel.errors import InvalidCronError
from app.schedule.cron import Schedule
from app.schedule.cron_expression import CronExpression
from app.schedule.zones import time_zone
from tests.cases import IS_WHOLE, choice_of, each_case
from tests.clock_changes import ZONES, transitions
from tests.ticks import ticks_between
from tests.unit.schedule.expressions import field

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
FIXED = ["30 2 * * *", "0 0 * * *", "15,45 1-3 * * *", "0 0,3 * * SUN", "5 1-2 * * *", "59 23 * * *", "0 3 1-7 * 0"]
HOURLY = ["0 * * * *", "*/20 * * * *", "15,45 * * * *", "30 * * * SUN"]


def shift(zone: str, change: datetime) -> timedelta:
    """Return how far a change sets the clock forward; negative if the clock goes back."""
    info = time_zone(zone)
    before, after = (change - timedelta(seconds=1)).astimezone(info), change.astimezone(info)
    return after.utcoffset() - before.utcoffset()  # type: ignore[operator]


def by_cronsim(text: str, zone: str, begin: datetime, end: datetime) -> list[datetime]:
    """List the ticks of cronsim in (begin, end], without duplicates of several local times at one instant."""
    found: list[datetime] = []
    # cronsim reads a step over a range of one value, 5-5/2, as 5/2.
    text = re.sub(r"\b(\d+)-\1/\d+", r"\1", text)
    # cronsim starts from a local time: use an unambiguous time before the window.
    for tick in CronSim(text, (begin - 3 * HOUR).astimezone(time_zone(zone))):
        instant = tick.astimezone(UTC)
        if instant > end:
            return found
        if instant > begin and instant not in found[-1:]:
            found.append(instant)
    return found


def test_example_zones_have_changes_of_every_kind() -> None:
    shifts = {shift(zone, change) for zone in ZONES for change in transitions(zone)}
    assert {n * HOUR / 2 for n in (-4, -2, -1, 1, 2, 4)} <= shifts
    assert sum(len(transitions(zone)) for zone in ZONES) > 450


@pytest.mark.sampled
@each_case("zone", choice_of(ZONES, 4))
def test_ticks_at_every_change_of_a_zone_equal_those_of_cronsim(zone: str) -> None:
    for text in FIXED + HOURLY:
        schedule = Schedule.parse(text, zone)
        for change in transitions(zone):
            if text in HOURLY and shift(zone, change) % HOUR:
                continue  # cronsim skips the rest of an hour that is set back by half an hour: see the tables
            begin, end = change - 5 * HOUR, change + 6 * HOUR
            assert ticks_between(schedule, begin, end) == by_cronsim(text, zone, begin, end), (text, zone, change)


def stars(low: int, high: int) -> st.SearchStrategy[str]:
    return st.one_of(st.just("*"), st.integers(1, high - low).map(lambda step: f"*/{step}"))


@st.composite
def days(draw: st.DrawFn) -> str:
    mostly_open = st.sampled_from(["*", "*", "*", "1-28", "*/2"])
    months = draw(st.one_of(st.just("*"), st.just("*"), field(1, 12)))
    return f"{draw(st.one_of(mostly_open, field(1, 31)))} {months} {draw(st.one_of(st.just('*'), field(0, 7)))}"


@st.composite
def questions(draw: st.DrawFn, *, agreed: bool) -> tuple[str, str, datetime]:
    """Draw an expression, a zone and a clock change; `agreed` leaves out cases in which cronsim has another rule."""
    zone = draw(st.sampled_from([zone for zone in ZONES if transitions(zone)]))
    change = draw(st.sampled_from(transitions(zone)))
    open_minutes, closed_minutes, closed_hours = stars(0, 59), field(0, 59), field(0, 23)
    if agreed:
        closed_minutes = closed_minutes.filter(lambda text: not text.startswith("*"))
        closed_hours = closed_hours.filter(lambda text: not text.startswith("*"))
    kinds = [st.tuples(closed_minutes, closed_hours)]
    if not agreed or shift(zone, change) % HOUR == timedelta(0):
        kinds.append(st.tuples(st.one_of(open_minutes, closed_minutes), st.just("*")))
    # cronsim continues by whole hours, so it skips repeated times when an hour changes in its middle.
    repeats_hours = shift(zone, change) % HOUR == timedelta(0) > shift(zone, change)
    if not agreed or (repeats_hours and change.astimezone(time_zone(zone)).minute == 0):
        kinds.append(st.tuples(open_minutes, closed_hours))
    minutes, hours = draw(st.one_of(kinds))
    text = f"{minutes} {hours} {draw(days())}"
    try:
        fields = CronExpression.parse(text)
    except InvalidCronError:
        assume(False)
    assume(not agreed or hours == "*" or len(fields.hours) < 24)
    return text, zone, change


# Fixed draws: a new odd spelling that cronsim reads differently would say nothing about this project.
PATIENT = settings(
    max_examples=120 if IS_WHOLE else 40,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


@pytest.mark.sampled
@PATIENT
@given(questions(agreed=True), st.integers(0, 30), st.integers(1, 40))
def test_ticks_of_random_schedules_equal_those_of_cronsim(
    question: tuple[str, str, datetime], lead: int, hours: int
) -> None:
    text, zone, change = question
    begin, end = change - lead * HOUR, change + hours * HOUR
    assert ticks_between(Schedule.parse(text, zone), begin, end) == by_cronsim(text, zone, begin, end)


@pytest.mark.sampled
@PATIENT
@given(questions(agreed=False), st.lists(st.integers(-30 * 3600, 30 * 3600), min_size=5, max_size=20))
def test_ticks_do_not_depend_on_the_instant_of_the_question(
    question: tuple[str, str, datetime], offsets: list[int]
) -> None:
    """No tick is lost or doubled: the next tick after an instant does not depend on earlier ticks."""
    text, zone, change = question
    schedule = Schedule.parse(text, zone)
    ticks = ticks_between(schedule, change - 31 * HOUR, change + 31 * HOUR)
    assert all(earlier < later for earlier, later in pairwise(ticks))
    for offset in offsets:
        asked = change + timedelta(seconds=offset)
        place = bisect.bisect_right(ticks, asked)
        following = schedule.next_after(asked)
        assert following is not None
        if place < len(ticks):
            assert following == ticks[place]
        else:
            assert following > change + 31 * HOUR


@each_case("zone", ZONES)
@each_case("hour", [0, 1, 2, 3, 23])
def test_daily_schedule_runs_once_on_each_day(zone: str, hour: int) -> None:
    schedule, info = Schedule.parse(f"30 {hour} * * *", zone), time_zone(zone)
    for change in transitions(zone):
        ticks = ticks_between(schedule, change - 2 * DAY, change + 2 * DAY)
        dates = [tick.astimezone(info).date() for tick in ticks]
        # A skipped time before midnight runs on the next day, which then has two runs.
        days_apart = [(later - earlier).days for earlier, later in pairwise(dates)]
        assert set(days_apart) <= ({1} if hour < 23 else {0, 1, 2}), (change, dates)
        assert len(ticks) in {3, 4, 5}


BERLIN, LORD_HOWE, TROLL, CAIRO = "Europe/Berlin", "Australia/Lord_Howe", "Antarctica/Troll", "Africa/Cairo"
# Cases in which the rules differ, or cronsim fails: local times with offsets, from the hour before the change.
DIFFERENCES = [
    # Sub-hourly in fixed hours: skipped times run once, after the gap (cronsim: not at all).
    ("*/20 2 * * *", BERLIN, "2026-03-28T23:59Z", ["29 03:00 +02", "30 02:00 +02", "30 02:20 +02"]),
    ("*/20 2 * * *", BERLIN, "2026-10-24T23:59Z", [*(f"25 02:{m} +02" for m in ("00", "20", "40")), "25 02:00 +01"]),
    # A step in the hours is a list of hours, each once a day (cronsim: elapsed time).
    ("30 */2 * * *", BERLIN, "2026-03-28T23:00Z", ["29 00:30 +01", "29 03:00 +02", "29 04:30 +02"]),
    ("30 */2 * * *", BERLIN, "2026-10-24T23:00Z", ["25 02:30 +02", "25 04:30 +01"]),
    # All hours in any spelling mean every hour (cronsim: fixed hours).
    ("30 0-23 * * *", BERLIN, "2026-03-28T23:59Z", ["29 01:30 +01", "29 03:30 +02"]),
    ("30 0-23 * * *", BERLIN, "2026-10-24T23:59Z", ["25 02:30 +02", "25 02:30 +01", "25 03:30 +01"]),
    # Half an hour back: 01:30 to 02:00 occurs twice (cronsim misses the second 01:30 of an hourly schedule).
    ("30 * * * *", LORD_HOWE, "2026-04-04T14:00Z", ["05 01:30 +11", "05 01:30 +1030", "05 02:30 +1030"]),
    ("0 * * * *", LORD_HOWE, "2026-04-04T13:59Z", ["05 01:00 +11", "05 02:00 +1030", "05 03:00 +1030"]),
    ("*/15 1 * * *", LORD_HOWE, "2026-04-04T14:29Z", ["05 01:30 +11", "05 01:45 +11", "05 01:30 +1030"]),
    # Half an hour forward: 02:00 to 02:30 is skipped.
    ("0 * * * *", LORD_HOWE, "2026-10-03T14:00Z", ["04 01:00 +1030", "04 03:00 +11"]),
    ("15 2 * * *", LORD_HOWE, "2026-10-03T14:00Z", ["04 02:30 +11", "05 02:15 +11"]),
    ("15,45 2 * * *", LORD_HOWE, "2026-10-03T14:00Z", ["04 02:30 +11", "04 02:45 +11", "05 02:15 +11"]),
    # Two hours at once.
    ("50 2 * * *", "Pacific/Chatham", "2026-04-04T12:00Z", ["05 02:50 +1345", "06 02:50 +1245"]),
    ("*/5 2 5 4 *", "Pacific/Chatham", "2026-04-04T13:09Z", ["05 02:55 +1345", "05 02:45 +1245"]),
    ("0 1,2 * * *", TROLL, "2026-03-28T23:00Z", ["29 03:00 +02", "30 01:00 +02"]),
    ("0 1,2 * * *", TROLL, "2026-10-24T22:00Z", ["25 01:00 +02", "25 02:00 +02", "26 01:00 +00"]),
    ("0 * * * *", TROLL, "2026-10-24T23:59Z", ["25 02:00 +02", "25 01:00 +00", "25 02:00 +00", "25 03:00 +00"]),
    # Midnight is skipped, or occurs twice at the end of the day before.
    ("0 0 * * *", CAIRO, "2026-04-23T12:00Z", ["24 01:00 +03", "25 00:00 +03"]),
    ("30 23 * * *", CAIRO, "2026-10-29T12:00Z", ["29 23:30 +03", "30 23:30 +02"]),
    ("30 * * * *", CAIRO, "2026-10-29T20:00Z", ["29 23:30 +03", "29 23:30 +02", "30 00:30 +02"]),
]


@each_case(("text", "zone", "after", "expected"), DIFFERENCES)
def test_ticks_of_this_project_where_cronsim_differs(text: str, zone: str, after: str, expected: list[str]) -> None:
    schedule, tick, found = Schedule.parse(text, zone), datetime.fromisoformat(after), []
    for _ in expected:
        tick = schedule.next_after(tick)  # type: ignore[assignment]
        found.append(schedule.local(tick).strftime("%d %H:%M %z").removesuffix("00"))
    assert found == expected


@pytest.mark.parametrize(
    ("text", "years"),
    [
        ("0 0 29 2 *", 4),
        ("0 0 29 2 */7", 28),
        ("59 23 31 12 *", 1),
        ("0 0 1 1 */7", 6),
        ("0 12 31 */2 *", 1),
    ],
)
def test_ticks_of_four_hundred_years_have_no_gap(text: str, years: int) -> None:
    """A jump over years searches by months, not by minutes. After 400 years the calendar repeats."""
    ticks = ticks_between(
        Schedule.parse(text, "UTC"), datetime(2100, 1, 1, tzinfo=UTC), datetime(2500, 1, 1, tzinfo=UTC)
    )
    fields = CronExpression.parse(text)
    dates = (datetime(2100, 1, 1, tzinfo=UTC) + n * DAY for n in range(1, 146_097))
    hour, minute = fields.hours[0], fields.minutes[0]
    expected = [date.replace(hour=hour, minute=minute) for date in dates]
    assert ticks == [time for time in expected if fields.matches(time)]
    assert len(ticks) >= 360 // (years + 12)
