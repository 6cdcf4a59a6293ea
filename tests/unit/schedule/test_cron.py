"""Cron schedules: every tick once, whatever the clocks of a zone do.

The oracle walks the instants minute by minute and looks at the wall clock, as a cron daemon does.
"""

import bisect
import sys
import threading
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from app.errors import InvalidCronError, InvalidRequestError
from app.schedule.cron import Schedule
from app.schedule.cron_expression import CronExpression
from tests.ticks import walk
from tests.unit.schedule.expressions import field

MINUTE = timedelta(minutes=1)
# Changes of an hour, half an hour, two hours, a whole day; at midnight, at 2 h, at odd minutes; once or twice a year.
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
    info, found = zoneinfo.ZoneInfo(zone), []
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
    fields, info = CronExpression.parse(text), zoneinfo.ZoneInfo(zone)
    elapsed = len(fields.hours) == 24 or text.startswith("*")
    # Early enough to know the wall times of the first pass: no clock here goes back by more than two hours.
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
    # Days that are mostly open, or hardly any window would hold a tick.
    days = draw(st.one_of(st.just("*"), field(1, 31)))
    weekdays = draw(st.one_of(st.just("*"), field(0, 7)))
    return f"{draw(field(0, 59))} {draw(field(0, 23))} {days} * {weekdays}"


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(ZONES), st.data(), expressions(), st.integers(-14 * 3600, 3 * 3600), st.integers(60, 900))
def test_ticks_around_a_clock_change_are_those_of_the_wall_clock(
    zone: str, data: st.DataObject, text: str, lead: int, minutes: int
) -> None:
    begin = data.draw(st.sampled_from(transitions(zone))) + timedelta(seconds=lead)
    end = begin + minutes * MINUTE
    try:
        schedule = Schedule.parse(text, zone)
    except InvalidCronError:
        assume(False)
    assert walk(schedule, begin, end) == list(ticks(text, zone, begin, end))


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("text", ["30 2 * * *", "*/20 0-4 * * *", "15 * * * *", "0 0,3 * * *"])
def test_every_clock_change_of_a_zone(zone: str, text: str) -> None:
    schedule = Schedule.parse(text, zone)
    for change in transitions(zone)[-14:]:
        begin, end = change - timedelta(hours=3), change + timedelta(hours=4)
        assert walk(schedule, begin, end) == list(ticks(text, zone, begin, end))


@settings(max_examples=200, deadline=None)
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
    fields, tick, info = CronExpression.parse(text), start, zoneinfo.ZoneInfo(zone)
    for _ in range(5):
        following = schedule.next_after(tick)
        assert following is not None
        assert following > tick
        assert following.tzinfo is UTC
        wall = following.astimezone(info)
        # Where it does not match, the clock has just been set forward.
        jumped = (following - MINUTE).astimezone(info).utcoffset() != wall.utcoffset()
        assert matches(fields, wall) or jumped
        tick = following


def local_ticks(text: str, zone: str, begin: datetime, count: int) -> list[str]:
    schedule, found = Schedule.parse(text, zone), []
    for _ in range(count):
        tick = schedule.next_after(begin)
        assert tick is not None
        found.append(schedule.local(tick).strftime("%d %H:%M %z"))
        begin = tick
    return found


SPRING, AUTUMN = datetime(2026, 3, 29, 0, tzinfo=UTC), datetime(2026, 10, 25, 0, tzinfo=UTC) - MINUTE


def test_a_skipped_time_of_fixed_hours_fires_at_the_end_of_the_gap() -> None:
    assert local_ticks("30 2 * * *", "Europe/Berlin", SPRING, 2) == ["29 03:00 +0200", "30 02:30 +0200"]
    assert local_ticks("0,20,40 2 * * *", "Europe/Berlin", SPRING, 2) == ["29 03:00 +0200", "30 02:00 +0200"]
    assert local_ticks("*/20 2 * * *", "Europe/Berlin", SPRING, 2) == ["29 03:00 +0200", "30 02:00 +0200"]


def test_a_skipped_time_of_every_hour_is_passed_over() -> None:
    assert local_ticks("30 * * * *", "Europe/Berlin", SPRING, 2) == ["29 01:30 +0100", "29 03:30 +0200"]


def test_a_repeated_time_of_fixed_hours_fires_the_first_time() -> None:
    assert local_ticks("30 2 * * *", "Europe/Berlin", AUTUMN, 2) == ["25 02:30 +0200", "26 02:30 +0100"]
    assert local_ticks("30 */2 * * *", "Europe/Berlin", AUTUMN, 2) == ["25 02:30 +0200", "25 04:30 +0100"]


def test_a_repeated_hour_goes_by_elapsed_time_for_hourly_schedules() -> None:
    assert local_ticks("30 * * * *", "Europe/Berlin", AUTUMN, 3) == [
        "25 02:30 +0200",
        "25 02:30 +0100",
        "25 03:30 +0100",
    ]
    assert len(local_ticks("*/30 0-23 * * *", "Europe/Berlin", AUTUMN, 4)) == 4


def test_a_repeated_midnight_is_the_same_day() -> None:
    begin = datetime(2026, 11, 1, 3, tzinfo=UTC)
    assert local_ticks("0 0 * * *", "America/Havana", begin, 2) == ["01 00:00 -0400", "02 00:00 -0500"]


def test_a_skipped_day_fires_once() -> None:
    begin = datetime(2011, 12, 29, 20, tzinfo=UTC)
    assert local_ticks("0 9,12 * * *", "Pacific/Apia", begin, 3) == [
        "29 12:00 -1000",
        "31 00:00 +1400",
        "31 09:00 +1400",
    ]


def test_the_next_run_is_shown_in_its_zone() -> None:
    schedule = Schedule.parse("0 9 * * MON", "Asia/Kolkata")
    tick = schedule.next_after(datetime(2026, 3, 15, 10, tzinfo=UTC))
    assert tick == datetime(2026, 3, 16, 3, 30, tzinfo=UTC)
    assert schedule.local(tick).isoformat() == "2026-03-16T09:00:00+05:30"


@pytest.mark.parametrize("start", [datetime.min.replace(tzinfo=UTC), datetime(1969, 12, 31, tzinfo=UTC)])
def test_a_start_before_1970_counts_from_1970(start: datetime) -> None:
    schedule = Schedule.parse("0 0 * * *", "UTC")
    assert schedule.next_after(start) == datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("start", [datetime.max.replace(tzinfo=UTC), datetime(9899, 12, 31, 14, 59, tzinfo=UTC)])
def test_there_is_no_tick_at_the_end_of_the_calendar(start: datetime) -> None:
    assert Schedule.parse("0 0 * * *", "Asia/Tokyo").next_after(start) is None


def test_the_longest_wait_between_leap_days_is_found() -> None:
    schedule = Schedule.parse("0 0 29 2 */7", "UTC")
    assert schedule.next_after(datetime(2280, 3, 1, tzinfo=UTC)) == datetime(2320, 2, 29, tzinfo=UTC)


@pytest.mark.parametrize(
    "zone", ["", "Mars/Olympus", "europe/berlin", "../UTC", "/etc/passwd", "America", "localtime", "Factory", "UTC\x00"]
)
def test_an_unknown_zone_is_a_bad_request(zone: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        Schedule.parse("* * * * *", zone)
    assert caught.value.status == 400
    assert caught.value.details[0]["pointer"] == "/timezone"


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("0 0 13 * FRI", [4, 11, 13, 18, 25]),
        ("0 0 1-7 * */7", [6]),
        ("0 0 1-28 * MON", list(range(1, 29))),
        ("0 0 1-31 * MON", list(range(1, 31))),
        ("0 0 30 * 0-6", list(range(1, 31))),
        ("0 0 */10 * MON", [21]),
    ],
)
def test_the_days_of_september_2026(text: str, days: list[int]) -> None:
    begin, end = datetime(2026, 8, 31, 12, tzinfo=UTC), datetime(2026, 9, 30, 12, tzinfo=UTC)
    assert [tick.day for tick in walk(Schedule.parse(text, "UTC"), begin, end)] == days


def test_of_a_weekday_or_a_day_that_no_month_has_the_weekday_remains() -> None:
    tick = Schedule.parse("0 0 31 2 MON", "UTC").next_after(datetime(2026, 8, 31, tzinfo=UTC))
    assert tick == datetime(2027, 2, 1, tzinfo=UTC)


@pytest.fixture
def _switching() -> Iterator[None]:
    """Let threads interleave after every few instructions."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("_switching")
def test_a_schedule_may_be_shared_between_threads() -> None:
    schedule = Schedule.parse("*/7 * * * *", "Europe/Berlin")
    starts = [SPRING + n * timedelta(minutes=13) for n in range(60)]
    expected = {start: schedule.next_after(start) for start in starts}
    wrong: list[datetime] = []

    def ask(first: int) -> None:
        for start in starts[first:] * 10:
            if schedule.next_after(start) != expected[start]:
                wrong.append(start)  # noqa: PERF401 - threads interleave between the calls

    threads = [threading.Thread(target=ask, args=[n * 10]) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
