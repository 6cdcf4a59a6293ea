"""Materialiser: the chore that turns due ticks of repeating jobs into executions."""

import logging
import time
from collections.abc import Sequence
from datetime import timedelta

from app.kernel.errors import TaskExecutorError
from app.queue.claiming.depth import Depths
from app.queue.executions.materialization import due, materialize
from app.queue.executions.watermark import LowWater
from app.schedule.due_ticks import Advance, DueJob, choose_ticks, makes_up_for_all, may_wait
from app.scheduler.catch_up import CatchUpPace
from app.scheduler.chore import ChoreContext, Counts, counts_so_far, got_on
from app.scheduler.locked_rows import LockedRow, LockedRows

log = logging.getLogger(__name__)

MAX_TICKS = 500  # executions per statement


class Materializer:
    """Reads due jobs from where the last pass ended; `materialize` is one pass."""

    def __init__(self, context: ChoreContext) -> None:
        self._context = context
        self._ticks = LowWater(sweep_seconds=context.full_scan_seconds)
        self._locked_jobs = LockedRows("its ticks wait")
        self._unreadable: set[str] = set()

    def materialize(self) -> Counts:
        """Insert the executions of every tick that is due within the look-ahead, from each job's own next tick on.

        Downtime delays ticks, and the job says which of them still run: a portion of them in each pass. A locked job is
        skipped, and the next pass tries it again.
        """
        counts = counts_so_far()
        batch = self._context.settings.cron_batch_size
        last: DueJob | None = None
        pace = CatchUpPace(self._context.settings.cron_tick_interval_seconds)
        depths = Depths(self._context.database, self._context.served.count)
        locked = set[LockedRow]()
        behind = False  # some job of this walk has more ticks in this pass than fitted in its statement
        while not self._context.stopping():
            found = due(
                self._context.database,
                ahead_ms=self._context.ahead_ms,
                limit=batch,
                since=self._ticks.since,
                after=last,
            )
            jobs = found.jobs
            advances = self._advances(jobs, pace, depths)
            moved = self._move(advances, pace, counts, locked)
            behind = behind or any(pace.goes_on(advance, len(jobs)) for advance in moved)
            got_on()
            if len(jobs) == batch:
                last = jobs[-1]
            elif behind:
                last, behind = None, False
            else:
                self._ticks.advance(pace.reached(found.now), time.monotonic())
                self._locked_jobs.note(locked)
                break
        return counts

    def _move(
        self, advances: Sequence[Advance], pace: CatchUpPace, counts: Counts, locked: set[LockedRow]
    ) -> list[Advance]:
        """Advance jobs; put each locked job into `locked`, and return the advances of all other jobs."""
        done = materialize(self._context.database, advances, shards=self._context.shards)
        self._context.hint_all(done.queues)
        counts.update(ticks=done.executions, retired=done.retired, skipped=done.skipped)
        for advance in advances:
            if advance.job.job_id in done.locked:
                pace.put_back(advance)
                locked.add(LockedRow(f"job {advance.job.job_id}", advance.job.next_run_at))
        return [advance for advance in advances if advance.job.job_id not in done.locked]

    def _advances(self, jobs: Sequence[DueJob], pace: CatchUpPace, depths: Depths) -> list[Advance]:
        portions = {job.job_id: pace.portion(job, len(jobs)) for job in jobs}
        grace = timedelta(seconds=self._context.settings.misfire_grace_seconds)
        deep = depths.deep([job.job_id for job in jobs if makes_up_for_all(job, grace)])
        ready = sum(job.next_run_at > job.now or portions[job.job_id] > 0 for job in jobs)
        limit = max(1, MAX_TICKS // max(1, ready))
        advances: list[Advance | None] = []
        for job in jobs:
            try:
                is_put_off = job.job_id in deep and may_wait(job, pace.least(job))
                advance = choose_ticks(job, limit, grace, 0 if is_put_off else portions[job.job_id])
                pace.note(job, advance)
                advances.append(advance)
            except TaskExecutorError as error:
                # Stored, so it was valid once: this machine's time zones may be older. The others must go on.
                if job.job_id not in self._unreadable:
                    self._unreadable.add(job.job_id)
                    log.error("job %s is passed over: %s", job.job_id, error.message)  # noqa: TRY400
        return [found for found in advances if found is not None]
