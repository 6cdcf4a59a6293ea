"""Open executions of jobs, counted up to a bound: a pause, an update or a cancellation of a job affects them."""

from collections.abc import Collection
from typing import NamedTuple

from app.kernel.db import Database, chunked_scan
from app.kernel.formats import array_literal
from app.kernel.sql import statement

MAX_COUNTED = 2_000  # open executions of all jobs of a read

# Ordered by the index of open executions, so that reading ends with the last one counted.
COUNT = statement(
    "jobs.open_executions",
    """
    WITH unfinished AS MATERIALIZED (
      SELECT job_id, status, attempt_count FROM executions
       WHERE completed_at IS NULL AND job_id = ANY (CAST(:jobs AS TEXT[]))
       ORDER BY job_id, execution_id LIMIT {most})
    SELECT job_id, count(*) AS total, count(CASE WHEN status = 'RUNNING' THEN 1 END) AS running,
           count(CASE WHEN status <> 'RUNNING' AND attempt_count = 0 THEN 1 END) AS not_begun
      FROM unfinished GROUP BY job_id
    """,
    most=MAX_COUNTED + 1,
)


class OpenExecutions(NamedTuple):
    """Open executions of a job; `not_begun` are the waiting ones without an attempt. There may be more than counted."""

    waiting: int = 0
    not_begun: int = 0
    running: int = 0
    is_complete: bool = True

    @property
    def begun(self) -> int:
        return self.waiting - self.not_begun + self.running


def open_executions(database: Database, jobs: Collection[str]) -> dict[str, OpenExecutions]:
    """Count the open executions of each job; beyond MAX_COUNTED in all, no count is complete."""
    if not jobs:
        return {}
    rows = chunked_scan.in_order(database, COUNT, {"jobs": array_literal(jobs)})
    is_complete = sum(row.total for row in rows) <= MAX_COUNTED
    counted = {
        row.job_id: OpenExecutions(row.total - row.running, row.not_begun, row.running, is_complete) for row in rows
    }
    return {job_id: counted.get(job_id, OpenExecutions(is_complete=is_complete)) for job_id in jobs}
