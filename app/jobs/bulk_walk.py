"""The walk of a bulk operation: the executions of its filter, those that were created first in front.

What was created after the beginning is left alone, and so is what failed after it: what fails again is not tried for
ever.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection

from app.db import Database
from app.db.paging import Position
from app.executions import cancellation, rescheduling, retry
from app.executions.reading.selection import Selection, next_selected
from app.executions.rescheduling import Moved
from app.executions.several import Treated
from app.jobs.bulk_operations import (
    BULK_OPERATIONS,
    BulkOperation,
    Parameters,
    Wanted,
    parameters_of,
    statuses_of,
    wanted_of,
)
from app.jobs.creation import Creator
from app.jobs.walker import AT_ONCE, Place
from schema.states import BulkAction


class BulkWalk:
    """How bulk operations are walked."""

    walks = BULK_OPERATIONS

    def __init__(self, creator: Creator) -> None:
        self._database = creator.database
        self._look_ahead_ms = creator.look_ahead_ms

    def filter_of(self, walk: BulkOperation) -> Selection:
        """Return its filter, without what came later."""
        parameters = parameters_of(walk.parameters)
        return selection_of(walk.action, wanted_of(walk.wanted), parameters, walk.created_at)

    def next(self, database: Database, wanted: Selection, after: Position, limit: int) -> list[Place[str]]:
        """Read the next executions of the filter's index."""
        found = next_selected(database, wanted, after, limit)
        return [Place(each.position, each.execution_id if each.is_wanted else None) for each in found]

    def at_once(self, _walk: BulkOperation) -> int:
        """Return how many executions a transaction may change."""
        return AT_ONCE

    def see_to(self, walk: BulkOperation, items: Sequence[str]) -> Treated:
        """Do to executions what is asked for."""
        return self._database.transact(partial(self._see_to, walk=walk, items=items))

    def _see_to(self, connection: Connection, walk: BulkOperation, items: Sequence[str]) -> Treated:
        parameters = parameters_of(walk.parameters)
        if walk.action is BulkAction.RETRY:
            return retry.retry_executions(connection, items, actor=walk.actor)
        if walk.action is BulkAction.RESCHEDULE:
            moved, ahead_ms = moved_to(parameters, walk.created_at), self._look_ahead_ms
            return rescheduling.reschedule(connection, items, moved, ahead_ms=ahead_ms, actor=walk.actor)
        if_running = parameters.if_running
        _, refused = cancellation.cancel_executions(
            connection, items, if_running=if_running, actor=walk.actor, only_changes=True
        )
        return Treated(refused=refused)


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
        # As it is stored: app.api.http.fields.LimitKey.
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
