"""Ticks that run and ticks that are skipped, by the catch-up and overlap rules."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.schedule.due_ticks import MAX_STEPS, DueJob, choose_ticks, makes_up_for_all, may_wait
from app.schedule.timetable import Timetable
from schema.states import CatchUp, Overlap

NOW = datetime(2026, 11, 21, 12, 0, 30, tzinfo=UTC)
AHEAD = timedelta(seconds=5)
GRACE = timedelta(minutes=1)
TEN = timedelta(seconds=10)
MANY = 1_000_000


def job(since: timedelta, *, every: timedelta = TEN, busy: bool = False, **table: Any) -> DueJob:
    """A job whose first due tick is `since` ago."""
    first = NOW - since
    timetable = Timetable(every_ms=every // timedelta(milliseconds=1), starts_at=first, **table)
    return DueJob("job_1", timetable, first, busy, NOW, NOW + AHEAD)


def chosen(due: DueJob, limit: int = 100, late: int = MANY) -> tuple[list[float], float | None, int, int]:
    """Return the ticks and the next run in seconds from now, and the numbers of skipped ticks."""
    made = choose_ticks(due, limit, GRACE, late)
    assert made is not None
    after = None if made.next_run_at is None else (made.next_run_at - NOW).total_seconds()
    ticks = [(tick - NOW).total_seconds() for tick in made.ticks]
    return ticks, after, made.skipped_catch_up, made.skipped_overlap


def test_all_missed_ticks_run_and_the_ticks_ahead() -> None:
    assert chosen(job(timedelta(seconds=28))) == ([-28, -18, -8, 2], 12, 0, 0)


def test_limit_leaves_the_rest_for_the_next_statement() -> None:
    assert chosen(job(timedelta(seconds=28)), limit=2) == ([-28, -18], -8, 0, 0)


def test_latest_missed_ticks_run_up_to_the_maximum() -> None:
    assert chosen(job(timedelta(seconds=58), max_catch_up=2)) == ([-18, -8, 2], 12, 4, 0)
    assert chosen(job(timedelta(seconds=58), max_catch_up=2), limit=1) == ([-18], -8, 4, 0)


@given(st.integers(1, 200), st.integers(1, 30), st.integers(1, 30))
def test_job_that_may_wait_loses_no_tick(missed: int, most: int, more: int) -> None:
    """At most `more` ticks come due until the next pass."""
    late = job(missed * TEN, max_catch_up=most)
    assert makes_up_for_all(late, GRACE) is (missed * TEN > GRACE)
    if may_wait(late, more):
        later = late._replace(now=NOW + more * TEN, horizon=NOW + more * TEN)
        made = choose_ticks(later, MANY, GRACE, MANY)
        assert made is not None
        assert made.skipped_catch_up == 0
    assert may_wait(job(missed * TEN, max_catch_up=None), more)


def test_only_the_latest_missed_tick_runs() -> None:
    assert chosen(job(timedelta(seconds=58), catch_up=CatchUp.LATEST)) == ([-8, 2], 12, 5, 0)
    assert chosen(job(timedelta(0), catch_up=CatchUp.LATEST)) == ([0], 10, 0, 0)


def test_no_tick_older_than_the_grace_runs() -> None:
    assert chosen(job(timedelta(seconds=78), catch_up=CatchUp.NONE)) == (
        [-58, -48, -38, -28, -18, -8, 2],
        12,
        2,
        0,
    )
    old = job(timedelta(hours=3), every=timedelta(hours=2), catch_up=CatchUp.NONE)
    assert chosen(old) == ([], 3600, 2, 0)


def test_portion_of_the_late_ticks_leaves_all_later_ticks_for_the_next_pass() -> None:
    due = job(timedelta(seconds=28))
    assert chosen(due, late=2) == ([-28, -18], -8, 0, 0)
    assert chosen(due, late=3) == ([-28, -18, -8, 2], 12, 0, 0)
    assert chosen(job(timedelta(seconds=58), max_catch_up=2), late=1) == ([-18], -8, 4, 0)
    assert choose_ticks(due, 100, GRACE, 0) is None
    assert chosen(job(timedelta(seconds=-2)), late=0) == ([2], 12, 0, 0)


@pytest.mark.parametrize("policy", [CatchUp.LATEST, CatchUp.NONE])
def test_many_missed_ticks_of_a_cron_job_take_several_passes(policy: CatchUp) -> None:
    first = NOW.replace(second=0) - timedelta(minutes=12_000)
    table = Timetable(cron="* * * * *", timezone="UTC", starts_at=first, catch_up=policy)
    tick, steps, skipped = first, 0, 0
    while True:
        due = DueJob("job_1", table, tick, busy=False, now=NOW, horizon=NOW + AHEAD)
        made = choose_ticks(due, 100, GRACE, MANY)
        assert made is not None
        steps, skipped = steps + 1, skipped + made.skipped_catch_up
        if made.ticks:
            break
        assert made.next_run_at is not None
        tick = made.next_run_at
    assert steps == 12_000 // MAX_STEPS + 1
    assert skipped + len(made.ticks) == 12_001
    assert len(made.ticks) == 1


@pytest.mark.parametrize(
    ("table", "ticks"),
    [({"catch_up": CatchUp.LATEST}, 1), ({"catch_up": CatchUp.NONE}, 0), ({"max_catch_up": 90}, 90)],
)
def test_missed_ticks_of_an_interval_are_computed_without_listing_them(table: dict[str, Any], ticks: int) -> None:
    """A year of 100 ticks a second: listing them would take hours."""
    hundredth = timedelta(milliseconds=10)
    due = job(timedelta(days=366), every=hundredth, **table)
    made = choose_ticks(due, 100, timedelta(0), MANY)
    assert made is not None
    late = [tick for tick in made.ticks if tick <= NOW]
    assert late == [NOW - place * hundredth for place in reversed(range(ticks))]
    assert made.skipped_catch_up == 366 * 8_640_000 + 1 - ticks


def test_next_run_off_the_grid_of_an_interval_runs_once() -> None:
    due = job(timedelta(seconds=30), max_catch_up=3)._replace(next_run_at=NOW - timedelta(seconds=27))
    assert chosen(due) == ([-20, -10, 0], 10, 1, 0)
    assert chosen(due._replace(timetable=replace(due.timetable, max_catch_up=9))) == ([-27, -20, -10, 0], 10, 0, 0)


def test_no_tick_runs_after_the_end_of_the_job() -> None:
    ends_at = NOW - timedelta(seconds=8)
    made = choose_ticks(job(timedelta(seconds=28), ends_at=ends_at), 100, GRACE, MANY)
    assert made is not None
    assert len(made.ticks) == 2
    assert made.retires
    over = choose_ticks(job(timedelta(seconds=28), ends_at=NOW - timedelta(seconds=28)), 100, GRACE, MANY)
    assert over is not None
    assert (over.ticks, over.retires) == ((), True)


# --- overlap ---


def test_idle_job_without_overlap_takes_one_tick_ahead_of_its_time() -> None:
    due = job(timedelta(seconds=-2), overlap=Overlap.SKIP)
    assert chosen(due) == ([2], 12, 0, 0)
    made = choose_ticks(due, 100, GRACE, MANY)
    assert made is not None
    assert made.exclusive


def test_busy_job_without_overlap_waits_until_the_tick_is_due_and_then_skips_it() -> None:
    assert choose_ticks(job(timedelta(seconds=-2), overlap=Overlap.SKIP, busy=True), 100, GRACE, MANY) is None
    assert chosen(job(timedelta(0), overlap=Overlap.SKIP, busy=True)) == ([], 10, 0, 1)
    assert chosen(job(timedelta(seconds=28), overlap=Overlap.SKIP, busy=True)) == ([], 2, 0, 3)


def test_busy_job_with_overlap_runs_its_ticks() -> None:
    assert chosen(job(timedelta(0), busy=True)) == ([0], 10, 0, 0)


# --- fixed delay ---


def test_fixed_delay_runs_one_tick_and_then_waits_for_its_end() -> None:
    due = job(timedelta(minutes=10), fixed_delay=True, catch_up=CatchUp.NONE)
    made = choose_ticks(due, 100, GRACE, MANY)
    assert made is not None
    assert (made.ticks, made.next_run_at) == ((due.next_run_at,), None)
    assert made.waits
    assert not made.retires


def test_fixed_delay_retires_after_its_end() -> None:
    due = job(timedelta(minutes=10), fixed_delay=True, ends_at=NOW - timedelta(minutes=10))
    made = choose_ticks(due, 100, GRACE, MANY)
    assert made is not None
    assert made.retires


@settings(deadline=None)
@given(
    since=st.integers(0, 20_000),
    every=st.integers(1, 5_000),
    limit=st.integers(1, 50),
    late=st.integers(1, 50),
    policy=st.sampled_from(list(CatchUp)),
    most=st.one_of(st.none(), st.integers(1, 20)),
)
def test_no_tick_is_lost_or_doubled_in_any_portions(
    since: int, every: int, limit: int, late: int, policy: CatchUp, most: int | None
) -> None:
    """Executed and skipped ticks together are all ticks up to the horizon, in order."""
    table = {"catch_up": policy, "max_catch_up": most if policy is CatchUp.ALL else None}
    due = job(timedelta(seconds=since), every=timedelta(seconds=every), **table)
    all_ticks = (timedelta(seconds=since) + AHEAD) // timedelta(seconds=every) + 1
    ran: list[datetime] = []
    skipped, start = 0, due
    while start.next_run_at <= start.horizon:
        made = choose_ticks(start, limit, GRACE, late)
        assert made is not None
        assert made.next_run_at is not None
        assert made.next_run_at > start.next_run_at
        ran += made.ticks
        skipped += made.skipped_catch_up
        start = DueJob("job_1", due.timetable, made.next_run_at, busy=False, now=NOW, horizon=due.horizon)
    assert ran == sorted(set(ran))
    assert len(ran) + skipped == all_ticks
    if policy is CatchUp.ALL and most is None:
        assert skipped == 0
