"""Turning the ticks of cron jobs into executions: each at most once, whatever number of schedulers run."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from app import ids
from app.db import Database
from app.sql import statement
from schema.states import EndpointType

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# A plain read: the compare-and-set below decides, a lock here would end with this statement.
DUE = statement(
    "executions.due_cron_jobs",
    """
    SELECT job_id, endpoint_type, cron_expression, cron_timezone, cron_next_run_at, cron_ends_at,
           now() + CAST(:ahead_ms AS BIGINT) * INTERVAL '1 millisecond' AS horizon
      FROM jobs
     WHERE cron_next_run_at IS NOT NULL
       AND cron_next_run_at <= now() + CAST(:ahead_ms AS BIGINT) * INTERVAL '1 millisecond'
       AND (cron_next_run_at, job_id) > (CAST(:after_run_at AS TIMESTAMPTZ), CAST(:after_job AS TEXT))
     ORDER BY cron_next_run_at, job_id LIMIT :limit
    """,
)

# The ticks of a job are inserted only if its cron_next_run_at was still the first of them, and in the same
# statement it moves past the last: whoever comes second, or again, finds nothing to do. = ANY is implied by the
# join; it keeps the plan to the primary key (without statistics PostgreSQL compared every tick with every cron job).
MATERIALIZE = statement(
    "executions.materialize",
    """
    WITH due AS (
      SELECT * FROM unnest(
        CAST(:jobs AS TEXT[]), CAST(:queues AS TEXT[]), CAST(:expected AS TIMESTAMPTZ[]),
        CAST(:nexts AS TIMESTAMPTZ[]), CAST(:lasts AS TIMESTAMPTZ[]))
      AS u (job_id, queue, expected, next_run_at, last_tick_at)),
    advanced AS (
      UPDATE jobs AS j
         SET cron_next_run_at = due.next_run_at,
             cron_last_tick_at = COALESCE(due.last_tick_at, j.cron_last_tick_at),
             status = CASE WHEN due.next_run_at IS NULL THEN 'RETIRED' ELSE 'ACTIVE' END,
             retired_at = CASE WHEN due.next_run_at IS NULL THEN now() ELSE NULL END
        FROM due
       WHERE j.job_id = ANY (CAST(:jobs AS TEXT[]))
         AND j.job_id = due.job_id AND j.cron_next_run_at = due.expected
         AND j.trigger_type = 'CRON' AND j.status = 'ACTIVE'
      RETURNING j.job_id, j.endpoint, j.endpoint_version, j.endpoint_type, j.max_attempts, j.status, due.queue),
    inserted AS (
      INSERT INTO executions (execution_id, shard, job_id, endpoint, endpoint_version, endpoint_type, queue,
                              idempotency_key, status, max_attempts, run_at, scheduled_at)
      SELECT t.execution_id, t.shard, a.job_id, a.endpoint, a.endpoint_version, a.endpoint_type, a.queue,
             t.idempotency_key, 'QUEUED', a.max_attempts, t.tick, t.tick
        FROM unnest(
               CAST(:tick_jobs AS TEXT[]), CAST(:ticks AS TIMESTAMPTZ[]), CAST(:executions AS TEXT[]),
               CAST(:shards AS BIGINT[]), CAST(:keys AS TEXT[]))
             AS t (job_id, tick, execution_id, shard, idempotency_key)
        JOIN advanced AS a ON a.job_id = t.job_id
      ON CONFLICT (job_id, idempotency_key) DO NOTHING
      RETURNING execution_id, job_id)
    SELECT a.queue, count(DISTINCT a.job_id) AS jobs, count(i.execution_id) AS executions,
           count(DISTINCT CASE WHEN a.status = 'RETIRED' THEN a.job_id END) AS retired
      FROM advanced AS a LEFT JOIN inserted AS i ON i.job_id = a.job_id
     GROUP BY a.queue
    """,
)


@dataclass(frozen=True, slots=True)
class DueJob:
    """A cron job with a tick at or before the horizon, which is the database's now plus the look-ahead."""

    job_id: str
    endpoint_type: EndpointType
    expression: str
    timezone: str
    next_run_at: datetime
    ends_at: datetime | None
    horizon: datetime


@dataclass(frozen=True, slots=True)
class Advance:
    """Ticks of one job, in order, and the tick after them; without one the job retires."""

    job: DueJob
    ticks: tuple[datetime, ...]
    next_run_at: datetime | None


@dataclass(frozen=True, slots=True)
class Materialized:
    """What a statement did: the advances that it won, by queue of the new executions."""

    queues: frozenset[str]
    jobs: int
    executions: int
    retired: int


def due(database: Database, *, ahead_ms: int, limit: int, after: DueJob | None = None) -> list[DueJob]:
    """Read the jobs with due ticks, the longest due first, from behind `after` on."""
    params = {
        "ahead_ms": ahead_ms,
        "limit": limit,
        "after_run_at": after.next_run_at if after else _EPOCH,
        "after_job": after.job_id if after else "",
    }
    return [
        DueJob(
            job_id=row.job_id,
            endpoint_type=EndpointType(row.endpoint_type),
            expression=row.cron_expression,
            timezone=row.cron_timezone,
            next_run_at=row.cron_next_run_at,
            ends_at=row.cron_ends_at,
            horizon=row.horizon,
        )
        for row in database.fetch(DUE, params)
    ]


def materialize(database: Database, advances: Sequence[Advance], *, shards: int) -> Materialized:
    """Insert the executions of all ticks and advance the jobs; a job that has moved meanwhile is left alone."""
    if not advances:
        return Materialized(frozenset(), 0, 0, 0)
    rows = database.fetch(MATERIALIZE, _params(advances, shards))
    return Materialized(
        queues=frozenset(row.queue for row in rows if row.executions),
        jobs=sum(row.jobs for row in rows),
        executions=sum(row.executions for row in rows),
        retired=sum(row.retired for row in rows),
    )


def _params(advances: Sequence[Advance], shards: int) -> dict[str, object]:
    # In key order, so that two schedulers do not lock the same jobs crosswise.
    advances = sorted(advances, key=lambda a: a.job.job_id)
    ticks = [(a.job.job_id, tick) for a in advances for tick in a.ticks]
    executions = [ids.execution_id() for _ in ticks]
    return {
        "jobs": [a.job.job_id for a in advances],
        "queues": [a.job.endpoint_type.queue for a in advances],
        "expected": [a.job.next_run_at for a in advances],
        "nexts": [a.next_run_at for a in advances],
        "lasts": [a.ticks[-1] if a.ticks else None for a in advances],
        "tick_jobs": [job_id for job_id, _ in ticks],
        "ticks": [tick for _, tick in ticks],
        "executions": executions,
        "shards": [ids.shard_of(execution, shards) for execution in executions],
        "keys": [f"{job_id}_{(tick - _EPOCH) // timedelta(milliseconds=1)}" for job_id, tick in ticks],
    }
