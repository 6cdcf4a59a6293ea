"""Batches of new jobs: one statement per chunk, and an outcome per job."""

from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

from app.catalog.endpoints import callback_targets
from app.kernel import ids
from app.kernel.errors import TaskExecutorError
from app.queue.jobs import job_insertion, job_queries
from app.queue.jobs.job_creation import Created, Creator, scheduled
from app.queue.jobs.job_model import NewJob

CHUNK = 500

Outcome = Created | TaskExecutorError


class _Item(NamedTuple):
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
    def __init__(self, creator: Creator, jobs: Sequence[NewJob]) -> None:
        self._creator = creator
        self._jobs = jobs
        self._items: dict[str, _Item] = {}
        self._refused: dict[int, TaskExecutorError] = {}
        self._outcomes: dict[int, Outcome] = {}
        self._checked = set[object]()

    def create(self) -> list[Outcome]:
        self._prepare()
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
        target = self._creator.target_of(new)
        # Equal callbacks of many jobs are checked only once.
        callbacks = (new.endpoint, *sorted(new.callbacks.items())) if new.callbacks else None
        if new.callbacks and callbacks not in self._checked:
            callback_targets.check(self._creator.database.fetch, new.endpoint, new.callbacks)
            self._checked.add(callbacks)
        params = job_insertion.params_of(new, target, ids.job_id(), self._creator.shards)
        return _Item(position, new, params | {"look_ahead_ms": self._creator.look_ahead_ms})

    @cached_property
    def _now(self) -> datetime:
        return self._creator.now()

    def _insert(self) -> None:
        for repeating, insert in ((False, job_insertion.ONE_SHOTS), (True, job_insertion.REPEATING)):
            each = [item.params for item in self._items.values() if (item.new.timetable is not None) is repeating]
            if not each:
                continue
            for row in self._creator.database.fetch(insert, job_insertion.params_of_several(each, repeating=repeating)):
                item = self._items[row.job_id]
                job = job_insertion.inserted(item.new, item.params, row)
                self._outcomes[item.position] = Created(job, is_new=True)

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
            creator = self._items.get(first.job_id) if first is not None else None
            if own.get(position) in by_id:
                # An earlier run of the statement inserted this job; its answer was lost.
                self._outcomes[position] = Created(by_id[own[position]], is_new=True)
            elif first is not None and (creator is None or creator.position <= position):
                self._outcomes[position] = Created(first, is_new=False)
            else:
                # Also if a later item created `first`: the key was still free at this position.
                self._outcomes[position] = self._refused.get(position) or self._alone(new)

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
