"""Schedules of actors: the option `cron` of an actor is a repeating job of its endpoint.

The key of the job is made of the schedule, so processes of two versions of a program create each job once. A job that
was retired makes room for a later job with the same schedule.
"""

import hashlib
from itertools import count

from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.queue.jobs import job_queries
from app.queue.jobs.following_jobs import Placing
from app.queue.jobs.job_cancellation import cancel_job
from app.queue.jobs.job_creation import Creator
from app.queue.jobs.job_model import Job, NewJob, own_key
from app.schedule.timetable import Timetable
from schema.states import JobStatus, Trigger


class ActorSchedules:
    """Creates and retires the repeating jobs of actors; safe to use from several threads."""

    def __init__(self, database: Database, placing: Placing) -> None:
        self._database = database
        self._creator = Creator(database, shards=placing.shards, look_ahead_ms=placing.look_ahead_ms)

    def end(self, endpoint: str, cron: str, timezone: str) -> None:
        """Retire the job of an earlier schedule, if it is live."""
        _, live = self._find(endpoint, cron, timezone)
        if live is not None:
            cancel_job(self._database, live.job_id, actor="actors")

    def keep(self, endpoint: str, cron: str, timezone: str) -> None:
        """Create the job of a schedule unless it is live or paused; raises InvalidCronError."""
        key, live = self._find(endpoint, cron, timezone)
        if live is not None:
            return
        timetable = Timetable(cron=cron, timezone=timezone, starts_at=EPOCH)
        new = NewJob(
            endpoint=endpoint,
            trigger=Trigger.CRON,
            input={},
            name=f"cron of {endpoint}",
            idempotency_key=key,
            timetable=timetable,
            starts_now=True,
        )
        self._creator.create(new)

    def _find(self, endpoint: str, cron: str, timezone: str) -> tuple[str, Job | None]:
        """Return the key of the schedule's live or next job, and the live job if there is one."""
        digest = hashlib.sha256(f"{cron}\n{timezone}".encode()).hexdigest()[:16]
        for number in count():
            key = own_key("cron", f"{endpoint}:{digest}:{number}")
            found = job_queries.find_jobs(self._database, (), [(endpoint, key)])
            if not found:
                return key, None
            if found[0].status is not JobStatus.RETIRED:
                return key, found[0]
        raise AssertionError
