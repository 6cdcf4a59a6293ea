"""Selections: executions that match a filter, oldest first, in bounded reads.

Each status is read separately by an index that begins with it (app.queue.reading.execution_list). Rows are checked for
the other conditions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, and_, false, func, select, true, union_all

from app.kernel.db import Database, chunked_scan
from app.kernel.db.paging import Part, Position
from app.queue.reading.execution_list import executions_in
from schema import tables
from schema.states import ExecutionStatus

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
    return [Selected(Position(row.created_at, row.execution_id), row.is_wanted and row.job_id in jobs) for row in rows]
