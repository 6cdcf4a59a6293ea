"""Creating a job: one statement, one round trip, once its endpoint is cached."""

from dataclasses import dataclass, replace
from datetime import datetime

from app import ids
from app.db import Database
from app.errors import Detail, InputValidationError, TaskExecutorError, UnavailableError
from app.jobs import insertion, queries
from app.jobs.endpoint_cache import CachedEndpoint, EndpointCache
from app.jobs.model import Job, NewJob

MAX_TRIES = 4


@dataclass(frozen=True, slots=True)
class Created:
    """A job, and whether this request made it; otherwise it is the first one with the same key."""

    job: Job
    is_new: bool


class Creator:
    """Creates jobs; built once per process."""

    def __init__(self, database: Database, *, shards: int, look_ahead_seconds: float) -> None:
        self.database = database
        self.targets = EndpointCache(database)
        self.shards = shards
        self.look_ahead_ms = round(look_ahead_seconds * 1000)

    def create(self, new: NewJob, now: datetime) -> Created:
        """Store a job, or find the one with its key.

        A replay is recognised whatever its body, so also when the body could not be taken any more. `now` decides
        about starts only, never about what is due.
        """
        try:
            return self._create(new, now)
        except TaskExecutorError as error:
            first = None if error.status >= 500 else self._first_with_key(new)
            if first is None:
                raise
            return Created(first, is_new=False)

    def _create(self, new: NewJob, now: datetime) -> Created:
        new = scheduled(new, now)
        job_id, execution_id = ids.job_id(), ids.execution_id()
        target = fitting(self.targets, new)
        for _ in range(MAX_TRIES):
            job = self._insert(new, target, job_id, execution_id)
            if job is not None:
                return Created(job, is_new=True)
            # The same id: it is ours, written by a first run whose answer was lost.
            found = self._first_with_key(new) or queries.find_job(self.database, job_id)
            if found is not None:
                return Created(found, is_new=found.job_id == job_id)
            target = checked(new, self.targets.load(new.endpoint))
        raise UnavailableError("The endpoint keeps changing; try again.")

    def _insert(self, new: NewJob, target: CachedEndpoint, job_id: str, execution_id: str) -> Job | None:
        params = insertion.target_params(target) | insertion.job_params(new, job_id)
        if new.timetable is not None:
            params |= insertion.timetable_params(new) | insertion.FIRST_VERSION
            rows = self.database.fetch(insertion.REPEATING, params)
            return insertion.repeating_job(new, target, params, rows[0]) if rows else None
        params |= insertion.one_shot_params(new, target, execution_id, self.shards)
        rows = self.database.fetch(insertion.ONE_SHOT, params | {"look_ahead_ms": self.look_ahead_ms})
        return insertion.one_shot_job(new, target, job_id, insertion.summary(execution_id, rows[0])) if rows else None

    def _first_with_key(self, new: NewJob) -> Job | None:
        if new.idempotency_key is None:
            return None
        return queries.find_job_by_key(self.database, new.endpoint, new.idempotency_key)


def scheduled(new: NewJob, now: datetime) -> NewJob:
    """Find the first tick of a repeating job; raises InvalidCronError when it would never fire."""
    if new.timetable is None:
        return new
    return replace(new, first_tick=new.timetable.first_tick(now, start_given=not new.starts_now))


def fitting(targets: EndpointCache, new: NewJob) -> CachedEndpoint:
    """Find the endpoint and check the input; a cached payload spec may accept, but only a fresh one refuses.

    Raises EndpointNotFoundError or InputValidationError.
    """
    cached = targets.cached(new.endpoint)
    if cached is not None and not cached.faults(new.input):
        return cached
    return checked(new, targets.load(new.endpoint))


def checked(new: NewJob, target: CachedEndpoint) -> CachedEndpoint:
    """Check the input against an endpoint that was just read; raises InputValidationError."""
    faults = target.faults(new.input)
    if not faults:
        return target
    details: list[Detail] = [{"pointer": f"/input{fault['pointer']}", "message": fault["message"]} for fault in faults]
    first = details[0]
    raise InputValidationError(
        f"The input does not match the payload spec. {first['pointer']}: {first['message']}", details
    )
