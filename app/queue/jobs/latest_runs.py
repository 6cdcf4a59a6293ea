"""Results of the last runs of several jobs, by one statement."""

from collections.abc import Collection, Sequence
from typing import Any

from app.kernel.db import Database
from app.kernel.db.gathered_reads import read_several
from app.kernel.sql import read_together, statement
from schema.states import FINAL, ExecutionStatus

MAX_RUNS = 7  # of a job


# With `=` instead of row comparisons, the planner might read an index without the job in the same order.
def _newest_of(status: str) -> str:
    return f"""
           (SELECT e.status, e.created_at, e.execution_id FROM executions AS e
             WHERE (e.job_id, e.status) >= (CAST(:job_id AS TEXT), '{status}')
               AND (e.job_id, e.status) <= (CAST(:job_id AS TEXT), '{status}') AND e.completed_at IS NOT NULL
             ORDER BY e.job_id DESC, e.status DESC, e.created_at DESC, e.execution_id DESC LIMIT {MAX_RUNS})"""  # noqa: S608 - constants


# Reads a short range of idx_executions_ended_of_job for each status, however long the history.
LATEST = statement(
    "jobs.latest_runs",
    """
    SELECT latest.status, latest.created_at, latest.execution_id FROM ({newest}) AS latest
     ORDER BY latest.created_at DESC, latest.execution_id DESC LIMIT {most}
    """,
    newest=" UNION ALL".join(_newest_of(status.value) for status in sorted(FINAL)),
    most=MAX_RUNS,
)
read_together(LATEST, job_id="TEXT")


def latest_runs(database: Database, jobs: Collection[str]) -> dict[str, Sequence[ExecutionStatus]]:
    """Return the statuses of the last ended executions of each job, oldest first."""
    wanted = [{"job_id": each} for each in jobs]
    found = read_several(database, LATEST, wanted, apart=database.is_cockroach)
    return {
        job: [ExecutionStatus(row.status) for row in _in_order(rows)] for job, rows in zip(jobs, found, strict=True)
    }


def _in_order(rows: Sequence[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: (row.created_at, row.execution_id))
