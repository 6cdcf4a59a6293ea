"""Simulation of repeating jobs: counts of the ticks that a scheduler would start."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.features.simulate.simulation import SimulatedPeriod, simulate
from app.kernel.formats import MICROSECOND
from app.schedule.timetable import Timetable
from schema.states import CatchUp, Overlap
from tests.cases import each_case

START = datetime(2030, 1, 1, tzinfo=UTC)
MONTH = SimulatedPeriod(START, START + timedelta(days=30))
DAY = SimulatedPeriod(START, START + timedelta(days=1))


def every(milliseconds: int, **changes: Any) -> Timetable:
    return Timetable(every_ms=milliseconds, starts_at=START, **changes)


def cron(expression: str, **changes: Any) -> Timetable:
    return Timetable(cron=expression, timezone="UTC", starts_at=START, **changes)


def outage(hours: float) -> tuple[datetime, datetime]:
    return START + timedelta(hours=6), START + timedelta(hours=6 + hours)


def test_starts_of_a_month_are_counted_by_the_hour() -> None:
    load = simulate(every(10), MONTH)
    assert load.starts == 30 * 86_400 * 100
    assert set(load.hours.values()) == {360_000}
    assert len(load.hours) == 720
    daily = simulate(cron("30 9 * * *"), MONTH)
    assert daily.starts == 30
    assert {hour.hour for hour in daily.hours} == {9}
    assert all((each.hour, each.minute) == (9, 30) for each in daily.seconds)


@each_case(
    ("catch_up", "most", "made_up", "skipped"),
    [
        (CatchUp.ALL, 100, 100, 20),
        (CatchUp.ALL, None, 120, 0),
        (CatchUp.LATEST, None, 1, 119),
        (CatchUp.NONE, None, 1, 119),
    ],
)
@each_case("table", [every(60_000), cron("* * * * *")])
def test_missed_ticks_of_an_outage_follow_the_catch_up_rule_of_the_job(
    table: Timetable, catch_up: CatchUp, most: int | None, made_up: int, skipped: int
) -> None:
    """`none` still runs a tick that was missed by less than the grace of a minute."""
    load = simulate(replace(table, catch_up=catch_up, max_catch_up=most), DAY._replace(outage=outage(2)))
    assert (load.made_up, load.skipped_catch_up) == (made_up, skipped)
    assert load.starts == 22 * 60 + made_up
    assert load.seconds[outage(2)[1]] == made_up + 1


def test_overlaps_are_skipped_and_fixed_delays_count_from_the_end() -> None:
    slow = DAY._replace(takes=timedelta(seconds=90))
    for table in (every(60_000, overlap=Overlap.SKIP), cron("* * * * *", overlap=Overlap.SKIP)):
        load = simulate(table, slow)
        assert (load.starts, load.skipped_overlap) == (720, 720)
    assert simulate(every(30_000, fixed_delay=True), slow).starts == 720
    after = simulate(every(30_000, fixed_delay=True), slow._replace(outage=outage(2)))
    assert (after.starts, after.made_up) == (22 * 30, 1)


@given(
    st.integers(10, 10**8),
    st.integers(0, 10**6),
    st.sampled_from([None, 3_600_000, 10**8]),
    st.integers(0, 3 * 3600),
)
def test_counted_ticks_agree_with_listed_ticks(
    milliseconds: int, ahead_ms: int, ends_ms: int | None, length: int
) -> None:
    """A loop over the schedule lists the ticks, as the scheduler does."""
    ends_at = None if ends_ms is None else START + timedelta(milliseconds=ends_ms)
    table = every(max(milliseconds, length * 10), ends_at=ends_at)
    stretch = SimulatedPeriod(START + timedelta(milliseconds=ahead_ms), START + timedelta(seconds=length))
    listed, tick = [], table.next_after(stretch.start - MICROSECOND)
    while tick is not None and tick < stretch.end:
        listed.append(tick)
        tick = table.next_after(tick)
    load = simulate(table, stretch)
    assert load.starts == len(listed)
    assert load.hours == {
        hour: sum(each.replace(minute=0, second=0, microsecond=0) == hour for each in listed) for hour in load.hours
    }
