"""Uncertain deliveries: attempts that failed although they may have been delivered, newest first.

An index has only these attempts. A filter by endpoint reads them all.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import literal_column

from app.kernel.db import Database
from app.kernel.db.chunked_scan import QUICK, ChunkedRead, ListIndex
from app.kernel.db.paging import Page, PageRequest, Part
from app.kernel.db.rows import RowValue
from app.kernel.unreadable import readable
from app.queue.reading.execution_filter import IS_UNCERTAIN_ATTEMPT
from schema import tables
from schema.states import ExecutionStatus

_E, _A = tables.executions.c, tables.attempts.c
_INDEX = ListIndex(_A.created_at, _A.attempt_id, [literal_column(IS_UNCERTAIN_ATTEMPT)])
_COLUMNS = (
    *(_A.attempt_id, _A.execution_id, _A.attempt_number, _A.worker_id, _A.due_at, _A.started_at, _A.completed_at),
    *(_A.duration_ms, _A.error, _A.created_at, _E.job_id, _E.endpoint, _E.endpoint_version),
    *(_E.status.label("execution_status"), _E.attempt_count),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UncertainFilter:
    """Filter of uncertain deliveries; None applies no filter."""

    endpoint: str | None = None
    error_type: str | None = None
    worker_id: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UncertainAttempt(RowValue):
    """An attempt that may have been delivered, and the present state of its execution."""

    attempt_id: str
    execution_id: str
    job_id: str
    endpoint: str
    endpoint_version: int
    attempt_number: int
    worker_id: str | None
    due_at: datetime | None
    started_at: datetime
    completed_at: datetime | None
    duration_ms: int | None
    error: dict[str, Any] | None
    execution_status: ExecutionStatus
    attempt_count: int
    created_at: datetime

    @property
    def later_attempts(self) -> int:
        return max(0, self.attempt_count - self.attempt_number)


def page_of_uncertain(
    database: Database, wanted: UncertainFilter, request: PageRequest, read: ChunkedRead = QUICK
) -> Page[UncertainAttempt]:
    """Read a page of uncertain deliveries; may be short before the last page if few of very many match."""
    part = Part.between(wanted.created_after, wanted.created_before, request.after)
    conditions = [_E.execution_id == _A.execution_id]
    equal = ((_E.endpoint, wanted.endpoint), (_A.worker_id, wanted.worker_id))
    conditions += [column == value for column, value in equal if value is not None]
    if wanted.error_type is not None:
        conditions.append(_A.error["type"].astext == wanted.error_type)
    rows, after = read.page(database, _INDEX, part, columns=_COLUMNS, conditions=conditions, limit=request.limit)
    return Page(readable(UncertainAttempt.from_row, rows, "attempt {.attempt_id}".format), after)
