"""Repairs of executions and jobs in states that no statement leaves."""

from collections.abc import Sequence, Set
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row

from app.kernel.db import Database
from app.kernel.db.paging import Position
from app.kernel.formats import EPOCH
from app.kernel.function_types import Stopping, never
from app.kernel.sql import statement
from app.queue.ending.execution_events import ChangeReason, StateChange, record
from app.queue.ending.outbox_rows import put_ends
from app.queue.executions.settlement import ONE_SHOT, settle_jobs
from app.queue.executions.unlocked_rows import FREE_EXECUTIONS, FREE_JOBS
from schema.states import ExecutionStatus, JobStatus

_NEWEST = Position(datetime.max.replace(tzinfo=UTC), "")

# Only a manual edit creates such a row, and no claim takes it. No index holds such rows, so pages of the index of due
# executions are walked; rarely. A read without locks, which would hide rows from claims, or exceed the limit
# (CockroachDB).
_IS_EXHAUSTED = """e.status IN ('QUEUED', 'RETRYING') AND e.attempt_count >= e.max_attempts
       AND e.run_at < now() - INTERVAL '1 minute'"""
EXHAUSTED = statement(
    "executions.exhausted",
    """
    WITH page AS MATERIALIZED (
      SELECT e.queue, e.shard, e.run_at, e.execution_id, e.job_id, e.status, {is_exhausted} AS is_exhausted
        FROM executions AS e
       WHERE e.status IN ('QUEUED', 'RETRYING')
         AND (e.queue, e.shard, e.run_at, e.execution_id)
             > (CAST(:queue AS TEXT), CAST(:shard AS BIGINT), CAST(:run_at AS TIMESTAMPTZ), CAST(:id AS TEXT))
       ORDER BY e.queue, e.shard, e.run_at, e.execution_id LIMIT :limit),
    ended AS (
      SELECT queue, shard, run_at, execution_id FROM page
       ORDER BY queue DESC, shard DESC, run_at DESC, execution_id DESC LIMIT 1)
    SELECT p.execution_id, p.job_id, p.status, l.queue, l.shard, l.run_at, l.execution_id AS last
      FROM ended AS l LEFT JOIN page AS p ON p.is_exhausted
     ORDER BY p.execution_id
    """,
    is_exhausted=_IS_EXHAUSTED,
)
# Skips a locked execution, and an execution of a locked job.
EXHAUST = statement(
    "executions.exhaust",
    """
    WITH {free_executions},
    {free_jobs}
    UPDATE executions AS e SET status = 'FAILED', completed_at = now()
      FROM unnest(CAST(:ids AS TEXT[]), CAST(:jobs AS TEXT[]), CAST(:statuses AS TEXT[]))
           AS found (execution_id, job_id, status)
      JOIN free ON free.execution_id = found.execution_id
      JOIN free_jobs ON free_jobs.job_id = found.job_id
     WHERE e.execution_id = ANY (CAST(:ids AS TEXT[]))
       AND e.execution_id = found.execution_id AND e.status = found.status AND {is_exhausted}
    RETURNING e.execution_id, found.status, e.attempt_count
    """,
    free_executions=FREE_EXECUTIONS,
    free_jobs=FREE_JOBS,
    is_exhausted=_IS_EXHAUSTED,
)

# A job of the last minute may not have its execution yet.
_IS_OPEN = f"""{ONE_SHOT} AND j.status <> 'RETIRED'
       AND COALESCE(j.created_at < now() - INTERVAL '1 minute', false)"""
# Scans one-shot jobs, newest first, as their index is ordered. Open executions are looked up by lists of keys, because
# CockroachDB reads whole tables for keys from a subquery. COALESCE hides conditions from the choice of an index, whose
# statistics may be from a quiet time with few unfinished executions.
SCAN = statement(
    "jobs.scan_one_shot",
    """
    WITH page AS MATERIALIZED (
      SELECT j.job_id, j.created_at, {is_open} AS is_open FROM jobs AS j
       WHERE (j.created_at, j.job_id) < (CAST(:before_at AS TIMESTAMPTZ), CAST(:before_job AS TEXT))
       ORDER BY j.created_at DESC, j.job_id DESC LIMIT :limit)
    SELECT l.created_at, l.job_id,
           ARRAY(SELECT page.job_id FROM page WHERE page.is_open ORDER BY page.job_id) AS open
      FROM (SELECT created_at, job_id FROM page ORDER BY created_at, job_id LIMIT 1) AS l
    """,
    is_open=_IS_OPEN,
)
SCANNED = 5_000  # jobs that one statement of the scan reads
RETIRE_BATCH = 500  # jobs that one statement may change
UNFINISHED = statement(
    "executions.unfinished_of_jobs",
    """
    SELECT job_id FROM executions
     WHERE job_id = ANY (CAST(:jobs AS TEXT[])) AND COALESCE(completed_at IS NULL, true)
    """,
)
# A job without executions is finished too: they were pruned.
_IS_FINISHED = f"""j.job_id = ANY (CAST(:jobs AS TEXT[])) AND {_IS_OPEN}
       AND NOT EXISTS (SELECT 1 FROM executions AS e
                        WHERE e.job_id = j.job_id AND COALESCE(e.completed_at IS NULL, true))"""  # noqa: S608 - as above
FINISHED = statement("jobs.finished", "SELECT j.job_id FROM jobs AS j WHERE {is_finished}", is_finished=_IS_FINISHED)
RETIRE = statement(
    "jobs.retire_finished",
    """
    WITH {free_jobs}
    UPDATE jobs AS j SET status = 'RETIRED', retired_at = now(), paused_at = NULL
      FROM free_jobs AS free
     WHERE free.job_id = j.job_id AND {is_finished}
    RETURNING j.job_id
    """,
    free_jobs=FREE_JOBS,
    is_finished=_IS_FINISHED,
)
_IS_STALLED = """j.fixed_delay AND j.status = 'ACTIVE' AND j.cron_next_run_at IS NULL
       AND NOT EXISTS (SELECT 1 FROM executions AS e
                        WHERE e.job_id = j.job_id AND e.completed_at IS NULL
                          AND e.scheduled_at = j.cron_last_tick_at)"""
STALLED = statement(
    "jobs.stalled",
    """
    SELECT j.job_id FROM jobs AS j
     WHERE j.trigger_type IN ('CRON', 'INTERVAL') AND {is_stalled}
     ORDER BY j.created_at, j.job_id LIMIT :limit
    """,
    is_stalled=_IS_STALLED,
)
# The delay counts from the end of the last tick's execution.
RESTART = statement(
    "jobs.restart_stalled",
    """
    WITH {free_jobs}
    UPDATE jobs AS j SET cron_next_run_at = GREATEST(now(), COALESCE(
             (SELECT max(e.completed_at) FROM executions AS e
               WHERE e.job_id = j.job_id AND e.scheduled_at = j.cron_last_tick_at)
             + j.interval_ms * INTERVAL '1 millisecond', now()))
      FROM free_jobs AS free
     WHERE free.job_id = j.job_id AND j.job_id = ANY (CAST(:jobs AS TEXT[])) AND {is_stalled}
    RETURNING j.job_id
    """,
    free_jobs=FREE_JOBS,
    is_stalled=_IS_STALLED,
)

# Executions on hold whose job is active, or that began before their job was retired: an interrupted change of very many
# executions leaves the latter. Nothing else finds them. Reads all unfinished executions, like EXHAUSTED.
ORPHANED = statement(
    "executions.orphaned_on_hold",
    """
    SELECT DISTINCT j.job_id, j.status FROM executions AS e JOIN jobs AS j ON j.job_id = e.job_id
     WHERE e.completed_at IS NULL AND e.on_hold
       AND (j.status = 'ACTIVE'
            OR j.status = 'RETIRED' AND j.trigger_type IN ('CRON', 'INTERVAL') AND e.attempt_count > 0)
     ORDER BY j.job_id LIMIT :limit
    """,
)
# A worker has released such executions during the pause.
NOT_HELD = statement(
    "executions.not_held",
    """
    SELECT DISTINCT j.job_id FROM jobs AS j JOIN executions AS e ON e.job_id = j.job_id
     WHERE j.paused_at IS NOT NULL AND j.status = 'PAUSED' AND j.trigger_type IN ('CRON', 'INTERVAL')
       AND e.completed_at IS NULL AND e.status IN ('PENDING', 'QUEUED') AND NOT e.on_hold
       AND NOT (e.idempotency_key LIKE 'run_%' AND e.created_at > j.paused_at)
     ORDER BY j.job_id LIMIT :limit
    """,
)


def exhausted(database: Database, *, limit: int, stopping: Stopping = never, page: int = SCANNED) -> list[Row[Any]]:
    """Walk the waiting executions for those without an attempt left; returns their ids, jobs and statuses."""
    found, after = list[Row[Any]](), {"queue": "", "shard": -1, "run_at": EPOCH, "id": ""}
    while not stopping() and len(found) < limit:
        rows = database.fetch(EXHAUSTED, {**after, "limit": page})
        if not rows:
            break
        found += [row for row in rows if row.execution_id is not None]
        last = rows[0]
        after = {"queue": last.queue, "shard": last.shard, "run_at": last.run_at, "id": last.last}
    return found[:limit]


class RepairCounts(NamedTuple):
    """Number of repaired rows, and the ids of found rows that were locked or have changed."""

    number: int
    skipped: Set[str] = frozenset()


def fail_exhausted(database: Database, *, limit: int, stopping: Stopping = never) -> RepairCounts:
    """Fail waiting executions without an attempt left, unless they or their jobs are locked."""
    found = exhausted(database, limit=limit, stopping=stopping)
    if not found:
        return RepairCounts(0)
    params: dict[str, object] = {
        "ids": [row.execution_id for row in found],
        "jobs": [row.job_id for row in found],
        "statuses": [row.status for row in found],
        "count": len(found),
    }

    def body(connection: Connection) -> RepairCounts:
        changes = StateChange.of_rows(connection.execute(EXHAUST, params), after=ExecutionStatus.FAILED)
        record(connection, changes, actor=None, reason=ChangeReason.NO_ATTEMPTS_LEFT)
        put_ends(connection, changes, ChangeReason.NO_ATTEMPTS_LEFT)
        settle_jobs(connection, [change.execution_id for change in changes])
        return RepairCounts(len(changes), {row.execution_id for row in found} - {each.execution_id for each in changes})

    return database.transact(body)


def finished(database: Database, *, limit: int, stopping: Stopping, page: int = SCANNED) -> list[str]:
    """Scan for one-shot jobs, newest first, that are not retired and have no unfinished execution."""
    found, before = list[str](), _NEWEST
    while not stopping() and len(found) < limit:
        rows = database.fetch(SCAN, {"before_at": before.at, "before_job": before.key, "limit": page})
        if not rows:
            break
        (row,) = rows
        unfinished = database.fetch(UNFINISHED, {"jobs": row.open}) if row.open else ()
        over = sorted({*row.open} - {each.job_id for each in unfinished})[:RETIRE_BATCH]
        # Executions that ended between the two reads have retired their jobs.
        found += [each.job_id for each in database.fetch(FINISHED, {"jobs": over})] if over else ()
        before = Position(row.created_at, row.job_id)
    return found[:limit]


def retire(database: Database, jobs: Sequence[str]) -> RepairCounts:
    """Retire one-shot jobs that are older than a minute, have no unfinished execution and are not locked."""
    batches = [jobs[start : start + RETIRE_BATCH] for start in range(0, len(jobs), RETIRE_BATCH)]
    retired = {row.job_id for each in batches for row in database.fetch(RETIRE, {"jobs": each, "count": len(each)})}
    return RepairCounts(len(retired), {*jobs} - retired)


def stalled(database: Database, *, limit: int) -> list[str]:
    """Read fixed-delay jobs that have neither a next run nor an unfinished execution of the last tick."""
    return [row.job_id for row in database.fetch(STALLED, {"limit": limit})]


def restart_stalled(database: Database, jobs: Sequence[str]) -> RepairCounts:
    """Set the next run of jobs that still have none and are not locked."""
    restarted = {row.job_id for row in database.fetch(RESTART, {"jobs": jobs, "count": len(jobs)})} if jobs else set()
    return RepairCounts(len(restarted), {*jobs} - restarted)


def orphaned_on_hold(database: Database, *, limit: int) -> dict[str, ChangeReason | None]:
    """Read jobs that are not paused but have executions on hold, each with the reason if it is retired."""
    rows = database.fetch(ORPHANED, {"limit": limit})
    return {row.job_id: ChangeReason.JOB_CANCELLED if row.status == JobStatus.RETIRED else None for row in rows}


def not_held(database: Database, *, limit: int) -> list[str]:
    """Read PAUSED repeating jobs with waiting executions that should be on hold."""
    return [row.job_id for row in database.fetch(NOT_HELD, {"limit": limit})]
