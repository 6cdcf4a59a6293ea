"""Job creation: one statement and one round trip once the endpoint is cached."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Row

from app.catalog.endpoints import callback_targets
from app.kernel import ids
from app.kernel.db import Database
from app.kernel.errors import EndpointNotFoundError, TaskExecutorError, UnavailableError
from app.kernel.sql import statement
from app.kernel.wakeup import Place
from app.queue.jobs import job_insertion, job_queries
from app.queue.jobs.endpoint_cache import CachedEndpoint, EndpointCache
from app.queue.jobs.group_commit import GroupCommit
from app.queue.jobs.job_model import Job, NewJob
from schema.states import ExecutionStatus, Trigger

if TYPE_CHECKING:
    from app.catalog.endpoints.inline import InlineEndpoints

MAX_TRIES = 4
MAX_GROUPED_INPUT = 32_768  # characters: a full group is 4 MiB at most, and CockroachDB accepts 16 MiB

CLOCK = statement("jobs.clock", "SELECT now() AS now")


class Created(NamedTuple):
    """A job, and whether this request created it; a replay returns the earlier job with the same key."""

    job: Job
    is_new: bool


class Creator:
    """Creates jobs; built once per process."""

    def __init__(
        self,
        database: Database,
        *,
        shards: int,
        look_ahead_ms: int,
        inline: "InlineEndpoints | None" = None,
        hint: Callable[[str, Place | None], object] = lambda _queue, _place: None,
    ) -> None:
        """Take the `hint` to call after a job is stored: with its queue, and its partition if it is due at once.

        Without `inline`, a job for an inline endpoint that is missing is refused.
        """
        self.database = database
        self.targets = EndpointCache(database)
        self.shards = shards
        self.look_ahead_ms = look_ahead_ms
        self._inline = inline
        self._hint = hint
        self._group = GroupCommit[Mapping[str, Any], Row[Any]](self._insert_one_shots)

    def now(self) -> datetime:
        """Read the database's clock, from which the ticks of a new job are counted."""
        found: datetime = self.database.fetch(CLOCK)[0].now
        return found

    def create(self, new: NewJob, *, together: bool = False, attempts: int | None = None) -> Created:
        """Store a job, or return the job with its key.

        A replay is recognised whatever its body, even if the body would now be refused. `together` uses a group commit
        with other threads, outside of any transaction of this thread. `attempts` overrides the endpoint's retry policy.
        """
        try:
            return self._create(new, together=together, attempts=attempts)
        except TaskExecutorError as error:
            first = None if error.status >= 500 else self._stored(new)
            if first is None:
                raise
            return Created(first, is_new=False)

    def _create(self, new: NewJob, *, together: bool, attempts: int | None) -> Created:
        new, job_id = scheduled(new, self.now()) if new.timetable else new, ids.job_id()
        target = self.targets.accepting(new.endpoint, new.input) if new.inline is None else self.target_of(new)
        if new.callbacks:
            callback_targets.check(self.database.fetch, new.endpoint, new.callbacks)
        for tried in range(MAX_TRIES):
            params = {**job_insertion.params_of(new, target, job_id, self.shards), "look_ahead_ms": self.look_ahead_ms}
            params["max_attempts"] = attempts or params["max_attempts"]
            if new.timetable is not None:
                several = job_insertion.params_of_several([params], repeating=True)
                row = next(iter(self.database.fetch(job_insertion.REPEATING, several)), None)
            elif together and tried == 0 and len(params["input"]) <= MAX_GROUPED_INPUT:
                # One group per endpoint, so that a locked endpoint delays its own jobs only.
                state = (target.name, target.version, target.spec_updated_at, target.flow_revision)
                row = self._group.write(state, params)
            else:
                row = self._insert_one_shots([params])[0]
            if row is not None:
                # Before anything else: a worker can start while the answer is written.
                if new.timetable is None and row.execution_status == ExecutionStatus.QUEUED:
                    partition = (params["shard"], target.name, params["limit_key"], row.execution_priority)
                    place = Place(*partition, run_at=row.created_at)
                    self._hint(row.execution_queue, place if new.trigger is Trigger.IMMEDIATE else None)
                return Created(job_insertion.inserted(new, params, row), is_new=True)
            # An earlier run may have inserted a job with this id, but its answer was lost.
            found = self._stored(new, job_id)
            if found is not None:
                is_new = found.job_id == job_id
                if is_new and found.execution is not None and found.execution.status is ExecutionStatus.QUEUED:
                    self._hint(found.execution.queue, None)
                return Created(found, is_new=is_new)
            target = self.target_of(new, again=True)
        raise UnavailableError("The endpoint is changing too often. Retry later.")

    def target_of(self, new: NewJob, *, again: bool = False) -> CachedEndpoint:
        """Return the endpoint of a new job, read `again` or from the cache; raises as `EndpointCache.checked` does.

        Raises ForbiddenError for an inline endpoint if these are turned off.
        """
        if new.inline is not None and self._inline is not None:
            self._inline.check_on()
        look_up = self.targets.checked if again else self.targets.accepting
        try:
            return look_up(new.endpoint, new.input)
        except EndpointNotFoundError:
            if new.inline is None or self._inline is None:
                raise
        self._inline.register(self.database, new.inline, by=new.by)
        return self.targets.checked(new.endpoint, new.input)

    def _insert_one_shots(self, each: Sequence[Mapping[str, Any]]) -> list[Row[Any] | None]:
        """Insert one-shot jobs of one endpoint; returns a row for each, or None if it was not inserted."""
        if len(each) == 1:
            return [next(iter(self.database.fetch(job_insertion.ONE_SHOT, each[0])), None)]
        rows = self.database.fetch(job_insertion.ONE_SHOTS, job_insertion.params_of_several(each))
        found = {row.job_id: row for row in rows}
        return [found.get(params["job_id"]) for params in each]

    def _stored(self, new: NewJob, *job_ids: str) -> Job | None:
        """Return the job with the key of a new job, or with an id."""
        keys = [] if new.idempotency_key is None else [(new.endpoint, new.idempotency_key)]
        return next(iter(job_queries.find_jobs(self.database, job_ids, keys)), None)


def scheduled(new: NewJob, now: datetime) -> NewJob:
    """Return the job with its start and first tick if it repeats; raises InvalidCronError if it would never fire."""
    if new.timetable is None:
        return new
    table = replace(new.timetable, starts_at=now) if new.starts_now else new.timetable
    return replace(new, timetable=table, first_tick=table.first_tick(now, start_given=not new.starts_now))
