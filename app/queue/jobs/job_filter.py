"""Filter of the list of jobs, and the indexes that serve it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, false, func

from app.kernel.db.chunked_scan import ListIndex
from app.kernel.db.paging import Part, Position
from app.queue.reading.execution_list import WAITS
from schema import tables
from schema.states import CANCELLABLE, ExecutionStatus, JobStatus, Trigger

_J, _E = tables.jobs.c, tables.executions.c

# Predicates of partial indexes.
REPEATS = _J.trigger_type.in_([trigger.value for trigger in Trigger if trigger.repeats])
HAS_NAME, HAS_LABELS, IS_PAUSED = _J.name.is_not(None), _J.labels.is_not(None), _J.paused_at.is_not(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Filters of the list of jobs; None applies no filter."""

    status: JobStatus | None = None
    trigger: Trigger | None = None
    endpoint: str | None = None
    name: str | None = None
    labels: Mapping[str, str] | None = None
    queue: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None

    @property
    def repeats(self) -> bool:
        """Return whether the filter matches repeating jobs only."""
        return self.trigger is not None and self.trigger.repeats

    def part(self, after: Position | None) -> Part:
        """Return the range of the list that follows a position."""
        return Part.between(self.created_after, self.created_before, after)

    def conditions(self, beside: ListIndex | None = None) -> list[ColumnElement[bool]]:
        """Return the WHERE conditions, without the time of creation and the leading column of an index."""
        wanted: list[tuple[ColumnElement[str], str | None]] = [
            (_J.status, self.status),
            (_J.trigger_type, self.trigger),
            (_J.endpoint, self.endpoint),
            (_J.name, self.name),
            (_J.queue, self.queue),
        ]
        leading = None if beside is None else beside.leading
        conditions = [column == value for column, value in wanted if value is not None and column is not leading]
        if self.labels is not None:
            # Hidden from the planner: the index of labels would be read for every job with these labels.
            conditions.append(func.coalesce(_J.labels.contains(self.labels), false()))
        return conditions

    def indexes(self) -> list[ListIndex]:
        """Return the indexes of `jobs` in which most entries match the filter."""
        repeats = (REPEATS,) if self.repeats else ()
        found = []
        if self.name is not None:
            found.append(_index(HAS_NAME, leading=_J.name, value=self.name))
        if self.status is JobStatus.PAUSED:
            found.append(_index(IS_PAUSED))
        if self.endpoint is not None:
            found.append(_index(*repeats, leading=_J.endpoint, value=self.endpoint))
        elif repeats:
            found.append(_index(*repeats))
        return found


def _index(*where: ColumnElement[bool], leading: ColumnElement[str] | None = None, value: str = "") -> ListIndex:
    return ListIndex(_J.created_at, _J.job_id, where, leading, value)


ALL = _index()
REPEATING = _index(REPEATS)
# A one-shot job is open while its execution, created with the job, waits or runs. Running executions have no index in
# this order and are sorted.
OPEN_EXECUTIONS = [
    *(
        ListIndex(_E.created_at, _E.execution_id, (WAITS,), leading=_E.status, value=status.value)
        for status in ExecutionStatus
        if status in CANCELLABLE
    ),
    ListIndex(_E.created_at, _E.execution_id, (_E.status == ExecutionStatus.RUNNING,)),
]
