"""Materialisation: create the executions of ticks, each at most once with any number of schedulers."""

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import Row, text

from app.kernel import ids
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.kernel.sql import hot_statement, statement
from app.kernel.unreadable import readable
from app.queue.executions.execution_insertion import OF_JOB_FOR_EXECUTION, insert_executions
from app.queue.executions.execution_model import key_of_tick
from app.queue.executions.unlocked_rows import FREE_JOBS
from app.schedule.due_ticks import Advance, DueJob
from app.schedule.timetable import Timetable

# A job is also busy with running executions of its earlier versions. Only later versions have a first_version_id. Each
# probe reads an index that contains unfinished executions only.
_IS_BUSY = """(EXISTS (SELECT 1 FROM executions AS x WHERE x.job_id = j.job_id AND x.completed_at IS NULL)
                OR EXISTS (SELECT 1 FROM executions AS x WHERE x.job_id = j.first_version_id AND x.completed_at IS NULL)
                OR EXISTS (SELECT 1 FROM jobs AS v JOIN executions AS x ON x.job_id = v.job_id
                            WHERE v.first_version_id = j.first_version_id AND x.completed_at IS NULL))"""

# Only jobs with overlap = 'skip' need `busy`.
_DUE = """
    WITH page AS MATERIALIZED (
      SELECT job_id, first_version_id, cron_expression, cron_timezone, interval_ms, fixed_delay, cron_starts_at,
             cron_ends_at, created_at, cron_next_run_at, catch_up, max_catch_up, overlap
        FROM jobs AS j
       WHERE cron_next_run_at IS NOT NULL
         AND cron_next_run_at <= now() + CAST(:ahead_ms AS BIGINT) * INTERVAL '1 millisecond'@regions(j)
         AND (cron_next_run_at, job_id) > (CAST(:after_run_at AS TIMESTAMPTZ), CAST(:after_job AS TEXT))
       ORDER BY cron_next_run_at, job_id LIMIT :limit{lock})
    SELECT j.*, CASE WHEN j.overlap = 'skip' THEN {is_busy} ELSE false END AS busy,
           now() AS now, now() + CAST(:ahead_ms AS BIGINT) * INTERVAL '1 millisecond' AS horizon
      FROM (SELECT 1 AS one) AS always LEFT JOIN page AS j ON true
     ORDER BY j.cron_next_run_at NULLS FIRST, j.job_id NULLS FIRST
    """
DUE = hot_statement("executions.due_jobs", _DUE, is_busy=_IS_BUSY, lock="")
# Schedulers divide the due jobs: the locks of a page last until its ticks are inserted, and other schedulers skip its
# jobs. The locks are only an optimisation; the compare-and-set of MATERIALIZE decides.
TAKE_DUE = statement("executions.take_due_jobs", _DUE, is_busy=_IS_BUSY, lock=" FOR NO KEY UPDATE SKIP LOCKED")
# A scheduler that is frozen with the locks of a page delays its ticks by 2 s less the look-ahead, which is longer by
# default.
HOLD_BRIEFLY = text("SET LOCAL idle_in_transaction_session_timeout = '2s'")

# A missed tick is due now: claims are in order of run_at, so a past run_at would overtake all due executions.
# Microseconds keep the missed ticks of a job in order.
_INSERT = insert_executions(
    "a",
    "e",
    execution_id="t.execution_id",
    shard="t.shard",
    idempotency_key="t.idempotency_key",
    status="'QUEUED'",
    scheduled_at="t.tick",
    run_at="GREATEST(t.tick, now() + t.place * INTERVAL '1 microsecond')",
)

# The ticks of a job are inserted only if cron_next_run_at is still the first tick. The same statement moves it past the
# last tick, so a second or repeated run changes nothing. = ANY is implied by the join; it keeps the plan to the primary
# key, because PostgreSQL without statistics compares every tick with every cron job. A condition on trigger_type would
# read all of idx_jobs_recurring. An `exclusive` tick also requires that the job is still idle.
#
# The statement skips and returns locked jobs: waiting for one row would delay the ticks of all other jobs. NO KEY
# ignores the locks of foreign key checks.
MATERIALIZE = statement(
    "executions.materialize",
    """
    WITH due AS (
      SELECT * FROM unnest(
        CAST(:jobs AS TEXT[]), CAST(:expected AS TIMESTAMPTZ[]), CAST(:nexts AS TIMESTAMPTZ[]),
        CAST(:lasts AS TIMESTAMPTZ[]), CAST(:retires AS BOOLEAN[]), CAST(:exclusives AS BOOLEAN[]),
        CAST(:skipped_catch_up AS BIGINT[]), CAST(:skipped_overlap AS BIGINT[]))
      AS u (job_id, expected, next_run_at, last_tick_at, retires, exclusive, skipped_catch_up, skipped_overlap)),
    {free_jobs},
    advanced AS (
      UPDATE jobs AS j
         SET cron_next_run_at = due.next_run_at,
             cron_last_tick_at = COALESCE(due.last_tick_at, j.cron_last_tick_at),
             skipped_catch_up = j.skipped_catch_up + due.skipped_catch_up,
             skipped_overlap = j.skipped_overlap + due.skipped_overlap,
             status = CASE WHEN due.retires THEN 'RETIRED' ELSE 'ACTIVE' END,
             retired_at = CASE WHEN due.retires THEN now() ELSE NULL END,
             ended_at = CASE WHEN due.retires THEN now() ELSE NULL END,
             end_reason = CASE WHEN due.retires THEN 'NO_TICK_LEFT' ELSE NULL END
        FROM due
        JOIN free_jobs AS free ON free.job_id = due.job_id
       WHERE j.job_id = ANY (CAST(:jobs AS TEXT[]))
         AND j.job_id = due.job_id AND j.cron_next_run_at = due.expected
         AND j.status = 'ACTIVE' AND (NOT due.exclusive OR NOT {is_busy})
      RETURNING {columns}, j.status,
                due.skipped_catch_up + due.skipped_overlap AS skipped),
    inserted AS (
      {insert}
        FROM unnest(
               CAST(:tick_jobs AS TEXT[]), CAST(:ticks AS TIMESTAMPTZ[]), CAST(:executions AS TEXT[]),
               CAST(:shards AS BIGINT[]), CAST(:keys AS TEXT[]), CAST(:places AS BIGINT[]))
             AS t (job_id, tick, execution_id, shard, idempotency_key, place)
        JOIN advanced AS a ON a.job_id = t.job_id
        JOIN endpoints AS e ON e.name = a.endpoint
      ON CONFLICT (job_id, idempotency_key) DO NOTHING
      RETURNING job_id, queue)
    SELECT due.job_id, free.job_id IS NULL AS is_locked, i.queue, a.status = 'RETIRED' AS retired, a.skipped,
           COALESCE(i.executions, 0) AS executions
      FROM due
      LEFT JOIN free_jobs AS free ON free.job_id = due.job_id
      LEFT JOIN advanced AS a ON a.job_id = due.job_id
      LEFT JOIN (SELECT job_id, min(queue) AS queue, count(*) AS executions FROM inserted GROUP BY job_id) AS i
        ON i.job_id = a.job_id
     WHERE free.job_id IS NULL OR a.job_id IS NOT NULL
    """,
    free_jobs=FREE_JOBS,
    is_busy=_IS_BUSY,
    columns=", ".join(f"j.{name}" for name in OF_JOB_FOR_EXECUTION),
    insert=_INSERT,
)


class MaterializedTicks(NamedTuple):
    """Counts of one statement, the queues of the new executions, and the ids of jobs skipped as locked."""

    queues: frozenset[str] = frozenset()
    jobs: int = 0
    executions: int = 0
    retired: int = 0
    skipped: int = 0
    locked: frozenset[str] = frozenset()


class DuePosition(NamedTuple):
    """Position of a job in the order of due ticks; without a job, the position before all jobs of an instant."""

    run_at: datetime
    job_id: str = ""


DUE_FIRST = DuePosition(EPOCH)


def due(
    database: Database, *, ahead_ms: int, limit: int, after: DuePosition = DUE_FIRST, takes: bool = False
) -> tuple[list[DueJob], datetime, DuePosition | None]:
    """Read the jobs with due ticks, longest due first, from a position on.

    With `takes` it skips locked jobs, and locks all others until the end of the transaction. Returns also the
    database's clock, and the position of the next page, if there may be one.
    """
    params = {"ahead_ms": ahead_ms, "limit": limit, "after_run_at": after.run_at, "after_job": after.job_id}
    rows = database.fetch(TAKE_DUE if takes else DUE, params)
    found = [row for row in rows if row.job_id is not None]
    last = DuePosition(found[-1].cron_next_run_at, found[-1].job_id) if len(found) == limit else None
    return readable(_due_job, found, "job {.job_id}".format), rows[0].now, last


def _due_job(row: Row[Any]) -> DueJob:
    return DueJob(
        job_id=row.job_id,
        timetable=Timetable.stored(row._asdict()),
        next_run_at=row.cron_next_run_at,
        busy=row.busy,
        now=row.now,
        horizon=row.horizon,
    )


def materialize(database: Database, advances: Sequence[Advance], *, shards: int) -> MaterializedTicks:
    """Insert the executions of all ticks and advance their jobs; skips jobs that are locked or already advanced."""
    if not advances:
        return MaterializedTicks()
    found = database.fetch(MATERIALIZE, _params(advances, shards))
    rows = [row for row in found if not row.is_locked]
    return MaterializedTicks(
        queues=frozenset(row.queue for row in rows if row.executions),
        jobs=len(rows),
        executions=sum(row.executions for row in rows),
        retired=sum(row.retired for row in rows),
        skipped=sum(row.skipped for row in rows),
        locked=frozenset(row.job_id for row in found if row.is_locked),
    )


def _params(advances: Sequence[Advance], shards: int) -> dict[str, object]:
    # In key order, so that two schedulers do not deadlock.
    advances = sorted(advances, key=attrgetter("job.job_id"))
    ticks = [(a.job.job_id, tick) for a in advances for tick in a.ticks]
    executions = [ids.execution_id() for _ in ticks]
    return {
        "jobs": [a.job.job_id for a in advances],
        "count": len(advances),
        "expected": [a.job.next_run_at for a in advances],
        "nexts": [a.next_run_at for a in advances],
        "lasts": [a.ticks[-1] if a.ticks else None for a in advances],
        "retires": [a.retires for a in advances],
        "exclusives": [a.exclusive for a in advances],
        "skipped_catch_up": [a.skipped_catch_up for a in advances],
        "skipped_overlap": [a.skipped_overlap for a in advances],
        "tick_jobs": [job_id for job_id, _ in ticks],
        "ticks": [tick for _, tick in ticks],
        "executions": executions,
        "shards": [ids.shard_of(execution, shards) for execution in executions],
        "keys": [key_of_tick(job_id, tick) for job_id, tick in ticks],
        "places": list(range(len(ticks))),
    }
