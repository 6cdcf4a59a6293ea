"""Execution lists, newest first: for each status, a page reads no more rows than it shows.

Each status is read separately by an index that begins with the status and continues with the time, so a rare status is
found at once. The bounds compare the columns of the index as one tuple, so no plan depends on statistics, which are
wrong after a bulk load and after a drain.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, Subquery, and_, exists, literal, select, tuple_, union_all

from app.kernel.db import Database, chunked_scan
from app.kernel.db.chunked_scan import ListIndex
from app.kernel.db.paging import Page, PageRequest, Part, Position, page_of
from app.queue.executions.execution_model import Execution
from app.queue.reading.execution_queries import executions_query, find_executions
from schema import tables
from schema.states import CANCELLABLE, FINAL, ExecutionStatus

SECONDS = 0.02  # a page of a queue that takes longer is returned short
CHUNK = 250  # executions per read of a page of a queue

_E, _J = tables.executions.c, tables.jobs.c

# Predicates of partial indexes, which queries have to repeat.
_HAS_ENDED, _IS_UNFINISHED = _E.completed_at.is_not(None), _E.completed_at.is_(None)
_WAITS = and_(_IS_UNFINISHED, _E.status.in_([status.value for status in ExecutionStatus if status in CANCELLABLE]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionFilter:
    """Filters of the list of executions; None applies no filter."""

    status: ExecutionStatus | None = None
    endpoint: str | None = None
    job_id: str | None = None
    queue: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


def page_of_executions(
    database: Database, wanted: ExecutionFilter, request: PageRequest, *, chunk: int = CHUNK, seconds: float = SECONDS
) -> Page[Execution]:
    """Read a page of executions without their input, newest first; a page of a queue may be short before the end."""
    if wanted.queue is not None:
        return _page_of_queue(database, wanted, request, chunk, time.monotonic() + seconds)
    rows = _fetched(database, wanted, executions_page(wanted, request))
    return page_of(rows, "created_at", "execution_id", request, Execution.from_row)


def _page_of_queue(
    database: Database, wanted: ExecutionFilter, request: PageRequest, chunk: int, until: float
) -> Page[Execution]:
    """Scan the list in chunks, since no index contains the queue: it would cost every execution an entry."""
    after, found = request.after, list[Row[Any]]()
    while True:
        newest = _newest(wanted, PageRequest(chunk - 1, after))
        query = select(newest.c.at, newest.c.key, _E.queue).order_by(newest.c.at.desc(), newest.c.key.desc())
        seen = _fetched(database, wanted, query.join(tables.executions, _E.execution_id == newest.c.key))
        found += [row for row in seen if row.queue == wanted.queue]
        after = _position(seen[-1]) if len(seen) == chunk else None
        if after is None or len(found) > request.limit or time.monotonic() >= until:
            break
    shown = found[: request.limit]
    by_id = {each.execution_id: each for each in find_executions(database, [row.key for row in shown])}
    # Executions pruned since the read above are not in `by_id`.
    items = [by_id[row.key] for row in shown if row.key in by_id]
    return Page(items, _position(shown[-1]) if len(shown) < len(found) else after)


def _position(row: Row[Any]) -> Position:
    return Position(row.at, row.key)


def _fetched(database: Database, wanted: ExecutionFilter, query: Select[Any]) -> Sequence[Row[Any]]:
    return database.fetch(query) if wanted.job_id is None else chunked_scan.in_order(database, query)


def executions_page(wanted: ExecutionFilter, request: PageRequest) -> Select[Any]:
    """Select a page and one more row: the newest of the newest rows of each status."""
    newest = _newest(wanted, request)
    query = executions_query().join(newest, newest.c.key == _E.execution_id)
    return query.order_by(_E.created_at.desc(), _E.execution_id.desc())


def _newest(wanted: ExecutionFilter, request: PageRequest) -> Subquery:
    part = Part.between(wanted.created_after, wanted.created_before, request.after)
    reads = (read.where(*_condition_on_job(wanted)).limit(request.limit + 1) for read in _reads(wanted, part))
    found = union_all(*reads).subquery("found")
    return select(*found.c).order_by(found.c.at.desc(), found.c.key.desc()).limit(request.limit + 1).subquery("newest")


def _reads(wanted: ExecutionFilter, part: Part) -> Iterator[Select[Any]]:
    statuses = list(ExecutionStatus) if wanted.status is None else [wanted.status]
    for status in statuses:
        if wanted.job_id is None or status in FINAL:
            yield executions_in(status, endpoint=wanted.endpoint, job_id=wanted.job_id).read(part)
    unfinished = [status.value for status in statuses if status not in FINAL]
    if wanted.job_id is not None and unfinished:
        of = _unfinished_of(wanted.job_id).cte("of_job").prefix_with("MATERIALIZED").c
        yield ListIndex(of.created_at, of.execution_id, [of.status.in_(unfinished)]).read(part)


def executions_in(status: ExecutionStatus, *, endpoint: str | None = None, job_id: str | None = None) -> ListIndex:
    """Return the index of the executions in a state, of all, of an endpoint or of a job.

    RUNNING executions have no such index: they are few and are sorted.
    """
    if status is ExecutionStatus.RUNNING:
        running = [_E.status == status] if endpoint is None else [_E.status == status, _E.endpoint == endpoint]
        return ListIndex(_E.created_at, _E.execution_id, running)
    leading: dict[ColumnElement[str], str] = {_E.status: status.value}
    if job_id is not None:
        leading = {_E.job_id: job_id} | leading
    elif endpoint is not None:
        leading = {_E.endpoint: endpoint} | leading
    return ListIndex(_E.created_at, _E.execution_id, [_WAITS if status in CANCELLABLE else _HAS_ENDED], leading)


def _unfinished_of(job_id: str) -> Select[Any]:
    """Select the unfinished executions of a job, in the order of the index that contains only these."""
    order = _E.job_id, _E.execution_id
    start = tuple_(*order) >= tuple_(literal(job_id), literal(""))
    return select(*_E).where(_IS_UNFINISHED, start, _E.job_id <= job_id).order_by(*order)


def _condition_on_job(wanted: ExecutionFilter) -> list[ColumnElement[bool]]:
    """Return the condition on the job's endpoint, which is the endpoint of all its executions."""
    if wanted.job_id is None or wanted.endpoint is None:
        return []
    return [exists().where(_J.job_id == wanted.job_id, _J.endpoint == wanted.endpoint)]
