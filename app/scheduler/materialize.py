"""The chore that turns cron ticks into executions, a little ahead of their time."""

import logging
from dataclasses import dataclass
from datetime import datetime

from app.db import Database
from app.errors import TaskExecutorError
from app.executions.materialize import Advance, DueJob, due, materialize
from app.jobs.cron import Schedule
from app.scheduler.chore import Hint, Stopping

log = logging.getLogger(__name__)

MAX_TICKS = 500  # executions per statement


@dataclass(frozen=True, slots=True)
class MaterializeCounts:
    """What a run did."""

    ticks: int
    retired: int


class Materialize:
    """Catches up tick by tick, from each job's own next tick: downtime delays ticks and loses none."""

    name = "materialize"

    def __init__(
        self, database: Database, *, shards: int, ahead_ms: int, batch: int, hint: Hint, stopping: Stopping
    ) -> None:
        self._database = database
        self._shards = shards
        self._ahead_ms = ahead_ms
        self._batch = batch
        self._hint = hint
        self._stopping = stopping
        self._unreadable: set[str] = set()

    def run_once(self) -> MaterializeCounts:
        """Materialise every tick that is due within the look-ahead."""
        ticks = retired = 0
        last: DueJob | None = None
        behind = False  # some job of this walk has more due ticks than fitted in its statement
        while not self._stopping():
            jobs = due(self._database, ahead_ms=self._ahead_ms, limit=self._batch, after=last)
            advances = self._advances(jobs)
            done = materialize(self._database, advances, shards=self._shards)
            for queue in done.queues:
                self._hint(queue)
            ticks, retired = ticks + done.executions, retired + done.retired
            behind = behind or any(a.next_run_at and a.next_run_at <= a.job.horizon for a in advances)
            if len(jobs) == self._batch:
                last = jobs[-1]
            elif behind:
                last, behind = None, False
            else:
                break
        return MaterializeCounts(ticks, retired)

    def _advances(self, jobs: list[DueJob]) -> list[Advance]:
        limit = max(1, MAX_TICKS // max(1, len(jobs)))
        advances = []
        for job in jobs:
            try:
                advances.append(advance(job, Schedule.parse(job.expression, job.timezone), limit))
            except TaskExecutorError as error:
                # Stored, so it was valid once: this machine's time zones may be older. The others must go on.
                if job.job_id not in self._unreadable:
                    self._unreadable.add(job.job_id)
                    log.error("cron job %s is passed over: %s", job.job_id, error.message)  # noqa: TRY400
        return advances


def advance(job: DueJob, schedule: Schedule, limit: int) -> Advance:
    """Choose the next ticks of a job: up to its horizon, before its end, at most `limit`."""
    ticks: list[datetime] = []
    tick: datetime | None = job.next_run_at
    while tick is not None and not _is_over(job, tick):
        if tick > job.horizon or len(ticks) == limit:
            return Advance(job, tuple(ticks), tick)
        ticks.append(tick)
        tick = schedule.next_after(tick)
    return Advance(job, tuple(ticks), None)


def _is_over(job: DueJob, tick: datetime) -> bool:
    return job.ends_at is not None and tick >= job.ends_at
