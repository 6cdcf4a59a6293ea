"""Schedule lag: delay of the creation of repeating jobs' executions."""

from app.kernel.db import Database
from app.kernel.sql import statement

# The index holds the jobs with a next run, earliest first.
LAG = statement(
    "stats.lag",
    """
    SELECT CAST(EXTRACT(EPOCH FROM (now() - cron_next_run_at)) AS DOUBLE PRECISION) AS seconds FROM jobs
     WHERE cron_next_run_at IS NOT NULL ORDER BY cron_next_run_at, job_id LIMIT 1
    """,
)


def seconds_behind(database: Database) -> float:
    """Return the age in seconds of the most overdue tick; 0 if no tick is due."""
    rows = database.fetch(LAG)
    return max(0.0, rows[0].seconds) if rows else 0.0
