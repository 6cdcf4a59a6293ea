"""The walk of a bulk operation: the executions of its filter, those that were created first in front.

What is archived are open dead letters, those that failed first in front. What was created after the beginning is left
alone, and so is what failed after it: what fails again is not tried for ever.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection

from app.features.bulk_jobs.store import (
    BULK_OPERATIONS,
    BulkOperation,
    Parameters,
    Wanted,
    parameters_of,
    statuses_of,
    wanted_of,
)
from app.features.dead_letters.letter_list import LetterFilter
from app.features.dead_letters.redrive_walk import next_letters
from app.kernel.db import Database
from app.kernel.db.paging import Position
from app.queue.bulk.walker import AT_ONCE, Place
from app.queue.ending.dead_letter import DeadLetter
from app.queue.ending.letters import archive_several
from app.queue.executions import execution_cancellation, manual_retry, rescheduling
from app.queue.executions.rescheduling import Moved
from app.queue.executions.several import Treated
from app.queue.jobs.job_creation import Creator
from app.queue.reading.execution_selection import Selection, next_selected
from schema.states import BulkAction

Chosen = Selection | LetterFilter
Item = str | DeadLetter


class BulkWalk:
    """How bulk operations are walked."""

    walks = BULK_OPERATIONS

    def __init__(self, creator: Creator) -> None:
        self._database = creator.database
        self._look_ahead_ms = creator.look_ahead_ms

    def filter_of(self, walk: BulkOperation) -> Chosen:
        """Return its filter, without what came later."""
        return chosen_by(walk.action, wanted_of(walk.wanted), parameters_of(walk.parameters), walk.created_at)

    def next(self, database: Database, wanted: Chosen, after: Position, limit: int) -> list[Place[Item]]:
        """Read the next executions, or letters, of the filter's index."""
        if isinstance(wanted, LetterFilter):
            return [Place(each.position, each.item) for each in next_letters(database, wanted, after, limit)]
        found = next_selected(database, wanted, after, limit)
        return [Place(each.position, each.execution_id if each.is_wanted else None) for each in found]

    def at_once(self, _walk: BulkOperation) -> int:
        """Return how many a transaction may change."""
        return AT_ONCE

    def see_to(self, walk: BulkOperation, items: Sequence[Item]) -> Treated:
        """Do to executions, or letters, what is asked for."""
        letters = [item.letter_id for item in items if isinstance(item, DeadLetter)]
        if letters:
            return self._database.transact(partial(self._archive, walk=walk, items=letters))
        executions = [execution_of(item) for item in items]
        return self._database.transact(partial(self._see_to, walk=walk, items=executions))

    @staticmethod
    def _archive(connection: Connection, walk: BulkOperation, items: Sequence[str]) -> Treated:
        note = parameters_of(walk.parameters).note or ""
        return Treated(refused=archive_several(connection, items, note=note, actor=walk.actor))

    def _see_to(self, connection: Connection, walk: BulkOperation, items: Sequence[str]) -> Treated:
        parameters = parameters_of(walk.parameters)
        if walk.action is BulkAction.RETRY:
            return manual_retry.retry_executions(connection, items, actor=walk.actor)
        if walk.action is BulkAction.RESCHEDULE:
            moved, ahead_ms = moved_to(parameters, walk.created_at), self._look_ahead_ms
            return rescheduling.reschedule(connection, items, moved, ahead_ms=ahead_ms, actor=walk.actor)
        if_running = parameters.if_running
        _, refused = execution_cancellation.cancel_executions(
            connection, items, if_running=if_running, actor=walk.actor, only_changes=True
        )
        return Treated(refused=refused)


def execution_of(item: Item) -> str:
    """Return the execution, or that of a letter."""
    return item.execution_id if isinstance(item, DeadLetter) else item


def chosen_by(action: BulkAction, wanted: Wanted, parameters: Parameters, began_at: datetime) -> Chosen:
    """Return what a bulk operation sees to that began at an instant."""
    if action is not BulkAction.ARCHIVE:
        return selection_of(action, wanted, parameters, began_at)
    return LetterFilter(
        endpoint=wanted.endpoint,
        error_type=wanted.error_type,
        labels=wanted.labels,
        failed_after=wanted.failed_after,
        failed_before=began_at if wanted.failed_before is None else min(wanted.failed_before, began_at),
    )


def selection_of(action: BulkAction, wanted: Wanted, parameters: Parameters, began_at: datetime) -> Selection:
    """Return which executions a bulk operation sees to that began at an instant."""
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
    """Return where a rescheduling moves executions: without an instant it spreads them from its beginning on."""
    delay, spread = (timedelta(seconds=each or 0) for each in (parameters.delay_seconds, parameters.spread_seconds))
    run_at = parameters.run_at
    if run_at is None and parameters.delay_seconds is None:
        run_at = began_at
    return Moved(run_at, delay, spread)
