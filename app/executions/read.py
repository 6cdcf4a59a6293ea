"""Reading executions, their attempts and their logs."""

from typing import Any

from sqlalchemy import Row, select

from app.db import Database
from app.errors import ExecutionNotFoundError
from app.paging import Page, PageRequest, newest_first, page_of
from schema import tables
from schema.states import ExecutionStatus, LogLevel

_E, _A, _L = tables.executions.c, tables.attempts.c, tables.execution_logs.c


def get(database: Database, execution_id: str) -> Row[Any]:
    """Read an execution with its job's input; raises ExecutionNotFoundError."""
    query = select(*_E, tables.jobs.c.input).join_from(
        tables.executions, tables.jobs, tables.jobs.c.job_id == _E.job_id
    )
    rows = database.fetch(query.where(_E.execution_id == execution_id))
    if not rows:
        raise _missing(execution_id)
    return rows[0]


def page_of_job(
    database: Database, job_id: str, status: ExecutionStatus | None, request: PageRequest
) -> Page[Row[Any]]:
    """Read a page of a job's executions, newest first."""
    query = select(*_E).where(_E.job_id == job_id)
    if status is not None:
        query = query.where(_E.status == status)
    query = newest_first(query, _E.created_at, _E.execution_id, request)
    return page_of(database.fetch(query), "created_at", "execution_id", request)


def attempts(database: Database, execution_id: str, request: PageRequest) -> Page[Row[Any]]:
    """Read a page of an execution's attempts, the latest first; raises ExecutionNotFoundError."""
    query = select(*_A).where(_A.execution_id == execution_id)
    if request.after is not None:
        query = query.where(_A.attempt_number < int(request.after.key))
    rows = database.fetch(query.order_by(_A.attempt_number.desc()).limit(request.limit + 1))
    _check_exists(database, execution_id, rows)
    return page_of(rows, "created_at", "attempt_number", request)


def logs(database: Database, execution_id: str, level: LogLevel | None, request: PageRequest) -> Page[Row[Any]]:
    """Read a page of an execution's log lines, the latest first; raises ExecutionNotFoundError."""
    query = select(*_L).where(_L.execution_id == execution_id)
    if level is not None:
        query = query.where(_L.level == level)
    rows = database.fetch(newest_first(query, _L.logged_at, _L.log_id, request))
    _check_exists(database, execution_id, rows)
    return page_of(rows, "logged_at", "log_id", request)


def _check_exists(database: Database, execution_id: str, rows: Any) -> None:
    # Only an empty answer leaves it open, and costs a second statement.
    if not rows and not database.fetch(select(_E.execution_id).where(_E.execution_id == execution_id)):
        raise _missing(execution_id)


def _missing(execution_id: str) -> ExecutionNotFoundError:
    return ExecutionNotFoundError(f"Execution with ID {execution_id!r} does not exist.")
