"""Bulk job of a bulk operation: executions or repeating jobs of its filter by creation, or dead letters by failure.

Rows created, or failed, after its start are not touched: an execution that fails again is not retried for ever.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection

from app.features.bulk_jobs.store import (
    AFFECTS,
    BULK_OPERATIONS,
    OF_SCHEDULES,
    WAITING,
    BulkFilter,
    BulkOperation,
    Parameters,
)
from app.features.dead_letters.letter_list import LetterFilter, count_letters, next_letters
from app.kernel.db import Database
from app.kernel.db.chunked_scan import RowCount
from app.kernel.db.paging import Position
from app.queue.bulk.bulk_job_kind import AT_ONCE, FilteredRow
from app.queue.ending.letters import DeadLetter, archive_several
from app.queue.executions import execution_cancellation, manual_retry, rescheduling
from app.queue.executions.execution_model import OperationResult
from app.queue.executions.rescheduling import NewDueTime
from app.queue.jobs import schedule_walk
from app.queue.jobs.job_creation import Creator
from app.queue.jobs.job_list import JobFilter
from app.queue.jobs.schedule_walk import next_schedules
from app.queue.reading.execution_filter import ExecutionFilter
from app.queue.reading.execution_list import count_selected, next_selected
from schema.states import BulkAction, ExecutionStatus

SCHEDULES_AT_ONCE = 20  # jobs per transaction: each takes several statements, and 500 executions or some more

Chosen = ExecutionFilter | LetterFilter | JobFilter
Item = str | DeadLetter


class OperationJob:
    """Bulk job of a bulk operation."""

    bulk_jobs = BULK_OPERATIONS

    def __init__(self, creator: Creator) -> None:
        self._database = creator.database
        self._look_ahead_ms = creator.look_ahead_ms

    def filter_of(self, bulk_job: BulkOperation) -> Chosen:
        return chosen_by(bulk_job.action, bulk_job.filter, bulk_job.given, bulk_job.created_at)

    def next(self, database: Database, wanted: Chosen, after: Position, limit: int) -> list[FilteredRow[Item]]:
        if isinstance(wanted, LetterFilter):
            return [FilteredRow(each.position, each.item) for each in next_letters(database, wanted, after, limit)]
        if isinstance(wanted, JobFilter):
            found = next_schedules(database, wanted, after, limit)
        else:
            found = next_selected(database, wanted, after, limit)
        return [FilteredRow(position, position.key if is_wanted else None) for position, is_wanted in found]

    def count(self, database: Database, wanted: Chosen, after: Position, limit: int) -> RowCount | None:
        if isinstance(wanted, JobFilter):
            return None
        if isinstance(wanted, LetterFilter):
            return count_letters(database, wanted, after, limit)
        return count_selected(database, wanted, after, limit)

    def at_once(self, bulk_job: BulkOperation) -> int:
        return SCHEDULES_AT_ONCE if bulk_job.action in OF_SCHEDULES else AT_ONCE

    def allowance(self, _bulk_job: BulkOperation) -> int | None:
        return None

    def process(self, bulk_job: BulkOperation, items: Sequence[Item]) -> OperationResult:
        return self._database.transact(partial(self._process, bulk_job=bulk_job, items=items))

    def _process(self, connection: Connection, bulk_job: BulkOperation, items: Sequence[Item]) -> OperationResult:
        given, actor = bulk_job.given, bulk_job.actor
        if bulk_job.action is BulkAction.ARCHIVE:
            letters = [item.letter_id for item in items if isinstance(item, DeadLetter)]
            return OperationResult(refused=archive_several(connection, letters, note=given.note or "", actor=actor))
        executions = [execution_of(item) for item in items]
        if bulk_job.action is BulkAction.PAUSE:
            return schedule_walk.pause_jobs(connection, executions, actor=actor)
        if bulk_job.action is BulkAction.RESUME:
            return schedule_walk.resume_jobs(connection, executions, self._look_ahead_ms, actor=actor)
        if bulk_job.action is BulkAction.RETRY:
            return manual_retry.retry_executions(connection, executions, actor=actor)
        if bulk_job.action is BulkAction.RESCHEDULE:
            moved, ahead_ms = moved_to(given, bulk_job.created_at), self._look_ahead_ms
            return rescheduling.reschedule(connection, executions, moved, ahead_ms=ahead_ms, actor=actor)
        _, refused = execution_cancellation.cancel_executions(
            connection, executions, if_running=given.if_running, actor=actor, only_changes=True
        )
        return OperationResult(refused=refused)


def execution_of(item: Item) -> str:
    """Return the id of an execution or of a repeating job, or of the execution of a dead letter."""
    return item.execution_id if isinstance(item, DeadLetter) else item


def chosen_by(action: BulkAction, wanted: BulkFilter, parameters: Parameters, began_at: datetime) -> Chosen:
    """Return the filter of a bulk operation that began at an instant."""
    if action in OF_SCHEDULES:
        return schedules_of(action, wanted, began_at)
    if action is not BulkAction.ARCHIVE:
        return selection_of(action, wanted, parameters, began_at)
    return LetterFilter(
        endpoint=wanted.endpoint,
        error_type=wanted.error_type,
        labels=wanted.labels,
        group=wanted.group,
        letter_ids=wanted.letter_ids,
        failed_after=wanted.failed_after,
        failed_before=_earlier(wanted.failed_before, began_at),
    )


def schedules_of(action: BulkAction, wanted: BulkFilter, began_at: datetime) -> JobFilter:
    """Return the filter of the repeating jobs of a bulk operation that began at an instant."""
    return JobFilter(
        status=OF_SCHEDULES[action],
        created_after=wanted.created_after,
        created_before=_earlier(wanted.created_before, began_at),
        job_id=wanted.job_id,
        endpoint=wanted.endpoint,
        name=wanted.name,
        labels=wanted.labels,
        queue=wanted.queue,
    )


def selection_of(action: BulkAction, wanted: BulkFilter, parameters: Parameters, began_at: datetime) -> ExecutionFilter:
    """Return the filter of the executions of a bulk operation that began at an instant."""
    return replace(
        wanted,
        statuses=_statuses_of(action, wanted, parameters),
        created_before=_earlier(wanted.created_before, began_at),
        ended_before=began_at if action is BulkAction.RETRY else None,
    )


def _earlier(given: datetime | None, began_at: datetime) -> datetime:
    return began_at if given is None else min(given, began_at)


def moved_to(parameters: Parameters, began_at: datetime) -> NewDueTime:
    """Return the target of a rescheduling; without an instant it spreads executions from its start on."""
    delay, spread = (timedelta(seconds=each or 0) for each in (parameters.delay_seconds, parameters.spread_seconds))
    run_at = parameters.run_at
    if run_at is None and parameters.delay_seconds is None:
        run_at = began_at
    return NewDueTime(run_at, delay, spread)


def _statuses_of(action: BulkAction, wanted: BulkFilter, parameters: Parameters) -> Collection[ExecutionStatus]:
    """Return the states of the wanted executions: by default not RUNNING, except for a cancellation, nor CANCELLED."""
    if wanted.statuses:
        return wanted.statuses
    if action is BulkAction.RETRY:
        return (ExecutionStatus.FAILED,)
    if action is BulkAction.CANCEL and parameters.if_running is not None:
        return AFFECTS[action]
    return WAITING
