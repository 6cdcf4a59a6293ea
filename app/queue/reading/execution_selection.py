"""Selections: executions that match a filter, oldest first, in bounded reads.

Each status is read separately by an index that begins with it (app.queue.reading.execution_list). Rows are checked for
the other conditions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, false, func, literal, select, true, tuple_, union_all

from app.kernel.db import Database, chunked_scan
from app.kernel.db.paging import Position
from app.queue.reading.execution_list import WAITS
from schema import tables
from schema.states import CANCELLABLE, ExecutionStatus

_E, _J = tables.executions.c, tables.jobs.c


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


@dataclass(frozen=True, slots=True)
class Selected:
    """Position of an execution in the index, and whether it matches the filter."""

    position: Position
    is_wanted: bool

    @property
    def execution_id(self) -> str:
        return self.position.key


def next_selected(database: Database, wanted: Selection, after: Position, limit: int) -> list[Selected]:
    """Read the next executions behind a position; fewer than `limit` at the end."""
    reads = [_read(wanted, status, after).limit(limit) for status in wanted.statuses]
    found = union_all(*reads).subquery("found")
    query = select(*found.c).order_by(found.c.created_at, found.c.execution_id).limit(limit)
    rows = chunked_scan.in_order(database, query)
    jobs, conditions = {row.job_id for row in rows if row.is_wanted}, wanted.conditions_of_jobs()
    if jobs and conditions:
        jobs = {row.job_id for row in database.fetch(select(_J.job_id).where(_J.job_id.in_(jobs), *conditions))}
    return [Selected(Position(row.created_at, row.execution_id), row.is_wanted and row.job_id in jobs) for row in rows]


def _read(wanted: Selection, status: ExecutionStatus, after: Position) -> Select[Any]:
    is_wanted = and_(true(), *wanted.conditions()).label("is_wanted")
    query = select(_E.execution_id, _E.created_at, _E.job_id, is_wanted)
    start = after if wanted.created_after is None else max(after, Position.in_front_of(wanted.created_after))
    end = Position.behind(wanted.created_before)
    if status is ExecutionStatus.RUNNING:  # few, which are sorted
        order: list[ColumnElement[Any]] = [_E.created_at, _E.execution_id]
        leading: list[ColumnElement[Any]] = []
        query = query.where(_E.status == status)
        query = query if wanted.endpoint is None else query.where(_E.endpoint == wanted.endpoint)
    else:
        values = {_E.status: status.value}
        values = values if wanted.endpoint is None else {_E.endpoint: wanted.endpoint} | values
        order = [*values, _E.created_at, _E.execution_id]
        leading = [literal(value) for value in values.values()]
        query = query.where(WAITS if status in CANCELLABLE else _E.completed_at.is_not(None))
    first, behind = (tuple_(*leading, literal(place.at), literal(place.key)) for place in (start, end))
    return query.where(tuple_(*order) > first, tuple_(*order) < behind).order_by(*order)
