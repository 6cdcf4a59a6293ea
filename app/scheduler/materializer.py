"""Materialiser: the chore that turns due ticks of repeating jobs into executions."""

import math
import time
from collections import Counter
from collections.abc import Sequence, Set
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from app.kernel.unreadable import report
from app.queue.claiming.depth import Depths
from app.queue.executions.materialization import (
    HOLD_BRIEFLY,
    DuePosition,
    MaterializedTicks,
    due,
    materialize,
)
from app.queue.executions.watermark import LowWater
from app.schedule.due_ticks import Advance, DueJob, choose_ticks, makes_up_for_all, may_wait
from app.scheduler.chore import LATE_PER_PASS, ChoreContext, Counts, counts_so_far, report_progress
from app.scheduler.locked_rows import LockedRow, LockedRows

MAX_TICKS = 500  # executions per statement
# Choosing takes up to 150 ms for a job that missed thousands of ticks, and HOLD_BRIEFLY ends a transaction that is idle
# for 2 s.
MAX_CHOOSING_SECONDS = 0.5


class _Page(NamedTuple):
    """Page of due jobs, each with the ticks that it takes now, and the result of their insertion."""

    now: datetime  # the database's clock
    following: DuePosition | None
    jobs: Sequence[DueJob]
    choices: Sequence[tuple[DueJob, Advance | None]]
    done: MaterializedTicks


class CatchUpPace:
    """Late ticks that one pass over the due jobs may still insert; keeps a backlog behind fresh work. Pure.

    The late jobs of a page share the rest of `late_per_pass`. Each job may take at least one tick, and twice the ticks
    that fall due during a pass: otherwise a job with a short interval would never catch up.
    """

    def __init__(self, pass_seconds: float, late_per_pass: int = LATE_PER_PASS) -> None:
        self._pass_ms = pass_seconds * 1000
        self._left = late_per_pass
        self._taken: Counter[str] = Counter()
        self._next_ticks: dict[str, datetime] = {}

    def portion(self, job: DueJob, jobs: int) -> int:
        """Return how many late ticks a job in a page of `jobs` may still take; not positive for none."""
        return max(self.least(job), self._left // max(1, jobs)) - self._taken[job.job_id]

    def least(self, job: DueJob) -> int:
        """Return how many late ticks a job may take in any case: more than fall due until the next pass."""
        every_ms = job.timetable.every_ms
        return 1 if every_ms is None else max(1, math.ceil(2 * self._pass_ms / every_ms))

    def note(self, job: DueJob, advance: Advance | None) -> None:
        """Count the late ticks that a job takes, and keep its next tick after them."""
        self._count(job, 0 if advance is None else advance.late_ticks)
        following = job.next_run_at if advance is None else advance.next_run_at
        if following is None:
            self._next_ticks.pop(job.job_id, None)
        else:
            self._next_ticks[job.job_id] = following

    def put_back(self, advance: Advance) -> None:
        """Undo `note` for a job that could not take its ticks, such as a job with a locked row."""
        self._count(advance.job, -advance.late_ticks)
        self._next_ticks[advance.job.job_id] = advance.job.next_run_at

    def wait_for(self, job: DueJob) -> None:
        """Keep the next tick of a job that another transaction has locked."""
        self._next_ticks[job.job_id] = job.next_run_at

    def continues(self, advance: Advance, jobs: int) -> bool:
        """Return whether a job has more ticks in this pass than fitted into its statement."""
        job, following = advance.job, advance.next_run_at
        if following is None or following > job.horizon:
            return False
        return following > job.now or self.portion(job, jobs) > 0

    def reached(self, now: datetime) -> datetime:
        """Return the instant before which no job has a tick left, at most `now`."""
        return min([now, *self._next_ticks.values()])

    def _count(self, job: DueJob, late_ticks: int) -> None:
        self._taken[job.job_id] += late_ticks
        self._left -= late_ticks


class Materializer:
    """Chore that reads due jobs from the end of its last pass on; `materialize` is one pass."""

    def __init__(self, context: ChoreContext) -> None:
        self._context = context
        self._ticks = LowWater(pace=context.scan_pace)
        self._locked_jobs = LockedRows("its ticks wait")

    def materialize(self) -> Counts:
        """Insert the executions of all ticks within the look-ahead, from each job's own next tick on.

        Each pass runs a portion of the missed ticks that the rules of their job still allow. A locked job is skipped
        until the next pass. A pass without a due job is one statement, without a transaction.
        """
        counts, began = counts_so_far(), time.monotonic()
        jobs, now, following = self._waiting()
        if jobs or following is not None:
            self._run(jobs if following is None else None, counts, began)
        else:
            self._advance(now, began, set())
        return counts

    def _run(self, left: Sequence[DueJob] | None, counts: Counts, began: float) -> None:
        """Take all due jobs page by page; `left` are all jobs that were due before, None for more than a page."""
        settings, batch = self._context.settings, self._context.settings.cron_batch_size
        start: DuePosition | None = None  # None: the mark
        pace = CatchUpPace(settings.cron_tick_interval_seconds, self._context.late_per_pass)
        depths = Depths(self._context.database, self._context.served.count)
        locked, seen = set[LockedRow](), set[str]()
        behind = False  # True if a job of this scan has more ticks in this pass than fitted into its statement
        while not self._context.stopping():
            page = self._context.database.transact_jointly(
                partial(self._take, start or DuePosition(self._ticks.since), batch, pace, depths)
            )
            seen.update(job.job_id for job in page.jobs)
            moved = self._note(page, pace, counts, locked)
            behind = behind or any(pace.continues(advance, len(page.jobs)) for advance in moved)
            report_progress()
            if page.following is not None:
                start = page.following
            elif behind:
                start, behind = None, False
            else:
                self._note_skipped(self._waiting()[0] if left is None else left, pace, seen, locked)
                self._advance(pace.reached(page.now), began, locked)
                break

    def _waiting(self) -> tuple[list[DueJob], datetime, DuePosition | None]:
        """Read the first due jobs from the mark on, also jobs that are locked."""
        settings, after = self._context.settings, DuePosition(self._ticks.since)
        return due(self._context.database, ahead_ms=self._context.ahead_ms, limit=settings.cron_batch_size, after=after)

    def _advance(self, reached: datetime, began: float, locked: set[LockedRow]) -> None:
        self._ticks.advance(reached, began, time.monotonic())
        self._locked_jobs.note(locked)

    def _take(self, after: DuePosition, limit: int, pace: CatchUpPace, depths: Depths) -> _Page:
        """Take a page of due jobs, which other schedulers skip, and insert their ticks: one transaction."""
        database, ahead_ms = self._context.database, self._context.ahead_ms
        jobs, now, following = due(database, ahead_ms=ahead_ms, limit=limit, after=after, takes=True)
        if not jobs:
            return _Page(now, following, [], [], MaterializedTicks())
        database.fetch(HOLD_BRIEFLY)
        choices, considered = self._choices(jobs, pace, depths)
        if considered < len(jobs):
            jobs = jobs[:considered]
            following = DuePosition(jobs[-1].next_run_at, jobs[-1].job_id)
        advances = [advance for _, advance in choices if advance is not None]
        done = materialize(database, advances, shards=self._context.shards)
        return _Page(now, following, jobs, choices, done)

    def _note(self, page: _Page, pace: CatchUpPace, counts: Counts, locked: set[LockedRow]) -> list[Advance]:
        """Count a page; add locked jobs to `locked`, and return the advances of all other jobs."""
        done, moved = page.done, list[Advance]()
        self._context.hint_all(done.queues)
        counts.update(ticks=done.executions, retired=done.retired, skipped=done.skipped)
        for job, advance in page.choices:
            pace.note(job, advance)
            if advance is not None and job.job_id in done.locked:
                pace.put_back(advance)
                locked.add(LockedRow(f"job {job.job_id}", job.next_run_at))
            elif advance is not None:
                moved.append(advance)
        return moved

    def _note_skipped(self, left: Sequence[DueJob], pace: CatchUpPace, seen: Set[str], locked: set[LockedRow]) -> None:
        """Keep the mark before the first due jobs that this pass has skipped, because others had locked them."""
        for job in left:
            if job.job_id not in seen:
                pace.wait_for(job)
                locked.add(LockedRow(f"job {job.job_id}", job.next_run_at))

    def _choices(
        self, jobs: Sequence[DueJob], pace: CatchUpPace, depths: Depths
    ) -> tuple[list[tuple[DueJob, Advance | None]], int]:
        """Choose the ticks of as many jobs as time allows, at least one; returns also the number of these jobs."""
        portions = {job.job_id: pace.portion(job, len(jobs)) for job in jobs}
        grace = timedelta(seconds=self._context.settings.misfire_grace_seconds)
        deep = depths.deep([job.job_id for job in jobs if makes_up_for_all(job, grace)])
        ready = sum(job.next_run_at > job.now or portions[job.job_id] > 0 for job in jobs)
        limit = max(1, MAX_TICKS // max(1, ready))
        choices, ends_at = list[tuple[DueJob, Advance | None]](), time.monotonic() + MAX_CHOOSING_SECONDS
        for considered, job in enumerate(jobs, 1):
            try:
                is_deferred = job.job_id in deep and may_wait(job, pace.least(job))
                choices.append((job, choose_ticks(job, limit, grace, 0 if is_deferred else portions[job.job_id])))
            except Exception as error:  # noqa: BLE001 - a row may hold anything
                # Valid when it was stored, but this machine's time zones may be older. Other jobs continue.
                report(f"job {job.job_id}", error)
            if time.monotonic() > ends_at:
                return choices, considered
        return choices, len(jobs)
