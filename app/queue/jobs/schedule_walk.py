"""Walk over repeating jobs, and changes of several of them: bulk operations pause and resume schedules."""

from collections import Counter
from collections.abc import Mapping, Sequence

from sqlalchemy import ColumnElement, Connection, and_

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


def next_schedules(database: Database, wanted: JobFilter, after: Position, limit: int) -> list[tuple[Position, bool]]:
    """Read the next repeating jobs behind a position, oldest first, and whether they match.

    `wanted` has a status, ACTIVE or PAUSED. There are fewer jobs than `limit` at the end.
    """
    newer, index = Part.between(wanted.created_after, wanted.created_before, None), _index_of(wanted)
    part = Part(max(after, newer.end), newer.start)
    is_wanted = and_(REPEATS, *wanted.conditions(index)).label("is_wanted")
    query = index.read_up(part, _J.created_at, _J.job_id, is_wanted).limit(limit)
    return [
        (Position(row.created_at, row.job_id), bool(row.is_wanted)) for row in chunked_scan.in_order(database, query)
    ]


def _index_of(wanted: JobFilter) -> ListIndex:
    """Return the index in which most entries match."""
    if wanted.status is JobStatus.PAUSED:
        return ListIndex(_J.created_at, _J.job_id, (IS_PAUSED,))
    leading: Mapping[ColumnElement[str], str] = {} if wanted.endpoint is None else {_J.endpoint: wanted.endpoint}
    return ListIndex(_J.created_at, _J.job_id, (REPEATS,), leading)


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
