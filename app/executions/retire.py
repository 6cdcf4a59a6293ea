"""Retiring one-shot jobs that have nothing left to do: the second net.

The statement that ends an execution retires its job (conclude, reclaim, cancel). This finds what was missed, by
walking over all jobs in key order, since no index knows the active ones.
"""

from dataclasses import dataclass

from app.db import Database
from app.sql import statement

# A job of the last minute may be about to get its execution. No execution at all means that it was pruned.
RETIRE = statement(
    "jobs.retire_finished",
    """
    WITH page AS MATERIALIZED (
      SELECT job_id FROM jobs WHERE job_id > :after ORDER BY job_id LIMIT :limit),
    retired AS (
      UPDATE jobs AS j SET status = 'RETIRED', retired_at = now(), paused_at = NULL
        FROM page
       WHERE j.job_id = page.job_id AND j.status <> 'RETIRED' AND j.trigger_type IN ('IMMEDIATE', 'DELAYED')
         AND j.created_at < now() - INTERVAL '1 minute'
         AND NOT EXISTS (SELECT 1 FROM executions AS e WHERE e.job_id = j.job_id AND e.completed_at IS NULL)
      RETURNING j.job_id)
    SELECT (SELECT max(job_id) FROM page) AS last, (SELECT count(*) FROM page) AS seen,
           (SELECT count(*) FROM retired) AS retired
    """,
)


@dataclass(frozen=True, slots=True)
class Stretch:
    """How far one step of the walk came; `last` is None behind the last job."""

    last: str | None
    seen: int
    retired: int


def retire_finished(database: Database, *, after: str, limit: int) -> Stretch:
    """Look at the next `limit` jobs behind `after` and retire the finished one-shot jobs among them."""
    (row,) = database.fetch(RETIRE, {"after": after, "limit": limit})
    return Stretch(row.last, row.seen, row.retired)
