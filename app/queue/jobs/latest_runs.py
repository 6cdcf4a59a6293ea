"""Results of the last runs of several jobs, by one statement."""

from collections import defaultdict
from collections.abc import Collection, Sequence

from app.kernel.db import Database
from app.kernel.sql import statement
from schema.states import FINAL, ExecutionStatus

MAX_RUNS = 7  # of a job
_FINAL = ", ".join(f"'{status.value}'" for status in sorted(FINAL))

# Reads a short range of idx_executions_ended_of_job for each job and status, however long the history. With `=` instead
# of row comparisons, the planner might read an index without the job in the same order.
LATEST = statement(
    "jobs.latest_runs",
    """
    SELECT j.job_id, latest.status FROM unnest(CAST(:jobs AS TEXT[])) AS j (job_id)
     CROSS JOIN LATERAL (
       SELECT found.status, found.created_at, found.execution_id FROM unnest(ARRAY[{final}]) AS s (status)
        CROSS JOIN LATERAL (
          SELECT e.status, e.created_at, e.execution_id FROM executions AS e
           WHERE (e.job_id, e.status) >= (j.job_id, s.status) AND (e.job_id, e.status) <= (j.job_id, s.status)
             AND e.completed_at IS NOT NULL
           ORDER BY e.job_id DESC, e.status DESC, e.created_at DESC, e.execution_id DESC LIMIT {most}) AS found
        ORDER BY found.created_at DESC, found.execution_id DESC LIMIT {most}) AS latest
     ORDER BY j.job_id, latest.created_at, latest.execution_id
    """,
    final=_FINAL,
    most=MAX_RUNS,
)


def latest_runs(database: Database, jobs: Collection[str]) -> dict[str, Sequence[ExecutionStatus]]:
    """Return the statuses of the last ended executions of each job, oldest first; jobs without one are left out."""
    found = defaultdict[str, list[ExecutionStatus]](list)
    for row in database.fetch(LATEST, {"jobs": list(jobs)}) if jobs else ():
        found[row.job_id].append(ExecutionStatus(row.status))
    return dict(found)
