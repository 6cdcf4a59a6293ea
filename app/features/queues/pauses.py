"""Pauses of queues.

Nothing is claimed from a paused queue, and its executions keep their order. Workers read paused queues together with
the rules of endpoints. Each claim carries the revision of the rules that its worker has read, and the database compares
it: after a pause, a claim with an older revision takes nothing.
"""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection

from app.catalog import revision
from app.kernel.audit import AuditAction, ResourceType
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from app.kernel.sql import statement

PAUSE = statement(
    "queues.pause",
    """
    INSERT INTO paused_queues (queue, paused_by) VALUES (:queue, :paused_by)
    ON CONFLICT (queue) DO NOTHING RETURNING queue
    """,
)
RESUME = statement("queues.resume", "DELETE FROM paused_queues WHERE queue = :queue RETURNING queue")
PAUSED = statement("queues.paused", "SELECT queue, paused_at, paused_by FROM paused_queues ORDER BY queue")


class Pause(NamedTuple):
    """Pause of a queue: its start, and the name of its author."""

    at: datetime
    by: str


def paused(database: Database) -> dict[str, Pause]:
    """Return the pauses by queue."""
    return {row.queue: Pause(row.paused_at, row.paused_by) for row in database.fetch(PAUSED)}


def set_paused(database: Database, queue: str, change: AuditedChange, *, is_paused: bool) -> Pause | None:
    """Pause or resume a queue, unless it is in that state already; returns its pause."""

    def body(connection: Connection) -> None:
        query = PAUSE if is_paused else RESUME
        if connection.execute(query, {"queue": queue, "paused_by": change.by.name}).first() is None:
            return
        revision.bump(connection, revision.FLOW)
        change.record(
            connection,
            AuditAction.FLOW,
            ResourceType.QUEUE,
            queue,
            before={"paused": not is_paused},
            after={"paused": is_paused},
        )

    change.make(database, body)
    return paused(database).get(queue)
