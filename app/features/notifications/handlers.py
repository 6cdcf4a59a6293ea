"""Handler: stores an event batch for each rule that reports failed executions."""

from collections.abc import Sequence

from sqlalchemy import Connection

from app.features.notifications.failures import note_failures
from app.queue.ending.handler import Brought, Handler
from app.queue.ending.outbox_rows import End
from schema.states import ExecutionStatus


def _concerns(end: End) -> bool:
    return end.status is ExecutionStatus.FAILED and not end.is_rejected


def _note(connection: Connection, ends: Sequence[End]) -> Brought:
    return Brought(counts=note_failures(connection, ends))


NOTIFICATIONS = Handler("notifications", _concerns, _note)
