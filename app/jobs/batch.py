"""Creating many jobs: one statement for each chunk, and an outcome for each job."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from app import ids
from app.errors import TaskExecutorError
from app.jobs import insertion, queries
from app.jobs.creation import Created, Creator, fitting, scheduled
from app.jobs.endpoint_cache import CachedEndpoint
from app.jobs.model import Job, NewJob
from app.sql import statement

CHUNK = 500

Outcome = Created | TaskExecutorError

# As app.jobs.insertion, for many: a job whose endpoint is not the cached one any more, or whose key is taken, is left
# out of the answer, and looked at by itself.
MANY = statement(
    "jobs.create_many",
    """
    WITH u AS (
      SELECT * FROM unnest(
        CAST(:endpoint AS TEXT[]), CAST(:version AS BIGINT[]), CAST(:spec_updated_at AS TIMESTAMPTZ[]),
        CAST(:type AS TEXT[]), CAST(:max_attempts AS BIGINT[]), CAST(:job_id AS TEXT[]), CAST(:trigger AS TEXT[]),
        CAST(:key AS TEXT[]), CAST(:input AS TEXT[]), CAST(:run_at AS TIMESTAMPTZ[]), CAST(:execution_id AS TEXT[]),
        CAST(:queue AS TEXT[]), CAST(:shard AS BIGINT[]), CAST(:cron AS TEXT[]), CAST(:timezone AS TEXT[]),
        CAST(:every_ms AS BIGINT[]), CAST(:fixed_delay AS BOOLEAN[]), CAST(:starts_at AS TIMESTAMPTZ[]),
        CAST(:ends_at AS TIMESTAMPTZ[]), CAST(:first_tick AS TIMESTAMPTZ[]), CAST(:catch_up AS TEXT[]),
        CAST(:max_catch_up AS BIGINT[]), CAST(:overlap AS TEXT[]))
      AS u (endpoint, version, spec_updated_at, type, max_attempts, job_id, trigger_type, idempotency_key, input,
            run_at, execution_id, queue, shard, cron, timezone, every_ms, fixed_delay, starts_at, ends_at, first_tick,
            catch_up, max_catch_up, overlap)),
    e AS (
      SELECT e.name, e.version, p.updated_at FROM endpoints e LEFT JOIN payload_specs p ON p.name = e.payload_spec_ref
       WHERE e.name = ANY (CAST(:endpoint AS TEXT[])) AND e.deleted_at IS NULL
         FOR SHARE OF e),
    j AS (
      INSERT INTO jobs (job_id, endpoint, endpoint_version, endpoint_type, trigger_type, idempotency_key, input,
                        max_attempts, run_at, cron_expression, cron_timezone, interval_ms, fixed_delay, cron_starts_at,
                        cron_ends_at, cron_next_run_at, catch_up, max_catch_up, overlap)
      SELECT u.job_id, u.endpoint, u.version, u.type, u.trigger_type, u.idempotency_key, CAST(u.input AS JSONB),
             u.max_attempts, u.run_at, u.cron, u.timezone, u.every_ms, u.fixed_delay, u.starts_at, u.ends_at,
             u.first_tick, u.catch_up, u.max_catch_up, u.overlap
        FROM u JOIN e ON e.name = u.endpoint AND e.version = u.version
                     AND e.updated_at IS NOT DISTINCT FROM u.spec_updated_at
      ON CONFLICT DO NOTHING
      RETURNING job_id, created_at, paused_at, GREATEST(COALESCE(run_at, now()), now()) AS due),
    x AS (
      INSERT INTO executions (execution_id, job_id, endpoint, endpoint_version, endpoint_type, queue, shard,
                              idempotency_key, status, max_attempts, run_at, scheduled_at)
      SELECT u.execution_id, u.job_id, u.endpoint, u.version, u.type, u.queue, u.shard, u.idempotency_key,
             CASE WHEN j.due > now() + :look_ahead_ms * INTERVAL '1 millisecond' THEN 'PENDING' ELSE 'QUEUED' END,
             u.max_attempts, j.due, j.due
        FROM j JOIN u ON u.job_id = j.job_id
       WHERE u.execution_id IS NOT NULL
      RETURNING job_id, status)
    SELECT j.job_id, j.created_at, j.paused_at, x.status FROM j LEFT JOIN x ON x.job_id = j.job_id
    """,
)

_NO_EXECUTION = {"run_at": None, "execution_id": None, "queue": None, "shard": None}


@dataclass(frozen=True, slots=True)
class _Item:
    """A job to insert, and the position of its outcome."""

    position: int
    new: NewJob
    target: CachedEndpoint
    params: dict[str, Any]


def create_many(creator: Creator, jobs: Sequence[NewJob], now: datetime) -> list[Outcome]:
    """Create each job or say why not; one that fails leaves the others alone."""
    outcomes: list[Outcome] = []
    for start in range(0, len(jobs), CHUNK):
        outcomes += _Chunk(creator, jobs[start : start + CHUNK], now).create()
    return outcomes


class _Chunk:
    """The jobs of one statement."""

    def __init__(self, creator: Creator, jobs: Sequence[NewJob], now: datetime) -> None:
        self._creator = creator
        self._jobs = jobs
        self._now = now
        self._items: dict[str, _Item] = {}
        self._refused: dict[int, TaskExecutorError] = {}
        self._outcomes: dict[int, Outcome] = {}

    def create(self) -> list[Outcome]:
        """Create what can be created."""
        self._prepare()
        if self._items:
            self._insert()
        self._look_up()
        return [self._outcomes[position] for position in range(len(self._jobs))]

    def _prepare(self) -> None:
        keys = set()
        for position, new in enumerate(self._jobs):
            key = (new.endpoint, new.idempotency_key)
            # Of two jobs with one key the second is a replay of the first, which must be there by then.
            if new.idempotency_key is None or key not in keys:
                try:
                    item = _item(self._creator, position, new, self._now)
                except TaskExecutorError as error:
                    self._refused[position] = _refusal(error)
                else:
                    self._items[item.params["job_id"]] = item
                    keys.add(key)

    def _insert(self) -> None:
        # In key order, so that two batches with the same keys do not wait for each other crosswise.
        ordered = sorted(self._items.values(), key=lambda item: (item.new.endpoint, item.new.idempotency_key or ""))
        params: dict[str, Any] = {name: [item.params[name] for item in ordered] for name in ordered[0].params}
        params["look_ahead_ms"] = self._creator.look_ahead_ms
        for row in self._creator.database.fetch(MANY, params):
            item = self._items[row.job_id]
            self._outcomes[item.position] = Created(_made(item, row), is_new=True)

    def _look_up(self) -> None:
        """Find out what became of the jobs that the statement did not return."""
        missing = {position: new for position, new in enumerate(self._jobs) if position not in self._outcomes}
        own = {item.position: job_id for job_id, item in self._items.items() if item.position in missing}
        keys = {(new.endpoint, new.idempotency_key) for new in missing.values() if new.idempotency_key is not None}
        found = queries.find_jobs(self._creator.database, own.values(), keys)
        by_id = {job.job_id: job for job in found}
        by_key = {(job.endpoint, job.idempotency_key or ""): job for job in found if job.idempotency_key is not None}
        for position, new in missing.items():
            first = by_key.get((new.endpoint, new.idempotency_key or ""))
            if own.get(position) in by_id:
                # Written by a first run of the statement whose answer was lost.
                self._outcomes[position] = Created(by_id[own[position]], is_new=True)
            elif first is not None and not self._comes_later(first, position):
                self._outcomes[position] = Created(first, is_new=False)
            else:
                self._outcomes[position] = self._refused.get(position) or self._alone(new)

    def _comes_later(self, job: Job, position: int) -> bool:
        """Tell whether a job was made for a later place of this chunk: then nothing had its key before."""
        return job.job_id in self._items and self._items[job.job_id].position > position

    def _alone(self, new: NewJob) -> Outcome:
        try:
            return self._creator.create(new, self._now)
        except TaskExecutorError as error:
            return _refusal(error)


def _refusal(error: TaskExecutorError) -> TaskExecutorError:
    """Let a fault of ours end the whole request."""
    if error.status >= 500:
        raise error
    return error


def _item(creator: Creator, position: int, new: NewJob, now: datetime) -> _Item:
    new = scheduled(new, now)
    target = fitting(creator.targets, new)
    params = insertion.target_params(target) | insertion.job_params(new, ids.job_id()) | insertion.timetable_params(new)
    if new.timetable is None:
        params |= insertion.one_shot_params(new, target, ids.execution_id(), creator.shards)
    else:
        params |= _NO_EXECUTION
    return _Item(position, new, target, params)


def _made(item: _Item, row: Row[Any]) -> Job:
    if item.new.timetable is None:
        execution = insertion.summary(item.params["execution_id"], row)
        return insertion.one_shot_job(item.new, item.target, row.job_id, execution)
    return insertion.repeating_job(item.new, item.target, item.params | insertion.FIRST_VERSION, row)
