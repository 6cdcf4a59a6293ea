"""Log lines of an execution: the stored lines, and the line of its delivered attempt, which is not stored."""

from typing import Any

from sqlalchemy import Select, Text, cast, func, literal, select, union_all

from app.kernel.db import Database
from app.kernel.db.paging import Page, PageRequest, newest_first, page_of
from app.queue.executions.execution_records import LogRecord
from app.queue.reading.attempt_rows import all_attempts
from app.queue.reading.execution_queries import check_exists
from schema import tables
from schema.states import AttemptStatus, LogLevel

_E, _A, _L = tables.executions.c, all_attempts.c, tables.execution_logs.c
_DELIVERED = (
    literal("attempt ") + cast(_A.attempt_number, Text) + " of " + cast(_E.max_attempts, Text) + " delivered over "
) + _E.endpoint_type


def logs_query(
    execution_id: str, request: PageRequest, *, level: LogLevel | None = None, attempt_number: int | None = None
) -> Select[Any]:
    """Select a page of an execution's log lines, latest first; None applies no filter.

    An attempt without an error writes no line: a line for each delivery was a seventh of the work of PostgreSQL.
    """
    stored = select(_L.log_id, _L.execution_id, _L.attempt_number, _L.level, _L.message, _L.logged_at)
    stored = stored.where(_L.execution_id == execution_id)
    delivered = (
        select(
            ("log_" + func.substr(_A.attempt_id, len("att_") + 1)).label("log_id"),
            _A.execution_id,
            _A.attempt_number,
            literal(LogLevel.INFO.value).label("level"),
            _DELIVERED.label("message"),
            _A.completed_at.label("logged_at"),
        )
        .join(tables.executions, _E.execution_id == _A.execution_id)
        .where(_A.execution_id == execution_id, _A.status == AttemptStatus.SUCCESS, _A.error.is_(None))
    )
    if attempt_number is not None:
        stored, delivered = (
            stored.where(_L.attempt_number == attempt_number),
            delivered.where(_A.attempt_number == attempt_number),
        )
    if level is not None:
        stored = stored.where(_L.level == level)
    # Each part in the order of its index and cut to a page, so that a long log is not sorted.
    parts = [newest_first(stored, _L.logged_at, _L.log_id, request)]
    if level in {None, LogLevel.INFO}:
        parts.append(delivered)
    lines = union_all(*(select(part.subquery()) for part in parts)).subquery()
    return newest_first(select(lines), lines.c.logged_at, lines.c.log_id, request)


def logs_of(
    database: Database, execution_id: str, request: PageRequest, *, is_known: bool = False, **wanted: Any
) -> Page[LogRecord]:
    """Read a page of an execution's log lines by `logs_query`; raises ExecutionNotFoundError, unless it `is_known`."""
    rows = database.fetch(logs_query(execution_id, request, **wanted))
    if not is_known:
        check_exists(database, execution_id, rows)
    return page_of(rows, "logged_at", "log_id", request, LogRecord.from_row)
