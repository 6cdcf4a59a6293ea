"""Schedules of actors: the option `cron` or `interval` of an actor is a repeating job of its endpoint.

The key of the job is made of the schedule, so processes of two versions of a program create each job once. A job that
was retired makes room for a later job with the same schedule.
"""

import hashlib
import logging
import random
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from app.catalog.endpoints import versions
from app.kernel.db import Database
from app.kernel.errors import JobNotFoundError
from app.kernel.formats import EPOCH
from app.kernel.sql import statement
from app.queue.jobs.following_jobs import Placing
from app.queue.jobs.job_cancellation import cancel_job
from app.queue.jobs.job_creation import Creator
from app.queue.jobs.job_model import NewJob, own_key
from app.schedule.interval import parse_every
from app.schedule.timetable import Timetable
from schema.states import JobStatus, Trigger

log = logging.getLogger(__name__)

TRIES = 5  # to agree with the stored spec, while processes of other versions change it
MAX_PAUSE_SECONDS = 0.2  # between two tries, so that processes that start at once do not meet again

# The first version of a job keeps the key when a request replaces it; later versions have none.
CHAINS = statement(
    "jobs.actor_schedules",
    """
    WITH keyed AS (
      SELECT job_id, idempotency_key, status FROM jobs
       WHERE endpoint = :endpoint AND trigger_type IN ('CRON', 'INTERVAL')
         AND idempotency_key LIKE :pattern)
    SELECT job_id, idempotency_key, status FROM keyed
     UNION ALL
    SELECT v.job_id, k.idempotency_key, v.status FROM jobs AS v JOIN keyed AS k ON v.first_version_id = k.job_id
    """,
)


@dataclass(frozen=True, slots=True)
class _Schedule:
    """Cron expression and time zone, or interval in milliseconds, in the spec of an endpoint."""

    cron: str | None = None
    timezone: str | None = None
    every_ms: int | None = None

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> "_Schedule | None":
        if (interval := spec.get("interval")) is not None:
            return cls(every_ms=parse_every(interval))
        cron = spec.get("cron")
        return None if cron is None else cls(str(cron), str(spec.get("timezone") or "UTC"))

    @property
    def digest(self) -> str:
        text = f"{self.cron}\n{self.timezone}" if self.every_ms is None else f"every\n{self.every_ms}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class _Jobs:
    """Jobs of one actor: the digest of the schedule by the id of each live or paused job, and all keys."""

    live: dict[str, str]
    keys: frozenset[str]

    def next_key(self, prefix: str) -> str:
        """Return the key of the next job of a schedule."""
        numbers = (int(key[len(prefix) :]) for key in self.keys if key.startswith(prefix))
        return f"{prefix}{max(numbers, default=-1) + 1}"


class ActorSchedules:
    """Creates and retires the repeating jobs of actors; safe to use from several threads."""

    def __init__(self, database: Database, placing: Placing) -> None:
        self._database = database
        self._creator = Creator(database, shards=placing.shards, look_ahead_ms=placing.look_ahead_ms)

    def follow(self, endpoint: str) -> None:
        """Let the live or paused jobs of an actor agree with its stored spec.

        Raises InvalidCronError, or InvalidRequestError for an interval.

        The jobs are read after the spec, and both again after each change. If two processes register different
        schedules at once, the process with the later read corrects the jobs.
        """
        for earlier in range(TRIES):
            if self._agree(endpoint):
                return
            if earlier:  # the first try makes the change of this process
                time.sleep(random.uniform(0, MAX_PAUSE_SECONDS))
        # The process that changes the jobs corrects them; this process serves the actor.
        log.warning("other processes change the schedule of actor %s; leaving its jobs to them", endpoint)

    def _agree(self, endpoint: str) -> bool:
        """Return whether the jobs agree with the spec; if not, change them."""
        wanted, jobs = _Schedule.of(versions.get(self._database, endpoint).spec), self._find(endpoint)
        digest = None if wanted is None else wanted.digest
        others = [job_id for job_id, found in jobs.live.items() if found != digest]
        if not others and (wanted is None or jobs.live):
            return True
        for job_id in others:
            with suppress(JobNotFoundError):  # deleted since
                cancel_job(self._database, job_id, actor="actors")
        if wanted is not None and digest not in jobs.live.values():
            self._create(endpoint, wanted, jobs)
        return False

    def _create(self, endpoint: str, wanted: _Schedule, jobs: _Jobs) -> None:
        kind = Trigger.CRON if wanted.every_ms is None else Trigger.INTERVAL
        table = Timetable(cron=wanted.cron, timezone=wanted.timezone, every_ms=wanted.every_ms, starts_at=EPOCH)
        new = NewJob(
            endpoint=endpoint,
            trigger=kind,
            input={},
            name=f"{kind.lower()} of {endpoint}",
            idempotency_key=jobs.next_key(own_key("cron", f"{endpoint}:{wanted.digest}:")),
            timetable=table,
            starts_now=True,
        )
        self._creator.create(new)

    def _find(self, endpoint: str) -> _Jobs:
        prefix = own_key("cron", f"{endpoint}:")
        rows = self._database.fetch(CHAINS, {"endpoint": endpoint, "pattern": f"{prefix}%"})
        live = {row.job_id: row for row in rows if row.status != JobStatus.RETIRED}
        digests = {job_id: row.idempotency_key[len(prefix) :].partition(":")[0] for job_id, row in live.items()}
        return _Jobs(digests, frozenset(row.idempotency_key for row in rows))
