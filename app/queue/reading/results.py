"""Results of executions."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.kernel.db import Database
from app.kernel.db.rows import RowValue
from app.kernel.errors import ExecutionNotFoundError, ResultExpiredError
from app.kernel.sql import statement
from schema.states import ExecutionStatus

# An open execution has neither output nor error: a failed attempt may be retried.
RESULT = statement(
    "executions.result",
    """
    SELECT e.execution_id, e.job_id, e.endpoint, e.status, e.attempt_count, e.completed_at, e.duration_ms,
           e.completed_at + e.result_retention_ms * INTERVAL '1 millisecond' AS kept_until,
           COALESCE(e.result_pruned_at IS NOT NULL
                    OR e.completed_at < now() - e.result_retention_ms * INTERVAL '1 millisecond', false) AS is_expired,
           e.output, CASE WHEN e.completed_at IS NOT NULL THEN a.error END AS error
      FROM executions AS e
      LEFT JOIN attempts AS a ON a.execution_id = e.execution_id AND a.attempt_number = e.attempt_count
     WHERE e.execution_id = :execution_id
    """,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(RowValue):
    """Result of an execution; `completed_at`, output and error are None until it has ended.

    `kept_until` is None if the result is kept as long as the execution. The error is the last attempt's, also if
    `ignore_on` made it a success.
    """

    execution_id: str
    job_id: str
    endpoint: str
    status: ExecutionStatus
    attempt_count: int
    completed_at: datetime | None
    duration_ms: int | None
    kept_until: datetime | None
    output: dict[str, Any] | None
    error: dict[str, Any] | None

    @property
    def is_over(self) -> bool:
        """Return whether the execution has ended."""
        return self.completed_at is not None


def get_result(database: Database, execution_id: str) -> Result:
    """Read the result of an execution; raises ExecutionNotFoundError or ResultExpiredError."""
    rows = database.fetch(RESULT, {"execution_id": execution_id})
    if not rows:
        raise ExecutionNotFoundError.of(execution_id)
    if rows[0].is_expired:
        raise ResultExpiredError(f"The result of execution {execution_id!r} is no longer kept.")
    return Result.from_row(rows[0])
