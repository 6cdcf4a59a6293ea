"""Executions that ended some days ago, with attempts, log lines and events."""

from sqlalchemy import text

from app.kernel import ids
from app.kernel.db import Database

CHILDREN = "unnest(:executions, CAST(:numbers AS BIGINT[]), :ids) AS u (execution_id, number, id)"
ATTEMPTS = f"""
    INSERT INTO attempts (attempt_id, execution_id, attempt_number, status, started_at)
    SELECT id, execution_id, number, 'FAILED', now() FROM {CHILDREN}
"""
LOGS = f"""
    INSERT INTO execution_logs (log_id, execution_id, attempt_number, level, message)
    SELECT id, execution_id, number, 'INFO', 'a line' FROM {CHILDREN}
"""
EVENTS = f"""
    INSERT INTO execution_events (event_id, execution_id, from_status, to_status, attempt_number, reason)
    SELECT id, execution_id, 'RUNNING', 'QUEUED', number, 'HANDED_BACK' FROM {CHILDREN}
"""


def finish(database: Database, executions: list[str], *, days_ago: float, children: int = 2) -> list[str]:
    """Complete executions some days ago, with attempts, log lines and events, and retire their jobs."""
    end = (
        "UPDATE executions SET status = 'SUCCESS', completed_at = now() - :days * INTERVAL '1 day' "
        " WHERE execution_id = ANY (:ids)"
    )
    database.fetch(text(end), {"days": days_ago, "ids": executions})
    retire = (
        "UPDATE jobs SET status = 'RETIRED', retired_at = now(), cron_next_run_at = NULL "
        " WHERE job_id IN (SELECT job_id FROM executions WHERE execution_id = ANY (:ids))"
    )
    database.fetch(text(retire), {"ids": executions})
    pairs = [(execution, n) for execution in executions for n in range(1, children + 1)]
    params = {"executions": [execution for execution, _ in pairs], "numbers": [n for _, n in pairs]}
    database.fetch(text(ATTEMPTS), params | {"ids": [ids.attempt_id() for _ in pairs]})
    database.fetch(text(LOGS), params | {"ids": [ids.log_id() for _ in pairs]})
    database.fetch(text(EVENTS), params | {"ids": [ids.event_id() for _ in pairs]})
    return executions
