"""Queries of executions, their attempts and results."""

from collections.abc import Collection, Sized
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, Text, and_, cast, select
from sqlalchemy.dialects.postgresql import JSONB

from app.kernel.db import Database
from app.kernel.db.paging import Page, PageRequest, page_of
from app.kernel.db.rows import RowValue
from app.kernel.errors import ExecutionNotFoundError, ResultExpiredError
from app.kernel.sql import statement
from app.queue.executions.execution_records import AttemptRecord, Execution, ExecutionWithInput
from app.queue.reading.attempt_rows import all_attempts
from app.queue.reading.execution_filter import ENDED_ATTEMPT
from schema import tables
from schema.states import ExecutionStatus

_E, _A, _J = tables.executions.c, tables.attempts.c, tables.jobs.c

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

_WITH_LAST_ATTEMPT = tables.executions.outerjoin(
    tables.attempts, and_(_A.execution_id == _E.execution_id, _A.attempt_number == ENDED_ATTEMPT)
)
# Without the receiver's answer, which may be long and is in the attempt. A success without a row has no error.
_LAST_ERROR = _A.error.op("-", return_type=JSONB())(cast("body", Text)).label("last_error")


def executions_query() -> Select[Any]:
    """Select executions, each with the error of its latest attempt that has ended."""
    return select(*_E, _LAST_ERROR).select_from(_WITH_LAST_ATTEMPT)


def get_execution(database: Database, execution_id: str) -> ExecutionWithInput:
    """Read an execution with parts of its job; raises ExecutionNotFoundError."""
    of_job = (_J.input, _J.name.label("job_name"), _J.labels.label("job_labels"), _J.trigger_type.label("job_trigger"))
    query = executions_query().add_columns(*of_job).join(tables.jobs, _J.job_id == _E.job_id)
    rows = database.fetch(query.where(_E.execution_id == execution_id))
    if not rows:
        raise ExecutionNotFoundError.of(execution_id)
    return ExecutionWithInput.from_row(rows[0])


def find_executions(database: Database, execution_ids: Collection[str]) -> list[Execution]:
    """Read the executions that exist, of these ids and in their order, without their input."""
    if not execution_ids:
        return []
    rows = database.fetch(executions_query().where(_E.execution_id.in_(execution_ids)))
    found = {row.execution_id: Execution.from_row(row) for row in rows}
    return [found[each] for each in execution_ids if each in found]


def attempts_query(execution_id: str, request: PageRequest) -> Select[Any]:
    """Select a page of an execution's attempts, latest first, and one more."""
    tried = all_attempts.c
    query = select(all_attempts).where(tried.execution_id == execution_id)
    if request.after is not None:
        query = query.where(tried.attempt_number < int(request.after.key))
    return query.order_by(tried.attempt_number.desc()).limit(request.limit + 1)


def attempts_of(
    database: Database, execution_id: str, request: PageRequest, *, is_known: bool = False
) -> Page[AttemptRecord]:
    """Read a page of an execution's attempts, latest first; raises ExecutionNotFoundError, unless it `is_known`."""
    rows = database.fetch(attempts_query(execution_id, request))
    if not is_known:
        check_exists(database, execution_id, rows)
    return page_of(rows, "created_at", "attempt_number", request, AttemptRecord.from_row)


def check_exists(database: Database, execution_id: str, rows: Sized) -> None:
    """Raise ExecutionNotFoundError if there is no such execution; rows of it prove that it exists."""
    if not rows and not database.fetch(select(_E.execution_id).where(_E.execution_id == execution_id)):
        raise ExecutionNotFoundError.of(execution_id)


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
        return self.completed_at is not None


def get_result(database: Database, execution_id: str) -> Result:
    """Read the result of an execution; raises ExecutionNotFoundError or ResultExpiredError."""
    rows = database.fetch(RESULT, {"execution_id": execution_id})
    if not rows:
        raise ExecutionNotFoundError.of(execution_id)
    if rows[0].is_expired:
        raise ResultExpiredError(f"The result of execution {execution_id!r} is no longer kept.")
    return Result.from_row(rows[0])
