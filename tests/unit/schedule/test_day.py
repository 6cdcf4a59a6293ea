"""Starts of a day by bits, compared with the ticks one by one, and the sums of many timetables."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.kernel.formats import MICROSECOND
from app.schedule.clock_changes import ClockChange, changes_on
from app.schedule.cron import Schedule
from app.schedule.day import MINUTE, Day, DayStarts, starts_on
from app.schedule.day_load import DayLoad, busiest
from app.schedule.timetable import Timetable
from app.schedule.zones import time_zone
from tests.cases import choice_of, each_case
from tests.clock_changes import ZONES, transitions

LONG_AGO = datetime(2019, 1, 1, tzinfo=UTC)
BERLIN = "Europe/Berlin"
EXPRESSIONS = [
    *("30 2 * * *", "0 0 * * *", "15,45 1-3 * * *", "59 23 * * *", "*/20 2 * * *", "5 */2 * * *", "0 0,3 * * SUN"),
    *("0 * * * *", "*/40 * * * *", "30 0-23 * * *", "10 1 1-7 * 0", "0 2 29 3 *", "45 23 31 * *"),
]


def cron(text: str, zone: str = BERLIN, **more: datetime) -> Timetable:
    return Timetable(**{"cron": text, "timezone": zone, "starts_at": LONG_AGO, **more})  # type: ignore[arg-type]


def every(milliseconds: int, start: datetime = LONG_AGO, **more: datetime) -> Timetable:
    return Timetable(**{"every_ms": milliseconds, "starts_at": start, **more})  # type: ignore[arg-type]


def walked(day: Day, table: Timetable) -> Counter[int]:
    """Count the ticks of each minute of a day, tick by tick."""
    found, tick = Counter[int](), table.next_after(day.start - MICROSECOND)
    while tick is not None and tick < day.end:
        found[day.minute(tick)] += 1
        tick = table.following(tick)
    return found


def counted(day: Day, starts: DayStarts) -> Counter[int]:
    found = Counter({minute: starts.in_minute(minute) for minute in range(day.minutes)})
    assert found.total() == starts.starts == starts.starts_from(0)
    middle = day.minutes // 2
    assert starts.starts_from(middle) == sum(found[minute] for minute in range(middle, day.minutes))
    return +found


@pytest.mark.sampled
@each_case("zone", choice_of(ZONES, 3))
def test_starts_around_each_clock_change_are_the_ticks(zone: str) -> None:
    for number, change in enumerate(transitions(zone)):
        text, shown = EXPRESSIONS[number % len(EXPRESSIONS)], ZONES[number % len(ZONES)]
        timezone = (zone, shown)[number // len(EXPRESSIONS) % 2]
        local = change.astimezone(time_zone(timezone)).date()
        for days in (-1, 0, 1):
            day, table = Day.of(local + timedelta(days=days), timezone), cron(text, zone)
            assert counted(day, starts_on(day, table)) == walked(day, table), (text, zone, day)


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(EXPRESSIONS),
    st.sampled_from(ZONES),
    st.sampled_from(ZONES),
    st.dates(date(2020, 1, 1), date(2035, 12, 31)),
    st.integers(-86_400, 86_400),
    st.integers(1, 172_800),
)
def test_starts_between_begin_and_end_of_a_schedule_are_the_ticks(
    text: str, zone: str, shown: str, local: date, begin: int, length: int
) -> None:
    day = Day.of(local, shown)
    starts_at = day.start + timedelta(seconds=begin)
    table = cron(text, zone, starts_at=starts_at, ends_at=starts_at + timedelta(seconds=length))
    assert counted(day, starts_on(day, table)) == walked(day, table)


@settings(deadline=None, max_examples=60)
@given(
    st.one_of(st.sampled_from([60_000, 300_000, 3_600_000, 86_400_000]), st.integers(15_000, 10_000_000)),
    st.sampled_from(ZONES),
    st.dates(date(2020, 1, 1), date(2035, 12, 31)),
    st.integers(-(10**12), 10**12),
    st.integers(1, 10**11),
)
def test_starts_of_an_interval_are_the_ticks(every_ms: int, zone: str, local: date, begin: int, length: int) -> None:
    day = Day.of(local, zone)
    start = day.start + timedelta(microseconds=begin)
    table = every(every_ms, start, ends_at=start + timedelta(microseconds=length))
    assert counted(day, starts_on(day, table)) == walked(day, table)


def test_a_short_interval_is_counted_without_its_ticks() -> None:
    day = Day.of(date(2026, 11, 28), BERLIN)
    found = starts_on(day, every(10))
    assert (found.starts, found.in_minute(0), found.first, found.last) == (8_640_000, 6000, 0, 1439)


def test_remembered_starts_are_those_of_the_timetable_and_the_day() -> None:
    """Asked twice, so that the second answers come from the process's memory."""
    sunday, monday = Day.of(date(2026, 11, 29), BERLIN), Day.of(date(2026, 11, 30), BERLIN)
    abroad, short = Day.of(date(2026, 11, 30), "America/New_York"), Day.of(date(2026, 3, 29), BERLIN)
    tables = [cron("30 2 * * *"), cron("30 2 * * MON"), cron("30 2 * * *", "UTC"), every(10_000), every(20_000)]
    tables += [every(7000), every(7000, LONG_AGO + timedelta(seconds=3)), every(7000, monday.at(600))]
    for _ in range(2):
        for day in (sunday, monday, abroad, short):
            for table in tables:
                assert counted(day, starts_on(day, table)) == walked(day, table), (day, table)


def test_no_start_counts_up_to_an_instant() -> None:
    day = Day.of(date(2026, 11, 28), BERLIN)
    found = starts_on(day, cron("0 * * * *"), after=day.at(120))
    assert (found.starts, found.first) == (21, 180)


def test_a_day_has_the_length_of_its_clock() -> None:
    lengths = {local: Day.of(date(2026, *local), BERLIN).minutes for local in [(3, 28), (3, 29), (10, 25)]}
    assert lengths == {(3, 28): 1440, (3, 29): 1380, (10, 25): 1500}
    assert Day.of(date(2011, 12, 30), "Pacific/Apia").minutes == 0
    assert Day.of(date(2026, 4, 24), "Africa/Cairo").at(0).isoformat() == "2026-04-24T01:00:00+03:00"


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**30 - 1), max_size=20), st.lists(st.integers(0, 9), min_size=30, max_size=30))
def test_load_is_the_sum_of_all_starts(bits: list[int], band: list[int]) -> None:
    load = DayLoad(30)
    for each in bits:
        load.add(DayStarts.once_a_minute(each))
    load.add(DayStarts(2**30 - 1, sum(band), tuple(band)))
    expected = [band[minute] + sum(each >> minute & 1 for each in bits) for minute in range(30)]
    assert (load.by_minute(), load.starts) == (expected, sum(expected))


def test_busiest_minutes_have_several_starts() -> None:
    assert busiest([1, 3, 0, 5, 3, 2], 3) == [3, 1, 4]
    assert busiest([1, 1], 3) == []


def test_a_gap_affects_the_schedules_of_its_times() -> None:
    (change,) = changes_on(Day.of(date(2026, 3, 29), "UTC"), BERLIN)
    first, last = (datetime.fromisoformat(f"2026-03-29T0{hour}:00") for hour in (2, 3))
    assert change == ClockChange(datetime(2026, 3, 29, 1, tzinfo=UTC), BERLIN, first, last, is_gap=True)
    affected = {
        text for text in ("30 2 * * *", "0 3 * * *", "30 * * * *") if change.affects(Schedule.parse(text, BERLIN))
    }
    assert affected == {"30 2 * * *", "30 * * * *"}
    assert change.effect_on(Schedule.parse("30 2 * * *", BERLIN)) == "once"
    assert change.effect_on(Schedule.parse("30 * * * *", BERLIN)) == "skipped"


def test_repeated_times_affect_their_schedules() -> None:
    (change,) = changes_on(Day.of(date(2026, 10, 25), "UTC"), BERLIN)
    assert (change.at, change.is_gap) == (datetime(2026, 10, 25, 1, tzinfo=UTC), False)
    assert (change.first.hour, change.last.hour) == (2, 3)
    assert change.effect_on(Schedule.parse("30 2 * * *", BERLIN)) == "once"
    assert change.effect_on(Schedule.parse("*/30 2 * * *", BERLIN)) == "twice"


@each_case("zone", ZONES)
def test_each_clock_change_is_found_on_its_day(zone: str) -> None:
    for change in transitions(zone):
        day = Day.of(change.date(), "UTC")
        assert [each.at for each in changes_on(day, zone)] == [change], (zone, change)
        assert day.at(day.minute(change)) <= change < day.at(day.minute(change)) + MINUTE
