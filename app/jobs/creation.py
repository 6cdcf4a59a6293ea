"""Creation of a job: one statement, one round trip, once its endpoint is cached."""

from dataclasses import dataclass, replace
from datetime import datetime

from app import ids
from app.db import Database
from app.errors import TaskExecutorError, UnavailableError
from app.jobs import insertion, queries
from app.jobs.endpoint_cache import EndpointCache
from app.jobs.model import Job, NewJob
from app.sql import statement

MAX_TRIES = 4

CLOCK = statement("jobs.clock", "SELECT now() AS now")


@dataclass(frozen=True, slots=True)
class Created:
    """A job, and whether this request created it; otherwise it is the earlier one with the same key."""

    job: Job
    is_new: bool


class Creator:
    """Creates jobs; built once per process."""

    def __init__(self, database: Database, *, shards: int, look_ahead_ms: int) -> None:
        self.database = database
        self.targets = EndpointCache(database)
        self.shards = shards
        self.look_ahead_ms = look_ahead_ms

    def now(self) -> datetime:
        """Read the database's clock: the ticks of a job are counted from what it says when the job is created."""
        found: datetime = self.database.fetch(CLOCK)[0].now
        return found

    def create(self, new: NewJob) -> Created:
        """Store a job, or return the one with its key.

        A replay is recognised whatever its body, even if the body would be refused by now.
        """
        try:
            return self._create(new)
        except TaskExecutorError as error:
            first = None if error.status >= 500 else self._first_with_key(new)
            if first is None:
                raise
            return Created(first, is_new=False)

    def _create(self, new: NewJob) -> Created:
        new, job_id = scheduled(new, self.now()) if new.timetable else new, ids.job_id()
        insert = insertion.REPEATING if new.timetable else insertion.ONE_SHOT
        target = self.targets.fitting(new.endpoint, new.input)
        for _ in range(MAX_TRIES):
            params = insertion.params_of(new, target, job_id, self.shards)
            rows = self.database.fetch(insert, params | {"look_ahead_ms": self.look_ahead_ms})
            if rows:
                return Created(insertion.inserted(new, params, rows[0]), is_new=True)
            # The same id: it is ours, written by a first run whose answer was lost.
            found = self._first_with_key(new) or queries.find_job(self.database, job_id)
            if found is not None:
                return Created(found, is_new=found.job_id == job_id)
            target = self.targets.checked(new.endpoint, new.input)
        raise UnavailableError("The endpoint keeps changing; try again.")

    def _first_with_key(self, new: NewJob) -> Job | None:
        if new.idempotency_key is None:
            return None
        return queries.find_job_by_key(self.database, new.endpoint, new.idempotency_key)


def scheduled(new: NewJob, now: datetime) -> NewJob:
    """Return the job with its start and first tick if it repeats; raises InvalidCronError when it would never fire."""
    if new.timetable is None:
        return new
    table = replace(new.timetable, starts_at=now) if new.starts_now else new.timetable
    return replace(new, timetable=table, first_tick=table.first_tick(now, start_given=not new.starts_now))
