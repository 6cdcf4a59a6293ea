"""Pauses of queues: nothing of a paused queue is claimed, and what waits in it keeps its place.

Workers know the paused queues as they know the rules of endpoints: by the revision of the flow, which each claim tells
and the database compares. So once a pause is committed, the next claim of whoever does not know of it takes nothing.
"""

from datetime import datetime

from sqlalchemy import Connection

from app.catalog import revision
from app.kernel import audit
from app.kernel.audit import Action, ResourceType
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
    """Let nothing be claimed from a queue until it is resumed; of one that is paused already nothing changes."""

    def body(connection: Connection) -> None:
        if connection.execute(PAUSE, {"queue": queue, "paused_by": change.by.name}).first() is not None:
            _note(connection, queue, change, paused=True)

    change.make(database, body, again=lambda _: None)


def resume(database: Database, queue: str, change: AuditedChange) -> None:
    """Let workers claim from a queue again; of one that is not paused nothing changes."""

    def body(connection: Connection) -> None:
        if connection.execute(RESUME, {"queue": queue}).first() is not None:
            _note(connection, queue, change, paused=False)

    change.make(database, body, again=lambda _: None)


def paused(database: Database) -> dict[str, datetime]:
    """Return the queues that are paused, in the order of their names, and since when."""
    return {row.queue: row.paused_at for row in database.fetch(PAUSED)}


def _note(connection: Connection, queue: str, change: AuditedChange, *, paused: bool) -> None:
    revision.bump(connection, revision.FLOW)
    audit.record(
        connection,
        change.audit_id,
        by=change.by,
        action=Action.FLOW,
        resource_type=ResourceType.QUEUE,
        resource=queue,
        before={"paused": not paused},
        after={"paused": paused},
    )
