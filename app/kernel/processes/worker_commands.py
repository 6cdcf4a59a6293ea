"""Commands to worker processes: one heartbeat reads a command and the next acknowledges it; else the command expires.

The thread `te-health` does both, so neither leases nor claims wait for a command.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any

from sqlalchemy import Connection

from app.kernel import ids
from app.kernel.audit import AuditAction, ResourceType
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from app.kernel.db.deletion import deletion
from app.kernel.errors import WorkerNotAliveError, WorkerNotFoundError
from app.kernel.sql import statement

EXPIRES_SECONDS = 60
MAX_SHOWN = 20  # newest commands of a worker

# Condition on a row of `workers` called w: the worker has acknowledged a command to drain.
IS_DRAINING = """EXISTS (SELECT 1 FROM worker_commands AS d
                   WHERE d.worker_id = w.worker_id AND d.command = 'drain' AND d.acknowledged_at IS NOT NULL)"""
_IS_ALIVE = "w.status = 'ALIVE' AND w.lease_expires_at > now()"
# An expired lease is never renewed, so a command that expired with its worker stays expired.
LATEST = statement(
    "commands.latest",
    """
    SELECT c.command_id, c.worker_id, c.command, c.asked_by, c.asked_at, c.expires_at, c.acknowledged_at,
           CASE WHEN c.acknowledged_at IS NOT NULL THEN 'ACKNOWLEDGED'
                WHEN c.expires_at > now()
                 AND EXISTS (SELECT 1 FROM workers AS w WHERE w.worker_id = c.worker_id AND {is_alive}) THEN 'PENDING'
                ELSE 'EXPIRED' END AS state
      FROM worker_commands AS c WHERE c.worker_id = :worker
     ORDER BY c.asked_at DESC, c.command_id DESC LIMIT :most
    """,
    is_alive=_IS_ALIVE,
)
# No lock: the renewal of the lease updates this row and must not wait for a request.
ADDRESSEE = statement(
    "commands.addressee",
    "SELECT {is_alive} AS is_alive FROM workers AS w WHERE w.worker_id = :worker",
    is_alive=_IS_ALIVE,
)
ASK = statement(
    "commands.ask",
    """
    INSERT INTO worker_commands (command_id, worker_id, command, asked_by, expires_at)
    VALUES (:command_id, :worker, :command, :asked_by,
            now() + CAST(:seconds AS BIGINT) * INTERVAL '1 second')
    """,
)
PENDING = statement(
    "commands.pending",
    """
    SELECT command_id, command FROM worker_commands
     WHERE worker_id = :worker AND acknowledged_at IS NULL AND expires_at > now()
     ORDER BY asked_at, command_id
    """,
)
# An executed command is acknowledged even if it has expired.
ACKNOWLEDGE = statement(
    "commands.acknowledge",
    """
    UPDATE worker_commands SET acknowledged_at = now()
     WHERE worker_id = :worker AND command_id = ANY (CAST(:ids AS TEXT[])) AND acknowledged_at IS NULL
    RETURNING command_id
    """,
)
# An acknowledged command stays as long as its worker is shown: it distinguishes a drained worker from a dead worker.
PRUNE = deletion(
    "commands.prune",
    "worker_commands",
    ["command_id"],
    """asked_at < now() - INTERVAL '1 day'
       AND (acknowledged_at IS NULL
            OR NOT EXISTS (SELECT 1 FROM workers AS w WHERE w.worker_id = worker_commands.worker_id))""",
)


class CommandKind(StrEnum):
    """Command to a worker process. DRAIN: claim nothing more, finish the executions in progress, and end."""

    DRAIN = "drain"


class CommandState(StrEnum):
    """State of a command; EXPIRED: its worker died, or did not acknowledge it in time."""

    PENDING = "PENDING"
    ACKNOWLEDGED = "ACKNOWLEDGED"
    EXPIRED = "EXPIRED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command to a worker process; a later release may have sent one of an unknown kind."""

    command_id: str
    worker_id: str
    command: str
    state: CommandState
    asked_by: str
    asked_at: datetime
    expires_at: datetime
    acknowledged_at: datetime | None


def ask(database: Database, worker_id: str, kind: CommandKind, change: AuditedChange) -> Command:
    """Send a command to a worker, unless the same command is pending or acknowledged.

    Raises WorkerNotFoundError or WorkerNotAliveError.
    """
    command_id = ids.command_id()

    def body(connection: Connection) -> Command:
        addressee = connection.execute(ADDRESSEE, {"worker": worker_id}).first()
        if addressee is None:
            raise WorkerNotFoundError.of(worker_id)
        if not addressee.is_alive:
            raise WorkerNotAliveError(
                f"The worker {worker_id!r} has ended or is lost: it claims nothing, and its executions are taken back. "
                "GET /workers?state=ALIVE lists the live workers."
            )
        for sent in _latest(connection, worker_id):
            if sent.command == kind and sent.state is not CommandState.EXPIRED:
                return sent
        params = {"command_id": command_id, "worker": worker_id, "command": kind, "asked_by": change.by.name}
        connection.execute(ASK, params | {"seconds": EXPIRES_SECONDS})
        change.record(connection, AuditAction(kind), ResourceType.WORKER, worker_id, after={"command_id": command_id})
        return again(connection)

    def again(connection: Connection) -> Command:
        return next(sent for sent in _latest(connection, worker_id) if sent.command_id == command_id)

    return change.make(database, body, again)


def latest(database: Database, worker_id: str) -> list[Command]:
    """Read the last MAX_SHOWN commands to a worker, newest first."""
    return database.transact(partial(_latest, worker_id=worker_id))


def pending(database: Database, worker_id: str) -> Sequence[Any]:
    """Read the pending commands to a worker; each row has `command_id` and `command`."""
    return database.fetch(PENDING, {"worker": worker_id})


def acknowledge(database: Database, worker_id: str, command_ids: Sequence[str]) -> None:
    """Write that commands were executed; waits for locks for 100 ms at most."""
    database.fetch_unless_locked(ACKNOWLEDGE, {"worker": worker_id, "ids": list(command_ids)})


def _latest(connection: Connection, worker_id: str) -> list[Command]:
    rows = connection.execute(LATEST, {"worker": worker_id, "most": MAX_SHOWN}).all()
    return [Command(**row._asdict() | {"state": CommandState(row.state)}) for row in rows]
