"""Safety nets: end executions that have no attempts left, retire jobs that are over, restart those that stand still."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from app.kernel.db import Database
from app.kernel.db.paging import Position
from app.kernel.sql import statement
from app.queue.ending import execution_events
from app.queue.ending.execution_events import Reason, StateChange
from app.queue.ending.outbox_rows import put_ends
from app.queue.executions.settlement import ONE_SHOT, settle_jobs
from schema.states import ExecutionStatus

# Only a manual edit leaves such a row, and no claim takes it. No index lists such rows, so this reads all that wait; it
# runs rarely and considers only what was due a minute ago. A plain read: a scan that locks would hide the queue from
# claims, or lock more than the limit (CockroachDB).
_IS_EXHAUSTED = """e.status IN ('QUEUED', 'RETRYING') AND e.attempt_count >= e.max_attempts
       AND e.run_at < now() - INTERVAL '1 minute'"""
EXHAUSTED = statement(
    "executions.exhausted",
    f"""
    SELECT e.execution_id, e.status FROM executions AS e
     WHERE {_IS_EXHAUSTED}
     ORDER BY e.execution_id LIMIT :limit
    """,  # noqa: S608 - a constant of this module
)
EXHAUST = statement(
    "executions.exhaust",
    f"""
    UPDATE executions AS e SET status = 'FAILED', completed_at = now()
      FROM unnest(CAST(:ids AS TEXT[]), CAST(:statuses AS TEXT[])) AS found (execution_id, status)
     WHERE e.execution_id = ANY (CAST(:ids AS TEXT[]))
       AND e.execution_id = found.execution_id AND e.status = found.status AND {_IS_EXHAUSTED}
    RETURNING e.execution_id, found.status, e.attempt_count
    """,  # noqa: S608 - a constant of this module
)

# Walks the jobs that run once, the newest first: in that order they lie together. What is open of them is looked up by
# lists of keys: CockroachDB would read whole tables for those that a subquery finds. Other conditions are hidden from
# the choice of an index: by statistics from a quiet time those of what is unfinished hold next to nothing.
WALK = statement(
    "jobs.walk",
    f"""
    WITH page AS MATERIALIZED (
      SELECT j.job_id, j.created_at, {ONE_SHOT} AND j.status <> 'RETIRED' AS is_open FROM jobs AS j
       WHERE (j.created_at, j.job_id) < (CAST(:before_at AS TIMESTAMPTZ), CAST(:before_job AS TEXT))
       ORDER BY j.created_at DESC, j.job_id DESC LIMIT :limit)
    SELECT l.created_at, l.job_id, (SELECT count(*) FROM page) AS seen,
           ARRAY(SELECT page.job_id FROM page WHERE page.is_open ORDER BY page.job_id) AS open
      FROM (SELECT created_at, job_id FROM page ORDER BY created_at, job_id LIMIT 1) AS l
    """,  # noqa: S608 - a constant of this package
)
UNFINISHED = statement(
    "executions.unfinished_of_jobs",
    """
    SELECT job_id, on_hold FROM executions
     WHERE job_id = ANY (CAST(:jobs AS TEXT[])) AND COALESCE(completed_at IS NULL, true)
    """,
)
# A job of the last minute may be about to get its execution; no execution at all means that it was pruned.
RETIRE = statement(
    "jobs.retire_finished",
    f"""
    UPDATE jobs AS j SET status = 'RETIRED', retired_at = now(), paused_at = NULL
     WHERE j.job_id = ANY (CAST(:jobs AS TEXT[])) AND {ONE_SHOT} AND j.status <> 'RETIRED'
       AND COALESCE(j.created_at < now() - INTERVAL '1 minute', false)
       AND NOT EXISTS (SELECT 1 FROM executions AS e
                        WHERE e.job_id = j.job_id AND COALESCE(e.completed_at IS NULL, true))
    RETURNING j.job_id
    """,  # noqa: S608 - a constant of this package
)
RETIRE_BATCH = 500  # jobs that one statement may change

REPEATING = statement(
    "jobs.repeating",
    """
    SELECT created_at, job_id FROM jobs
     WHERE trigger_type IN ('CRON', 'INTERVAL')
       AND (created_at, job_id) > (CAST(:after_at AS TIMESTAMPTZ), CAST(:after_job AS TEXT))
     ORDER BY created_at, job_id LIMIT :limit
    """,
)

# Nothing would set the next run of such a job any more. What its last tick left counts from when that ended.
RESTART = statement(
    "jobs.restart_stalled",
    """
    UPDATE jobs AS j SET cron_next_run_at = GREATEST(now(), COALESCE(
             (SELECT max(e.completed_at) FROM executions AS e
               WHERE e.job_id = j.job_id AND e.scheduled_at = j.cron_last_tick_at)
             + j.interval_ms * INTERVAL '1 millisecond', now()))
     WHERE j.job_id = ANY (CAST(:jobs AS TEXT[]))
       AND j.fixed_delay AND j.status = 'ACTIVE' AND j.cron_next_run_at IS NULL
       AND NOT EXISTS (SELECT 1 FROM executions AS e
                        WHERE e.job_id = j.job_id AND e.completed_at IS NULL AND e.scheduled_at = j.cron_last_tick_at)
    RETURNING j.job_id
    """,
)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A step of the walk: how many jobs it saw, where it ended, how many it retired, and which have work on hold."""

    seen: int
    reached: Position
    retired: int
    held: list[str]


def exhausted(database: Database, *, limit: int) -> Sequence[Row[Any]]:
    """Read the ids and statuses of executions that wait although all their attempts are used up."""
    return database.fetch(EXHAUSTED, {"limit": limit})


def fail_exhausted(database: Database, *, limit: int) -> int:
    """Fail executions that wait although all their attempts are used up; returns how many."""

    found = exhausted(database, limit=limit)
    if not found:
        return 0
    params = {"ids": [row.execution_id for row in found], "statuses": [row.status for row in found]}

    def body(connection: Connection) -> int:
        rows = connection.execute(EXHAUST, params).all()
        changes = [
            StateChange(row.execution_id, ExecutionStatus(row.status), ExecutionStatus.FAILED, row.attempt_count)
            for row in rows
        ]
        execution_events.record(connection, changes, actor=None, reason=Reason.NO_ATTEMPTS_LEFT)
        put_ends(connection, changes, Reason.NO_ATTEMPTS_LEFT)
        settle_jobs(connection, [row.execution_id for row in rows])
        return len(rows)

    return database.transact(body)


def retire_finished(database: Database, *, before: Position, limit: int) -> Stretch | None:
    """Retire the finished one-shot jobs among the `limit` jobs created last before a position; None behind the last."""
    rows = database.fetch(WALK, {"before_at": before.at, "before_job": before.key, "limit": limit})
    if not rows:
        return None
    (row,) = rows
    unfinished = database.fetch(UNFINISHED, {"jobs": row.open}) if row.open else ()
    over = sorted({*row.open} - {each.job_id for each in unfinished})
    batches = (over[start : start + RETIRE_BATCH] for start in range(0, len(over), RETIRE_BATCH))
    retired = sum(len(database.fetch(RETIRE, {"jobs": batch})) for batch in batches)
    held = sorted(each.job_id for each in unfinished if each.on_hold)
    return Stretch(row.seen, Position(row.created_at, row.job_id), retired, held)


def repeating(database: Database, *, after: Position, limit: int) -> list[Position]:
    """Read the `limit` repeating jobs that were created next after a position, the oldest first."""
    params = {"after_at": after.at, "after_job": after.key, "limit": limit}
    return [Position(row.created_at, row.job_id) for row in database.fetch(REPEATING, params)]


def restart_stalled(database: Database, jobs: Sequence[str]) -> list[str]:
    """Give each of these jobs that has a fixed delay and waits for no execution its next run; returns their ids."""
    return [row.job_id for row in database.fetch(RESTART, {"jobs": jobs})]
