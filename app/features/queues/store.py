"""Pauses of queues: nothing is claimed from a paused queue, and its executions keep their order.

Workers read paused queues together with the rules of endpoints. Each claim carries the revision of the rules that its
worker has read, and the database compares it: after a pause, a claim with an older revision takes nothing.
"""

from datetime import datetime

from sqlalchemy import Connection

from app.catalog import revision
from app.kernel import audit
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
PAUSED = statement("queues.paused", "SELECT queue, paused_at FROM paused_queues ORDER BY queue")


def pause(database: Database, queue: str, change: AuditedChange) -> None:
    """Pause a queue; a paused queue does not change."""

    def body(connection: Connection) -> None:
        if connection.execute(PAUSE, {"queue": queue, "paused_by": change.by.name}).first() is not None:
            _note(connection, queue, change, paused=True)

    change.make(database, body)


def resume(database: Database, queue: str, change: AuditedChange) -> None:
    """Resume a queue; a queue that is not paused does not change."""

    def body(connection: Connection) -> None:
        if connection.execute(RESUME, {"queue": queue}).first() is not None:
            _note(connection, queue, change, paused=False)

    change.make(database, body)


def paused(database: Database) -> dict[str, datetime]:
    """Return the paused queues by name, with the start of each pause."""
    return {row.queue: row.paused_at for row in database.fetch(PAUSED)}


def _note(connection: Connection, queue: str, change: AuditedChange, *, paused: bool) -> None:
    revision.bump(connection, revision.FLOW)
    audit.record(
        connection,
        change.audit_id,
        by=change.by,
        action=AuditAction.FLOW,
        resource_type=ResourceType.QUEUE,
        resource=queue,
        before={"paused": not paused},
        after={"paused": paused},
    )
