"""Number of late ticks of a job that run in one pass."""

from datetime import UTC, datetime, timedelta

from app.schedule.due_ticks import Advance, DueJob
from app.schedule.timetable import Timetable
from app.scheduler.chore import LATE_PER_PASS
from app.scheduler.materializer import CatchUpPace

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HOURS = timedelta(hours=9)
AHEAD = 5 * SECOND


def job(name: str = "job_1", *, every: timedelta = SECOND, since: timedelta = HOURS) -> DueJob:
    table = Timetable(every_ms=every // timedelta(milliseconds=1), starts_at=NOW - since)
    return DueJob(name, table, NOW - since, busy=False, now=NOW, horizon=NOW + AHEAD)


def take(pace: CatchUpPace, late: DueJob, ticks: int, then: datetime | None = NOW - SECOND) -> Advance:
    advance = Advance(late, tuple(late.next_run_at + place * SECOND for place in range(ticks)), then)
    pace.note(late, advance)
    return advance


def test_lone_job_takes_the_whole_portion_once() -> None:
    pace, late = CatchUpPace(1), job()
    assert pace.portion(late, 1) == LATE_PER_PASS
    advance = take(pace, late, LATE_PER_PASS)
    assert pace.portion(late, 1) <= 0
    assert not pace.continues(advance, 1)


def test_late_jobs_share_the_portion_and_the_rest_is_for_the_next_page() -> None:
    pace = CatchUpPace(1)
    assert pace.portion(job("a"), 100) == LATE_PER_PASS // 100
    take(pace, job("a"), 3)
    assert pace.portion(job("b"), 1) == LATE_PER_PASS - 3


def test_job_catches_up_at_least_twice_as_fast_as_it_ticks() -> None:
    pace = CatchUpPace(1)
    take(pace, job("a"), LATE_PER_PASS)
    assert pace.portion(job("b", every=timedelta(milliseconds=10)), 100) == 200
    assert pace.portion(job("c", every=timedelta(days=1)), 100) == 1
    assert CatchUpPace(5).portion(job("d"), 1000) == 10


def test_ticks_ahead_are_no_part_of_the_portion() -> None:
    pace, due = CatchUpPace(1), job(since=-SECOND)
    advance = take(pace, due, 4, then=NOW + AHEAD)
    assert pace.portion(due, 1) == LATE_PER_PASS
    assert pace.continues(advance, 1)
    assert not pace.continues(Advance(due, (), NOW + AHEAD + SECOND), 1)
    assert not pace.continues(Advance(due, (), None), 1)


def test_next_pass_begins_with_the_job_that_is_furthest_behind() -> None:
    pace = CatchUpPace(1)
    assert pace.reached(NOW) == NOW
    take(pace, job("a"), 2, then=NOW - SECOND)
    pace.note(job("b"), None)
    assert pace.reached(NOW) == NOW - HOURS
    take(pace, job("b"), 2, then=None)
    assert pace.reached(NOW) == NOW - SECOND
    take(pace, job("a"), 2, then=NOW + SECOND)
    assert pace.reached(NOW) == NOW


def test_job_that_could_not_take_its_ticks_leaves_them_to_other_jobs() -> None:
    pace, late = CatchUpPace(1), job()
    pace.put_back(take(pace, late, LATE_PER_PASS))
    assert pace.portion(late, 1) == LATE_PER_PASS
    assert pace.portion(job("b"), 1) == LATE_PER_PASS


def test_next_pass_begins_with_the_tick_of_a_job_that_could_not_take_it() -> None:
    pace, late = CatchUpPace(1), job()
    pace.put_back(take(pace, late, 1, then=NOW + SECOND))
    assert pace.reached(NOW) == NOW - HOURS
    take(pace, late, 1, then=NOW + SECOND)
    assert pace.reached(NOW) == NOW


def test_next_pass_begins_with_a_tick_that_came_due_during_this_pass() -> None:
    pace, ahead = CatchUpPace(1), job(since=-SECOND)
    pace.put_back(take(pace, ahead, 1, then=NOW + HOURS))
    pace.note(job("busy", since=-2 * SECOND), None)
    assert pace.reached(NOW + 9 * SECOND) == NOW + SECOND
    take(pace, ahead, 1, then=NOW + HOURS)
    assert pace.reached(NOW + 9 * SECOND) == NOW + 2 * SECOND
