"""Execution lists, newest first, and selections, oldest first: a page reads no more rows of a status than it shows.

Each status is read separately by an index that begins with the status and continues with the time, so a rare status is
found at once. The bounds compare the columns of the index as one tuple, so no plan depends on statistics, which are
wrong after a bulk load and after a drain.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    Subquery,
    and_,
    exists,
    false,
    func,
    literal,
    select,
    true,
    tuple_,
    union_all,
)

from app.kernel.db import Database, chunked_scan
from app.kernel.db.chunked_scan import ListIndex
from app.kernel.db.paging import Page, PageRequest, Part, Position, page_of
from app.queue.executions.execution_model import Execution
from app.queue.reading.execution_queries import executions_query, find_executions
from schema import tables
from schema.states import CANCELLABLE, FINAL, ExecutionStatus

SECONDS = 0.02  # a page of a queue or a worker that takes longer is returned short
CHUNK = 250  # executions per read of such a page

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
    worker_id: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None

    @property
    def unindexed(self) -> dict[str, str]:
        """Return the wanted values of columns that no index of the list has."""
        values = {"queue": self.queue, "worker_id": self.worker_id}
        return {name: value for name, value in values.items() if value is not None}


def page_of_executions(
    database: Database, wanted: ExecutionFilter, request: PageRequest, *, chunk: int = CHUNK, seconds: float = SECONDS
) -> Page[Execution]:
    """Read a page of executions without their input, newest first.

    A page of a queue or a worker may be short before the end.
    """
    if wanted.unindexed:
        return _scanned_page(database, wanted, request, chunk, time.monotonic() + seconds)
    rows = _fetched(database, wanted, executions_page(wanted, request))
    return page_of(rows, "created_at", "execution_id", request, Execution.from_row)


def _scanned_page(
    database: Database, wanted: ExecutionFilter, request: PageRequest, chunk: int, until: float
) -> Page[Execution]:
    """Scan the list in chunks: an index with queue or worker would cost every execution an entry."""
    after, found = request.after, list[Row[Any]]()
    columns = [_E[name] for name in wanted.unindexed]
    while True:
        newest = _newest(wanted, PageRequest(chunk - 1, after))
        query = select(newest.c.at, newest.c.key, *columns).order_by(newest.c.at.desc(), newest.c.key.desc())
        seen = _fetched(database, wanted, query.join(tables.executions, _E.execution_id == newest.c.key))
        found += [row for row in seen if all(getattr(row, name) == value for name, value in wanted.unindexed.items())]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Filter of executions; `name`, `labels` and `key_prefix` apply to the job. None applies no filter."""

    statuses: Sequence[ExecutionStatus]
    created_before: datetime
    created_after: datetime | None = None
    ended_before: datetime | None = None
    scheduled_after: datetime | None = None
    scheduled_before: datetime | None = None
    endpoint: str | None = None
    queue: str | None = None
    limit_key: str | None = None
    job_id: str | None = None
    name: str | None = None
    labels: Mapping[str, str] | None = None
    key_prefix: str | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return the conditions on executions, except status, endpoint and time of creation."""
        equal = ((_E.queue, self.queue), (_E.limit_key, self.limit_key), (_E.job_id, self.job_id))
        found = [column == value for column, value in equal if value is not None]
        if self.ended_before is not None:
            found.append(_E.completed_at < self.ended_before)
        if self.scheduled_after is not None:
            found.append(_E.scheduled_at > self.scheduled_after)
        if self.scheduled_before is not None:
            found.append(_E.scheduled_at < self.scheduled_before)
        return found

    def conditions_of_jobs(self) -> list[ColumnElement[bool]]:
        found: list[ColumnElement[bool]] = []
        if self.name is not None:
            found.append(_J.name == self.name)
        if self.labels:
            # Hidden from the planner, which has to look jobs up by id.
            found.append(func.coalesce(_J.labels.contains(self.labels), false()))
        if self.key_prefix is not None:
            found.append(_J.idempotency_key.startswith(self.key_prefix, autoescape=True))
        return found


def next_selected(database: Database, wanted: Selection, after: Position, limit: int) -> list[tuple[Position, bool]]:
    """Read the next executions behind a position, oldest first, and whether they match; fewer than `limit` at the end.

    Each status is read by its index. Its rows are checked for the other conditions.
    """
    start = after if wanted.created_after is None else max(after, Position.in_front_of(wanted.created_after))
    part = Part(start, Position.behind(wanted.created_before))
    columns = _E.execution_id, _E.created_at, _E.job_id, and_(true(), *wanted.conditions()).label("is_wanted")
    indexes = [executions_in(status, endpoint=wanted.endpoint) for status in wanted.statuses]
    reads = [index.read_up(part, *columns).limit(limit) for index in indexes]
    found = union_all(*reads).subquery("found")
    query = select(*found.c).order_by(found.c.created_at, found.c.execution_id).limit(limit)
    rows = chunked_scan.in_order(database, query)
    jobs, conditions = {row.job_id for row in rows if row.is_wanted}, wanted.conditions_of_jobs()
    if jobs and conditions:
        jobs = {row.job_id for row in database.fetch(select(_J.job_id).where(_J.job_id.in_(jobs), *conditions))}
    return [(Position(row.created_at, row.execution_id), row.is_wanted and row.job_id in jobs) for row in rows]
