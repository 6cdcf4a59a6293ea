"""Lag: how far the creation of repeating jobs' executions is behind."""

from app.kernel.db import Database
from app.kernel.sql import statement

# Its index holds what has a next run, the earliest first.
LAG = statement(
    "stats.lag",
    """
    SELECT CAST(EXTRACT(EPOCH FROM (now() - cron_next_run_at)) AS DOUBLE PRECISION) AS seconds FROM jobs
     WHERE cron_next_run_at IS NOT NULL ORDER BY cron_next_run_at, job_id LIMIT 1
    """,
)


def seconds_behind(database: Database) -> float:
    """Return for how long the most overdue tick has been waiting to become an execution; 0 where none is due."""
    rows = database.fetch(LAG)
    return max(0.0, rows[0].seconds) if rows else 0.0
