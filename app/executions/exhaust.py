"""Ending what waits for an attempt that it may not have: a row that only a hand can have made.

No claim takes it, so nothing else would ever end it. Like every rare verb it writes its history in its transaction.
"""

from sqlalchemy import Connection

from app.db import Database
from app.executions import cancellation, events
from app.executions.events import Reason, StateChange
from app.sql import statement
from schema.states import ExecutionStatus

# A walk over what waits, since no index knows such rows; so it is done seldom, and only with what is long due.
EXHAUSTED = statement(
    "executions.exhausted",
    """
    WITH stale AS MATERIALIZED (
      SELECT execution_id, status FROM executions
       WHERE status IN ('QUEUED', 'RETRYING') AND attempt_count >= max_attempts
         AND run_at < now() - INTERVAL '1 minute'
       ORDER BY execution_id LIMIT :limit FOR UPDATE SKIP LOCKED)
    UPDATE executions AS e SET status = 'FAILED', completed_at = now()
      FROM stale
     WHERE e.execution_id = stale.execution_id AND e.status IN ('QUEUED', 'RETRYING')
       AND e.attempt_count >= e.max_attempts
    RETURNING e.execution_id, stale.status, e.attempt_count
    """,
)


def fail_exhausted(database: Database, *, limit: int) -> int:
    """Fail executions that wait with all their attempts used; returns how many."""

    def body(connection: Connection) -> int:
        rows = connection.execute(EXHAUSTED, {"limit": limit}).all()
        changes = [
            StateChange(row.execution_id, ExecutionStatus(row.status), ExecutionStatus.FAILED, row.attempt_count)
            for row in rows
        ]
        events.record(connection, changes, actor=None, reason=Reason.NO_ATTEMPTS_LEFT)
        if rows:
            connection.execute(cancellation.SETTLE, {"ids": [row.execution_id for row in rows]})
        return len(rows)

    return database.transact(body)
