"""Batches of new jobs: one statement per chunk, and an outcome per job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from sqlalchemy import Row

from app.catalog.endpoints import callback_targets
from app.kernel import ids
from app.kernel.errors import TaskExecutorError
from app.queue.jobs import job_insertion, job_queries
from app.queue.jobs.job_creation import Created, Creator, scheduled
from app.queue.jobs.job_model import Job, NewJob

CHUNK = 500

Outcome = Created | TaskExecutorError


@dataclass(frozen=True, slots=True)
class _Item:
    """A job to insert, and the position of its outcome."""

    position: int
    new: NewJob
    params: dict[str, Any]


def create_many(creator: Creator, jobs: Sequence[NewJob]) -> list[Outcome]:
    """Create each job or return its error; a failure does not affect the other jobs."""
    outcomes: list[Outcome] = []
    for start in range(0, len(jobs), CHUNK):
        outcomes += _Chunk(creator, jobs[start : start + CHUNK]).create()
    return outcomes


class _Chunk:
    """The jobs of one statement."""

    def __init__(self, creator: Creator, jobs: Sequence[NewJob]) -> None:
        self._creator = creator
        self._jobs = jobs
        self._items: dict[str, _Item] = {}
        self._refused: dict[int, TaskExecutorError] = {}
        self._outcomes: dict[int, Outcome] = {}
        self._checked = set[tuple[object, ...]]()

    def create(self) -> list[Outcome]:
        """Create the jobs that can be created."""
        self._prepare()
        if self._items:
            self._insert()
        self._look_up()
        return [self._outcomes[position] for position in range(len(self._jobs))]

    def _prepare(self) -> None:
        keys = set()
        for position, new in enumerate(self._jobs):
            key = (new.endpoint, new.idempotency_key)
            # The second job with a key is a replay of the first, so the first has to be inserted before.
            if new.idempotency_key is None or key not in keys:
                try:
                    item = self._item(position, new)
                except TaskExecutorError as error:
                    self._refused[position] = _refusal(error)
                else:
                    self._items[item.params["job_id"]] = item
                    keys.add(key)

    def _item(self, position: int, new: NewJob) -> _Item:
        new = scheduled(new, self._now) if new.timetable else new
        target = self._creator.targets.fitting(new.endpoint, new.input)
        if new.callbacks:
            self._check_callbacks(new.endpoint, new.callbacks)
        params = job_insertion.params_of(new, target, ids.job_id(), self._creator.shards)
        return _Item(position, new, params | {"look_ahead_ms": self._creator.look_ahead_ms})

    def _check_callbacks(self, endpoint: str, named: Mapping[str, str | None]) -> None:
        """Check callbacks as a single creation does, but equal callbacks of many jobs only once."""
        key = (endpoint, *sorted(named.items()))
        if key not in self._checked:
            callback_targets.check(self._creator.database.fetch, endpoint, named)
            self._checked.add(key)

    @cached_property
    def _now(self) -> datetime:
        return self._creator.now()

    def _insert(self) -> None:
        one_shots = [item.params for item in self._items.values() if item.new.timetable is None]
        repeating = [item.params for item in self._items.values() if item.new.timetable is not None]
        rows: list[Row[Any]] = []
        if one_shots:
            rows += self._creator.database.fetch(job_insertion.ONE_SHOTS, job_insertion.params_of_one_shots(one_shots))
        if repeating:
            params = job_insertion.params_of_several_repeating(repeating)
            rows += self._creator.database.fetch(job_insertion.SEVERAL_REPEATING, params)
        for row in rows:
            item = self._items[row.job_id]
            self._outcomes[item.position] = Created(job_insertion.inserted(item.new, item.params, row), is_new=True)

    def _look_up(self) -> None:
        """Determine the outcome of the jobs that the statement did not return."""
        missing = {position: new for position, new in enumerate(self._jobs) if position not in self._outcomes}
        own = {item.position: job_id for job_id, item in self._items.items() if item.position in missing}
        keys = {(new.endpoint, new.idempotency_key) for new in missing.values() if new.idempotency_key is not None}
        found = job_queries.find_jobs(self._creator.database, own.values(), keys)
        by_id = {job.job_id: job for job in found}
        by_key = {(job.endpoint, job.idempotency_key or ""): job for job in found if job.idempotency_key is not None}
        for position, new in missing.items():
            first = by_key.get((new.endpoint, new.idempotency_key or ""))
            if own.get(position) in by_id:
                # An earlier run of the statement inserted this job; its answer was lost.
                self._outcomes[position] = Created(by_id[own[position]], is_new=True)
            elif first is not None and not self._comes_later(first, position):
                self._outcomes[position] = Created(first, is_new=False)
            else:
                self._outcomes[position] = self._refused.get(position) or self._alone(new)

    def _comes_later(self, job: Job, position: int) -> bool:
        """Return whether a later item of this chunk created the job: its key was then still free."""
        return job.job_id in self._items and self._items[job.job_id].position > position

    def _alone(self, new: NewJob) -> Outcome:
        try:
            return self._creator.create(new)
        except TaskExecutorError as error:
            return _refusal(error)


def _refusal(error: TaskExecutorError) -> TaskExecutorError:
    """Return a client error; raise a server error, which ends the whole request."""
    if error.status >= 500:
        raise error
    return error
