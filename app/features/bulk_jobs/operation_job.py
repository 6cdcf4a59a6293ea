"""Bulk job of a bulk operation: the executions of its filter by creation, or its open dead letters by failure.

Rows created, or failed, after its start are not touched: an execution that fails again is not retried for ever.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection

from app.features.bulk_jobs.store import (
    BULK_OPERATIONS,
    BulkFilter,
    BulkOperation,
    Parameters,
    parameters_of,
    statuses_of,
    wanted_of,
)
from app.features.dead_letters.letter_list import LetterFilter
from app.features.dead_letters.redrive_job import next_letters
from app.kernel.db import Database
from app.kernel.db.paging import Position
from app.queue.bulk.bulk_job_runner import AT_ONCE, FilteredRow
from app.queue.ending.dead_letter import DeadLetter
from app.queue.ending.letters import archive_several
from app.queue.executions import execution_cancellation, manual_retry, rescheduling
from app.queue.executions.execution_model import Treated
from app.queue.executions.rescheduling import Moved
from app.queue.jobs.job_creation import Creator
from app.queue.reading.execution_selection import Selection, next_selected
from schema.states import BulkAction

Chosen = Selection | LetterFilter
Item = str | DeadLetter


class OperationJob:
    """Bulk job of a bulk operation."""

    bulk_jobs = BULK_OPERATIONS

    def __init__(self, creator: Creator) -> None:
        self._database = creator.database
        self._look_ahead_ms = creator.look_ahead_ms

    def filter_of(self, bulk_job: BulkOperation) -> Chosen:
        """Return its filter, bounded by its start."""
        return chosen_by(
            bulk_job.action, wanted_of(bulk_job.wanted), parameters_of(bulk_job.parameters), bulk_job.created_at
        )

    def next(self, database: Database, wanted: Chosen, after: Position, limit: int) -> list[FilteredRow[Item]]:
        if isinstance(wanted, LetterFilter):
            return [FilteredRow(each.position, each.item) for each in next_letters(database, wanted, after, limit)]
        found = next_selected(database, wanted, after, limit)
        return [FilteredRow(each.position, each.execution_id if each.is_wanted else None) for each in found]

    def at_once(self, _bulk_job: BulkOperation) -> int:
        return AT_ONCE

    def process(self, bulk_job: BulkOperation, items: Sequence[Item]) -> Treated:
        """Apply the action to executions or dead letters."""
        letters = [item.letter_id for item in items if isinstance(item, DeadLetter)]
        if letters:
            return self._database.transact(partial(self._archive, bulk_job=bulk_job, items=letters))
        executions = [execution_of(item) for item in items]
        return self._database.transact(partial(self._process, bulk_job=bulk_job, items=executions))

    @staticmethod
    def _archive(connection: Connection, bulk_job: BulkOperation, items: Sequence[str]) -> Treated:
        note = parameters_of(bulk_job.parameters).note or ""
        return Treated(refused=archive_several(connection, items, note=note, actor=bulk_job.actor))

    def _process(self, connection: Connection, bulk_job: BulkOperation, items: Sequence[str]) -> Treated:
        parameters = parameters_of(bulk_job.parameters)
        if bulk_job.action is BulkAction.RETRY:
            return manual_retry.retry_executions(connection, items, actor=bulk_job.actor)
        if bulk_job.action is BulkAction.RESCHEDULE:
            moved, ahead_ms = moved_to(parameters, bulk_job.created_at), self._look_ahead_ms
            return rescheduling.reschedule(connection, items, moved, ahead_ms=ahead_ms, actor=bulk_job.actor)
        if_running = parameters.if_running
        _, refused = execution_cancellation.cancel_executions(
            connection, items, if_running=if_running, actor=bulk_job.actor, only_changes=True
        )
        return Treated(refused=refused)


def execution_of(item: Item) -> str:
    """Return the id of an execution, or of the execution of a dead letter."""
    return item.execution_id if isinstance(item, DeadLetter) else item


def chosen_by(action: BulkAction, wanted: BulkFilter, parameters: Parameters, began_at: datetime) -> Chosen:
    """Return the filter of a bulk operation that began at an instant."""
    if action is not BulkAction.ARCHIVE:
        return selection_of(action, wanted, parameters, began_at)
    return LetterFilter(
        endpoint=wanted.endpoint,
        error_type=wanted.error_type,
        labels=wanted.labels,
        failed_after=wanted.failed_after,
        failed_before=began_at if wanted.failed_before is None else min(wanted.failed_before, began_at),
    )


def selection_of(action: BulkAction, wanted: BulkFilter, parameters: Parameters, began_at: datetime) -> Selection:
    """Return the selection of executions of a bulk operation that began at an instant."""
    return Selection(
        statuses=statuses_of(action, wanted, parameters),
        created_after=wanted.created_after,
        created_before=began_at if wanted.created_before is None else min(wanted.created_before, began_at),
        ended_before=began_at if action is BulkAction.RETRY else None,
        scheduled_after=wanted.scheduled_after,
        scheduled_before=wanted.scheduled_before,
        endpoint=wanted.endpoint,
        queue=wanted.queue,
        # As it is stored: app.web.http.request_fields.LimitKey.
        limit_key=None if wanted.limit_key is None else f"={wanted.limit_key}",
        job_id=wanted.job_id,
        name=wanted.name,
        labels=wanted.labels,
        key_prefix=wanted.idempotency_key_prefix,
    )


def moved_to(parameters: Parameters, began_at: datetime) -> Moved:
    """Return the target of a rescheduling; without an instant it spreads executions from its start on."""
    delay, spread = (timedelta(seconds=each or 0) for each in (parameters.delay_seconds, parameters.spread_seconds))
    run_at = parameters.run_at
    if run_at is None and parameters.delay_seconds is None:
        run_at = began_at
    return Moved(run_at, delay, spread)
