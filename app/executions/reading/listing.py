"""Lists of executions, newest first: a page reads no more rows than it shows, for each status.

Each status is read for itself, by an index in which it stands in front of the time: a rare one is found at once among
very many others. Only that index is in the order of the read, whose bounds compare its columns as one tuple: no plan
depends on statistics, which are wrong after a bulk load and after a drain.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, exists, literal, select, tuple_, union_all
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from app.db import Database
from app.db.paging import Page, PageRequest, Position, page_of
from app.executions.model import Execution
from app.executions.reading.queries import executions_query
from app.formats import EPOCH, MICROSECOND
from schema import tables
from schema.states import CANCELLABLE, FINAL, ExecutionStatus

Columns = ReadOnlyColumnCollection[str, Any]
_E, _J = tables.executions.c, tables.jobs.c
_LATEST = datetime.max.replace(tzinfo=UTC) - MICROSECOND

# Predicates of partial indexes, which their readers have to say.
_HAS_ENDED, _IS_UNFINISHED = _E.completed_at.is_not(None), _E.completed_at.is_(None)
_WAITS = and_(_IS_UNFINISHED, _E.status.in_([status.value for status in ExecutionStatus if status in CANCELLABLE]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionFilter:
    """Filters of the list of executions; None applies no filter."""

    status: ExecutionStatus | None = None
    endpoint: str | None = None
    job_id: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None

    @property
    def statuses(self) -> Sequence[ExecutionStatus]:
        """The statuses that are listed."""
        return list(ExecutionStatus) if self.status is None else [self.status]

    def start(self, after: Position | None) -> Position:
        """Return the position behind which the page after another one begins."""
        latest = _LATEST if self.created_before is None else self.created_before
        return min(after or Position(_LATEST, ""), Position(latest, ""))

    @property
    def end(self) -> Position:
        """The position with which the list ends."""
        # What was created after an instant was created a microsecond later at the earliest.
        after = EPOCH if self.created_after is None else min(self.created_after, _LATEST) + MICROSECOND
        return Position(after, "")


def page_of_executions(database: Database, wanted: ExecutionFilter, request: PageRequest) -> Page[Execution]:
    """Read a page of executions without their input, newest first."""
    rows = database.fetch(executions_page(wanted, request))
    return page_of(rows, "created_at", "execution_id", request, Execution.from_row)


def executions_page(wanted: ExecutionFilter, request: PageRequest) -> Select[Any]:
    """Select a page and one row more: the newest of each status, and of these the newest."""
    reads = (read.where(*_gate(wanted)).limit(request.limit + 1) for read in _reads(wanted, request))
    found = union_all(*reads).subquery("found")
    newest_first = found.c.created_at.desc(), found.c.execution_id.desc()
    newest = select(found.c.execution_id).order_by(*newest_first).limit(request.limit + 1).subquery("newest")
    query = executions_query().join(newest, newest.c.execution_id == _E.execution_id)
    return query.order_by(_E.created_at.desc(), _E.execution_id.desc())


def _reads(wanted: ExecutionFilter, request: PageRequest) -> Iterator[Select[Any]]:
    of_job = wanted.job_id is not None
    for status in wanted.statuses:
        if status in FINAL:
            yield _ordered(wanted, status, request, _HAS_ENDED)
        elif status is ExecutionStatus.RUNNING and not of_job:
            yield _sorted(wanted, request, _E.status == status)
        elif not of_job:
            yield _ordered(wanted, status, request, _WAITS)
    unfinished = [status.value for status in wanted.statuses if status not in FINAL]
    if of_job and unfinished:
        # Without an order of its own, so that no index of all jobs is read because it is in the order of the list.
        of = select(*_E).where(_E.job_id == wanted.job_id, _IS_UNFINISHED).cte("of_job").prefix_with("MATERIALIZED")
        yield _sorted(wanted, request, of.c.status.in_(unfinished), of=of.c)


def _ordered(
    wanted: ExecutionFilter, status: ExecutionStatus, request: PageRequest, predicate: ColumnElement[bool]
) -> Select[Any]:
    """Read a partial index that begins with a job or an endpoint, if one is wanted, and the status."""
    leading: dict[ColumnElement[str], str] = {_E.status: status.value}
    if wanted.job_id is not None:
        leading = {_E.job_id: wanted.job_id} | leading
    elif wanted.endpoint is not None:
        leading = {_E.endpoint: wanted.endpoint} | leading
    order = [*leading, _E.created_at, _E.execution_id]
    start, end = (
        tuple_(*map(literal, leading.values()), literal(position.at), literal(position.key))
        for position in (wanted.start(request.after), wanted.end)
    )
    query = select(_E.execution_id, _E.created_at).where(predicate, tuple_(*order) < start, tuple_(*order) >= end)
    return query.order_by(*(column.desc() for column in order))


def _sorted(
    wanted: ExecutionFilter, request: PageRequest, condition: ColumnElement[bool], *, of: Columns = _E
) -> Select[Any]:
    """Sort what meets a condition that few rows meet: what is RUNNING, and what is unfinished of a job."""
    start, end = wanted.start(request.after), wanted.end
    query = select(of.execution_id, of.created_at).where(condition, of.created_at >= end.at)
    query = query.where(tuple_(of.created_at, of.execution_id) < tuple_(literal(start.at), literal(start.key)))
    if wanted.endpoint is not None:
        query = query.where(of.endpoint == wanted.endpoint)
    return query.order_by(of.created_at.desc(), of.execution_id.desc())


def _gate(wanted: ExecutionFilter) -> list[ColumnElement[bool]]:
    """Return what is asked once for all rows: the executions of a job have the endpoint of the job."""
    if wanted.job_id is None or wanted.endpoint is None:
        return []
    return [exists().where(_J.job_id == wanted.job_id, _J.endpoint == wanted.endpoint)]
