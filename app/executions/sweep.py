"""Safety nets: end executions that have no attempts left, retire jobs that are over, restart those that stand still."""

from dataclasses import dataclass

from sqlalchemy import Connection

from app.db import Database
from app.executions import events
from app.executions.events import Reason, StateChange
from app.executions.settlement import ONE_SHOT, settle_jobs
from app.sql import statement
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

# Walks all jobs in key order. A job of the last minute may be about to get its execution; no execution at all means
# that it was pruned.
RETIRE = statement(
    "jobs.retire_finished",
    f"""
    WITH page AS MATERIALIZED (
      SELECT job_id FROM jobs WHERE job_id > :after ORDER BY job_id LIMIT :limit),
    retired AS (
      UPDATE jobs AS j SET status = 'RETIRED', retired_at = now(), paused_at = NULL
        FROM page
       WHERE j.job_id = page.job_id AND j.status <> 'RETIRED' AND {ONE_SHOT}
         AND j.created_at < now() - INTERVAL '1 minute'
         AND NOT EXISTS (SELECT 1 FROM executions AS e WHERE e.job_id = j.job_id AND e.completed_at IS NULL)
      RETURNING j.job_id)
    SELECT (SELECT max(job_id) FROM page) AS last, (SELECT count(*) FROM page) AS seen,
           (SELECT count(*) FROM retired) AS retired
    """,  # noqa: S608 - constants of this package
)

# Nothing would set the next run of such a job any more. What its last tick left counts from when that ended.
RESTART = statement(
    "jobs.restart_stalled",
    """
    UPDATE jobs AS j SET cron_next_run_at = GREATEST(now(), COALESCE(
             (SELECT max(e.completed_at) FROM executions AS e
               WHERE e.job_id = j.job_id AND e.scheduled_at = j.cron_last_tick_at)
             + j.interval_ms * INTERVAL '1 millisecond', now()))
     WHERE j.job_id > :after AND j.job_id <= :last
       AND j.fixed_delay AND j.status = 'ACTIVE' AND j.cron_next_run_at IS NULL
       AND NOT EXISTS (SELECT 1 FROM executions AS e
                        WHERE e.job_id = j.job_id AND e.completed_at IS NULL AND e.scheduled_at = j.cron_last_tick_at)
    RETURNING j.job_id
    """,
)


@dataclass(frozen=True, slots=True)
class Stretch:
    """How far one step of the walk came; `last` is None after the last job."""

    last: str | None
    seen: int
    retired: int


def fail_exhausted(database: Database, *, limit: int) -> int:
    """Fail executions that wait although all their attempts are used up; returns how many."""

    found = database.fetch(EXHAUSTED, {"limit": limit})
    if not found:
        return 0
    params = {"ids": [row.execution_id for row in found], "statuses": [row.status for row in found]}

    def body(connection: Connection) -> int:
        rows = connection.execute(EXHAUST, params).all()
        changes = [
            StateChange(row.execution_id, ExecutionStatus(row.status), ExecutionStatus.FAILED, row.attempt_count)
            for row in rows
        ]
        events.record(connection, changes, actor=None, reason=Reason.NO_ATTEMPTS_LEFT)
        settle_jobs(connection, [row.execution_id for row in rows])
        return len(rows)

    return database.transact(body)


def retire_finished(database: Database, *, after: str, limit: int) -> Stretch:
    """Retire the finished one-shot jobs among the `limit` jobs that follow `after`."""
    (row,) = database.fetch(RETIRE, {"after": after, "limit": limit})
    return Stretch(row.last, row.seen, row.retired)


def restart_stalled(database: Database, *, after: str, last: str) -> list[str]:
    """Give each fixed-delay job of a stretch that waits for no execution its next run; returns their ids."""
    return [row.job_id for row in database.fetch(RESTART, {"after": after, "last": last})]
