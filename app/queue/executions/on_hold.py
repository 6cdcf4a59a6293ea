"""Executions on hold: waiting executions of a paused job, until the job is resumed."""

from collections import Counter
from functools import partial

from sqlalchemy import Connection

from app.kernel.db import Database
from app.kernel.function_types import Stopping, never
from app.kernel.sql import hot_statement, statement
from app.queue.ending.execution_events import ChangeReason, StateChange, record
from app.queue.executions.execution_insertion import expires_at
from app.queue.executions.unlocked_rows import FREE_EXECUTIONS
from schema.states import ExecutionStatus, JobStatus

BATCH = 500  # executions of a job in one transaction

# `on_hold` removes a PENDING row from the promoter's index, so the row is neither claimed nor promoted; run_at stays.
# Executions requested during the pause are not put on hold.
HOLD = statement(
    "executions.hold",
    """
    WITH waiting AS MATERIALIZED (
      SELECT execution_id, status FROM executions
       WHERE job_id = :job_id AND completed_at IS NULL AND execution_id > :after
         AND status IN ('PENDING', 'QUEUED', 'RETRYING') AND NOT on_hold
         AND NOT (idempotency_key LIKE 'run_%'
                  AND created_at > COALESCE((SELECT paused_at FROM jobs WHERE job_id = :job_id), now()))
       ORDER BY execution_id LIMIT :limit FOR UPDATE),
    held AS (
      UPDATE executions AS e SET status = 'PENDING', on_hold = true
        FROM waiting
       WHERE e.execution_id = waiting.execution_id AND e.status IN ('PENDING', 'QUEUED', 'RETRYING')
      RETURNING e.execution_id, waiting.status, e.attempt_count)
    SELECT page.last, held.execution_id, held.status, held.attempt_count
      FROM (SELECT CASE WHEN count(*) = CAST(:limit AS BIGINT) THEN max(execution_id) END AS last FROM waiting) AS page
      LEFT JOIN held ON true
    """,
)

# Retries of executions that were RUNNING at the pause; executions requested during the pause continue. Runs twice a
# second on its own index, because a paused job may have very many executions on hold.
RETRIES = hot_statement(
    "executions.retries_of_paused_jobs",
    """
    SELECT e.execution_id, e.job_id FROM jobs AS j JOIN executions AS e ON e.job_id = j.job_id
     WHERE j.paused_at IS NOT NULL AND e.status = 'RETRYING' AND e.created_at <= j.paused_at
     ORDER BY e.execution_id LIMIT 500
    """,
)
# A resume locks the job too: either the job is no longer paused here, or the resume releases these executions. Locked
# rows are left to the next run.
HOLD_RETRIES = statement(
    "executions.hold_retries",
    """
    WITH paused AS MATERIALIZED (
      SELECT job_id, paused_at FROM jobs
       WHERE job_id = ANY (CAST(:jobs AS TEXT[])) AND paused_at IS NOT NULL
       ORDER BY job_id LIMIT :count FOR SHARE SKIP LOCKED),
    {free_executions}
    UPDATE executions AS e SET status = 'PENDING', on_hold = true
      FROM paused AS j, free
     WHERE e.execution_id = free.execution_id AND e.execution_id = ANY (CAST(:ids AS TEXT[])) AND j.job_id = e.job_id
       AND e.status = 'RETRYING' AND e.created_at <= j.paused_at
    RETURNING e.execution_id, e.attempt_count
    """,
    free_executions=FREE_EXECUTIONS,
)

# Late executions become due now, in order within a batch: see app.queue.executions.promotion. The age of a first
# attempt starts again, because the resumption is a request.
_EXPIRES_AT = expires_at("GREATEST(e.run_at, now())", "(SELECT max_age_ms FROM jobs WHERE job_id = :job_id)")
LET_GO = statement(
    "executions.let_go",
    """
    WITH held AS MATERIALIZED (
      SELECT execution_id, run_at FROM executions
       WHERE job_id = :job_id AND completed_at IS NULL AND execution_id > :after AND status = 'PENDING' AND on_hold
         AND (attempt_count > 0 OR NOT CAST(:begun_only AS BOOLEAN))
       ORDER BY execution_id LIMIT :limit FOR UPDATE),
    freed AS (
      UPDATE executions AS e
         SET on_hold = false, run_at = GREATEST(e.run_at, now() + numbered.place * INTERVAL '1 microsecond'),
             expires_at = CASE WHEN e.attempt_count > 0 THEN e.expires_at ELSE {expires_at} END,
             status = CASE WHEN e.run_at > now() + CAST(:ahead_ms AS BIGINT) * INTERVAL '1 millisecond'
                           THEN 'PENDING' ELSE 'QUEUED' END
        FROM (SELECT execution_id, row_number() OVER (ORDER BY run_at, execution_id) AS place FROM held) AS numbered
       WHERE e.execution_id = numbered.execution_id AND e.status = 'PENDING' AND e.on_hold
      RETURNING e.execution_id, e.status, e.queue, e.attempt_count)
    SELECT page.last, freed.execution_id, freed.status, freed.queue, freed.attempt_count
      FROM (SELECT CASE WHEN count(*) = CAST(:limit AS BIGINT) THEN max(execution_id) END AS last FROM held) AS page
      LEFT JOIN freed ON true
    """,
    expires_at=_EXPIRES_AT,
)

# Another request may pause, resume or retire the job between two batches.
STATUS = statement("jobs.status_between_batches", "SELECT status FROM jobs WHERE job_id = :job_id FOR SHARE")


def hold(connection: Connection, job_id: str, actor: str | None, after: str = "") -> str | None:
    """Put a batch of waiting executions on hold, in id order after `after`; returns the last id if more follow."""
    rows = connection.execute(HOLD, {"job_id": job_id, "after": after, "limit": BATCH}).all()
    changes = StateChange.of_rows((row for row in rows if row.execution_id is not None), after=ExecutionStatus.PENDING)
    record(connection, changes, actor=actor, reason=ChangeReason.JOB_PAUSED)
    last: str | None = rows[0].last
    return last


def hold_the_rest(
    database: Database,
    job_id: str,
    after: str | None = "",
    actor: str | None = None,
    *,
    stopping: Stopping = never,
    unless_locked: bool = False,
) -> None:
    """Put the executions after `after` on hold in batches while the job is paused, until `stopping`."""
    transact = database.transact_unless_locked if unless_locked else database.transact

    def body(connection: Connection, after: str) -> str | None:
        if connection.execute(STATUS, {"job_id": job_id}).scalar() != JobStatus.PAUSED:
            return None
        return hold(connection, job_id, actor, after)

    while after is not None and not stopping():
        database.commit_jointly()
        after = transact(partial(body, after=after))


def hold_retries(database: Database) -> int:
    """Put the retries of paused jobs on hold; returns their number."""
    found = database.fetch(RETRIES)
    if not found:
        return 0
    params: dict[str, object] = {
        "ids": [row.execution_id for row in found],
        "jobs": sorted({row.job_id for row in found}),
        "count": len(found),
    }

    def body(connection: Connection) -> int:
        rows = connection.execute(HOLD_RETRIES, params)
        changes = StateChange.of_rows(rows, before=ExecutionStatus.RETRYING, after=ExecutionStatus.PENDING)
        record(connection, changes, actor=None, reason=ChangeReason.JOB_PAUSED)
        return len(changes)

    return database.transact(body)


def let_go(
    connection: Connection,
    job_id: str,
    ahead_ms: int,
    actor: str | None,
    *,
    after: str = "",
    retired_by: ChangeReason | None = None,
) -> tuple[Counter[str], str | None]:
    """Release a batch of a job's executions on hold, in id order after `after`.

    For a retired job (`retired_by`) only executions that have begun are released; the rest are cancelled. Returns
    their number by queue, due or not, and the last id if more follow.
    """
    params = {"job_id": job_id, "ahead_ms": ahead_ms, "limit": BATCH, "begun_only": retired_by is not None}
    rows = connection.execute(LET_GO, params | {"after": after}).all()
    freed = [row for row in rows if row.execution_id is not None]
    changes = StateChange.of_rows(freed, before=ExecutionStatus.PENDING)
    record(connection, changes, actor=actor, reason=retired_by or ChangeReason.JOB_RESUMED)
    return Counter(row.queue for row in freed), rows[0].last


def let_the_rest_go(
    database: Database,
    job_id: str,
    ahead_ms: int,
    actor: str | None = None,
    *,
    after: str | None = "",
    retired_by: ChangeReason | None = None,
    stopping: Stopping = never,
    unless_locked: bool = False,
) -> Counter[str]:
    """Release the executions after `after` in batches unless the job is paused, until `stopping`."""
    transact = database.transact_unless_locked if unless_locked else database.transact

    def body(connection: Connection, after: str) -> tuple[Counter[str], str | None]:
        if connection.execute(STATUS, {"job_id": job_id}).scalar() == JobStatus.PAUSED:
            return Counter(), None
        return let_go(connection, job_id, ahead_ms, actor, after=after, retired_by=retired_by)

    total = Counter[str]()
    while after is not None and not stopping():
        database.commit_jointly()
        queues, after = transact(partial(body, after=after))
        total += queues
    return total
