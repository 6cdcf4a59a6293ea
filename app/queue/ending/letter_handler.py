"""Dead letters: what has failed waits for somebody to see to it."""

from collections.abc import Sequence

from sqlalchemy import Connection

from app.queue.ending.handler import Brought, Handler
from app.queue.ending.letters import leave_letters
from app.queue.ending.outbox_rows import End
from schema.states import ExecutionStatus


def _concerns(end: End) -> bool:
    return end.status is ExecutionStatus.FAILED and not end.is_rejected


def _leave(connection: Connection, ends: Sequence[End]) -> Brought:
    leave_letters(connection, ends)
    return Brought()


DEAD_LETTERS = Handler("dead_letters", _concerns, _leave)
