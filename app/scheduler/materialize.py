"""The chore that turns the ticks of repeating jobs into executions, a little ahead of their time."""

import logging
from dataclasses import dataclass
from datetime import timedelta

from app.db import Database
from app.errors import TaskExecutorError
from app.executions.materialization import due, materialize
from app.schedule.due_ticks import Advance, DueJob, choose_ticks
from app.scheduler.chore import Hint, Stopping

log = logging.getLogger(__name__)

MAX_TICKS = 500  # executions per statement


@dataclass(frozen=True, slots=True)
class MaterializeCounts:
    """What a run did."""

    ticks: int
    retired: int
    skipped: int


class Materialize:
    """Goes on from each job's own next tick: downtime delays ticks, and the job says which of them still run."""

    name = "materialize"

    def __init__(
        self,
        database: Database,
        *,
        shards: int,
        ahead_ms: int,
        batch: int,
        grace: timedelta,
        hint: Hint,
        stopping: Stopping,
    ) -> None:
        self._database = database
        self._shards = shards
        self._ahead_ms = ahead_ms
        self._batch = batch
        self._grace = grace
        self._hint = hint
        self._stopping = stopping
        self._unreadable: set[str] = set()

    def run_once(self) -> MaterializeCounts:
        """Materialise every tick that is due within the look-ahead."""
        ticks = retired = skipped = 0
        last: DueJob | None = None
        behind = False  # some job of this walk has more due ticks than fitted in its statement
        while not self._stopping():
            jobs = due(self._database, ahead_ms=self._ahead_ms, limit=self._batch, after=last)
            advances = self._advances(jobs)
            done = materialize(self._database, advances, shards=self._shards)
            for queue in done.queues:
                self._hint(queue)
            ticks, retired, skipped = ticks + done.executions, retired + done.retired, skipped + done.skipped
            behind = behind or any(a.next_run_at and a.next_run_at <= a.job.horizon for a in advances)
            if len(jobs) == self._batch:
                last = jobs[-1]
            elif behind:
                last, behind = None, False
            else:
                break
        return MaterializeCounts(ticks, retired, skipped)

    def _advances(self, jobs: list[DueJob]) -> list[Advance]:
        limit = max(1, MAX_TICKS // max(1, len(jobs)))
        advances: list[Advance | None] = []
        for job in jobs:
            try:
                advances.append(choose_ticks(job, limit, self._grace))
            except TaskExecutorError as error:
                # Stored, so it was valid once: this machine's time zones may be older. The others must go on.
                if job.job_id not in self._unreadable:
                    self._unreadable.add(job.job_id)
                    log.error("job %s is passed over: %s", job.job_id, error.message)  # noqa: TRY400
        return [found for found in advances if found is not None]
