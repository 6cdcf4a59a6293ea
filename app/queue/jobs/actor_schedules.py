"""Schedules of actors: the option `cron` of an actor is a repeating job of its endpoint.

The key of the job is made of the schedule, so processes of two versions of a program create each job once. A job that
was retired makes room for a later job with the same schedule.
"""

import hashlib
from typing import NamedTuple

from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.kernel.sql import statement
from app.queue.jobs.following_jobs import Placing
from app.queue.jobs.job_cancellation import cancel_job
from app.queue.jobs.job_creation import Creator
from app.queue.jobs.job_model import NewJob, own_key
from app.schedule.timetable import Timetable
from schema.states import JobStatus, Trigger

# The first version of a job keeps the key when a request replaces it; later versions have none.
CHAIN = statement(
    "jobs.actor_schedule",
    """
    WITH keyed AS (
      SELECT job_id, idempotency_key, status FROM jobs
       WHERE endpoint = :endpoint AND trigger_type IN ('CRON', 'INTERVAL')
         AND idempotency_key LIKE :pattern)
    SELECT job_id, idempotency_key, status FROM keyed
     UNION ALL
    SELECT v.job_id, v.idempotency_key, v.status FROM jobs AS v JOIN keyed AS k ON v.first_version_id = k.job_id
    """,
)


class _Chain(NamedTuple):
    """Jobs of one schedule: the key of its next job, and the ids of its live or paused jobs."""

    next_key: str
    live: list[str]


class ActorSchedules:
    """Creates and retires the repeating jobs of actors; safe to use from several threads."""

    def __init__(self, database: Database, placing: Placing) -> None:
        self._database = database
        self._creator = Creator(database, shards=placing.shards, look_ahead_ms=placing.look_ahead_ms)

    def end(self, endpoint: str, cron: str, timezone: str) -> None:
        """Retire the jobs of an earlier schedule that are live."""
        for job_id in self._find(endpoint, cron, timezone).live:
            cancel_job(self._database, job_id, actor="actors")

    def keep(self, endpoint: str, cron: str, timezone: str) -> None:
        """Create the job of a schedule unless it is live or paused; raises InvalidCronError."""
        found = self._find(endpoint, cron, timezone)
        if found.live:
            return
        timetable = Timetable(cron=cron, timezone=timezone, starts_at=EPOCH)
        new = NewJob(
            endpoint=endpoint,
            trigger=Trigger.CRON,
            input={},
            name=f"cron of {endpoint}",
            idempotency_key=found.next_key,
            timetable=timetable,
            starts_now=True,
        )
        self._creator.create(new)

    def _find(self, endpoint: str, cron: str, timezone: str) -> _Chain:
        """Read the jobs of a schedule."""
        digest = hashlib.sha256(f"{cron}\n{timezone}".encode()).hexdigest()[:16]
        prefix = own_key("cron", f"{endpoint}:{digest}:")
        params = {"endpoint": endpoint, "pattern": f"{prefix}%"}
        rows = self._database.fetch(CHAIN, params)
        numbers = [int(row.idempotency_key[len(prefix) :]) for row in rows if row.idempotency_key is not None]
        live = [row.job_id for row in rows if row.status != JobStatus.RETIRED]
        return _Chain(f"{prefix}{max(numbers, default=-1) + 1}", live)
