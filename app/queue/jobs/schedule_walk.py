"""Walk over repeating jobs, and changes of several of them: bulk operations pause and resume schedules."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, and_, true

from app.kernel.db import Database, chunked_scan
from app.kernel.db.chunked_scan import ListIndex
from app.kernel.db.paging import Part, Position
from app.kernel.errors import ConflictError, JobNotFoundError, TaskExecutorError
from app.queue.executions.execution_model import OperationResult
from app.queue.jobs.job_list import IS_PAUSED, REPEATS, JobFilter
from app.queue.jobs.job_pause import begin_pause, begin_resumption
from schema import tables
from schema.states import JobStatus

_J = tables.jobs.c


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSelection:
    """Filter of repeating jobs, ACTIVE or PAUSED; None applies no filter."""

    status: JobStatus
    created_before: datetime
    created_after: datetime | None = None
    job_id: str | None = None
    endpoint: str | None = None
    name: str | None = None
    labels: Mapping[str, str] | None = None
    queue: str | None = None

    def index(self) -> ListIndex:
        """Return the index in which most entries match."""
        if self.status is JobStatus.PAUSED:
            return ListIndex(_J.created_at, _J.job_id, (IS_PAUSED,))
        leading: Mapping[ColumnElement[str], str] = {} if self.endpoint is None else {_J.endpoint: self.endpoint}
        return ListIndex(_J.created_at, _J.job_id, (REPEATS,), leading)

    def conditions(self, index: ListIndex) -> list[ColumnElement[bool]]:
        wanted = JobFilter(
            status=self.status, endpoint=self.endpoint, name=self.name, labels=self.labels, queue=self.queue
        )
        found = [REPEATS, *wanted.conditions(index)]
        return found if self.job_id is None else [*found, _J.job_id == self.job_id]


def next_schedules(
    database: Database, wanted: ScheduleSelection, after: Position, limit: int
) -> list[tuple[Position, bool]]:
    """Read the next jobs behind a position, oldest first, and whether they match; fewer than `limit` at the end."""
    start = after if wanted.created_after is None else max(after, Position.in_front_of(wanted.created_after))
    part, index = Part(start, Position.behind(wanted.created_before)), wanted.index()
    is_wanted = and_(true(), *wanted.conditions(index)).label("is_wanted")
    query = index.read_up(part, _J.created_at, _J.job_id, is_wanted).limit(limit)
    return [
        (Position(row.created_at, row.job_id), bool(row.is_wanted)) for row in chunked_scan.in_order(database, query)
    ]


def pause_jobs(connection: Connection, job_ids: Sequence[str], *, actor: str | None) -> OperationResult:
    """Pause jobs as `pause_job` does, each with its first batch of executions; a scheduler finishes the rest."""
    refused: dict[str, TaskExecutorError] = {}
    for job_id in job_ids:
        try:
            begin_pause(connection, job_id, actor)
        except (ConflictError, JobNotFoundError) as error:
            refused[job_id] = error
    return OperationResult(refused=refused)


def resume_jobs(
    connection: Connection, job_ids: Sequence[str], look_ahead_ms: int, *, actor: str | None
) -> OperationResult:
    """Resume jobs as `resume_job` does, each with its first batch of executions; a scheduler finishes the rest."""
    queues, refused = Counter[str](), dict[str, TaskExecutorError]()
    for job_id in job_ids:
        try:
            queues += begin_resumption(connection, job_id, look_ahead_ms, actor).queues
        except (ConflictError, JobNotFoundError) as error:
            refused[job_id] = error
    return OperationResult(queues, refused)
