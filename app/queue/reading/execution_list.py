"""Execution lists, newest first, and selections, oldest first: a page reads no more rows of a status than it shows.

Each status is read separately by an index that begins with the status and continues with the time, so a rare status is
found at once. The bounds compare the columns of the index as one tuple, so no plan depends on statistics, which are
wrong after a bulk load and after a drain.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    Subquery,
    and_,
    exists,
    literal,
    select,
    tuple_,
    union_all,
)

from app.kernel.db import Database, chunked_scan
from app.kernel.db.chunked_scan import CHUNK_SIZE, ListIndex, RowCount, next_size
from app.kernel.db.paging import Page, PageRequest, Part, Position, page_of
from app.queue.executions.execution_records import Execution
from app.queue.reading.chosen_executions import chosen_positions, page_of_chosen
from app.queue.reading.execution_filter import ExecutionFilter, job_of_key, matching
from app.queue.reading.execution_queries import executions_query, find_executions
from schema import tables
from schema.states import CANCELLABLE, FINAL, ExecutionStatus

SECONDS = 0.02  # a page of a queue or a worker that takes longer is returned short

_E, _J = tables.executions.c, tables.jobs.c

# Predicates of partial indexes, which queries have to repeat.
_HAS_ENDED, _IS_UNFINISHED = _E.completed_at.is_not(None), _E.completed_at.is_(None)
_WAITS = and_(_IS_UNFINISHED, _E.status.in_([status.value for status in ExecutionStatus if status in CANCELLABLE]))


def page_of_executions(
    database: Database,
    wanted: ExecutionFilter,
    request: PageRequest,
    *,
    chunk: int = CHUNK_SIZE,
    seconds: float = SECONDS,
) -> Page[Execution]:
    """Read a page of executions without their input, newest first.

    A page with a filter that no index has may be short before the end.
    """
    if wanted.execution_ids is not None:
        return page_of_chosen(database, wanted, request)
    if wanted.endpoint is not None and wanted.idempotency_key is not None and wanted.job_id is None:
        job_id = job_of_key(database, wanted.endpoint, wanted.idempotency_key)
        if job_id is None:
            return Page([], None)
        wanted = replace(wanted, job_id=job_id, idempotency_key=None)
    if not wanted.is_indexed:
        return _scanned_page(database, wanted, request, chunk, time.monotonic() + seconds)
    rows = _fetched(database, wanted, executions_page(wanted, request))
    return page_of(rows, "created_at", "execution_id", request, Execution.from_row)


def _scanned_page(
    database: Database, wanted: ExecutionFilter, request: PageRequest, chunk: int, until: float
) -> Page[Execution]:
    """Scan the list in chunks: an index with the other columns would cost every execution an entry."""
    after, found = request.after, list[Row[Any]]()
    while True:
        newest = _newest(wanted, PageRequest(chunk - 1, after))
        query = select(newest.c.at, newest.c.key, _E.job_id, wanted.matches())
        query = query.join(tables.executions, _E.execution_id == newest.c.key)
        seen = _fetched(database, wanted, query.order_by(newest.c.at.desc(), newest.c.key.desc()))
        found += compress(seen, matching(database, wanted, seen))
        after = _position(seen[-1]) if len(seen) == chunk else None
        if after is None or len(found) > request.limit or time.monotonic() >= until:
            break
        chunk = next_size(chunk)
    shown = found[: request.limit]
    items = find_executions(database, [row.key for row in shown])  # unless pruned since the read above
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
    statuses = wanted.statuses or list(ExecutionStatus)
    for status in statuses:
        if wanted.job_id is None or status in FINAL:
            index = executions_in(status, endpoint=wanted.endpoint, job_id=wanted.job_id)
            is_running = status is ExecutionStatus.RUNNING and wanted.worker_id is not None
            yield index.read(part).where(_E.worker_id == wanted.worker_id) if is_running else index.read(part)
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


def next_selected(
    database: Database, wanted: ExecutionFilter, after: Position, limit: int
) -> list[tuple[Position, bool]]:
    """Read the next executions behind a position, oldest first, and whether they match; fewer than `limit` at the end.

    Each status is read by its index. Its rows are checked for the other conditions.
    """
    if wanted.execution_ids is not None:
        chosen = [each for each in chosen_positions(database, wanted) if after < each]
        return [(each, True) for each in chosen[:limit]]
    rows = chunked_scan.in_order(database, _selected(wanted, after, limit))
    positions = [Position(row.created_at, row.execution_id) for row in rows]
    return list(zip(positions, matching(database, wanted, rows), strict=True))


def count_selected(database: Database, wanted: ExecutionFilter, after: Position, limit: int) -> RowCount | None:
    """Count the next executions behind a position; None if only the rows, or their jobs, show whether they match."""
    if wanted.conditions_of_jobs() or wanted.execution_ids is not None:
        return None
    return chunked_scan.count_rows(database, _selected(wanted, after, limit))


def _selected(wanted: ExecutionFilter, after: Position, limit: int) -> Select[Any]:
    newer = Part.between(wanted.created_after, wanted.created_before, None)
    part = Part(max(after, newer.end), newer.start)
    columns = _E.execution_id, _E.created_at, _E.job_id, wanted.matches()
    indexes = [executions_in(status, endpoint=wanted.endpoint) for status in wanted.statuses or ExecutionStatus]
    reads = [index.read_up(part, *columns).limit(limit) for index in indexes]
    found = union_all(*reads).subquery("found")
    return select(*found.c).order_by(found.c.created_at, found.c.execution_id).limit(limit)
