"""Rows of the processes of users that run actors: written by the worker that a process is connected to.

A row is written when a process connects, changes its actors or queues, or leaves; nothing renews it. The lease of the
worker says whether the connection still exists.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.kernel.db import Database
from app.kernel.db.deletion import deletion
from app.kernel.sql import statement

# A process that was gone has connected anew.
CONNECTED = statement(
    "actor_processes.connected",
    """
    INSERT INTO actor_processes (worker_id, session_id, host, pid, threads, endpoints, refused)
    VALUES (:worker, :session, :host, :pid, :threads, CAST(:endpoints AS JSONB), CAST(:refused AS JSONB))
    ON CONFLICT (worker_id, session_id) DO UPDATE
       SET threads = excluded.threads, endpoints = excluded.endpoints, refused = excluded.refused, left_at = NULL,
           connected_at = CASE WHEN actor_processes.left_at IS NULL THEN actor_processes.connected_at ELSE now() END
    RETURNING session_id
    """,
)
LEFT = statement(
    "actor_processes.left",
    """
    UPDATE actor_processes SET left_at = now()
     WHERE worker_id = :worker AND session_id = :session AND left_at IS NULL
    RETURNING session_id
    """,
)
# A worker may listen shortly before its own row exists.
PRUNE = deletion(
    "actor_processes.prune",
    "actor_processes",
    ["worker_id", "session_id"],
    """(left_at < now() - INTERVAL '1 day'
        OR (connected_at < now() - INTERVAL '1 hour'
            AND NOT EXISTS (SELECT 1 FROM workers AS w WHERE w.worker_id = actor_processes.worker_id)))""",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorProcess:
    """A process at one worker: `endpoints` of the actors that it runs; `pid` is None where the system reports none.

    `refused` has reasons by the endpoint of each actor that it has, but may not run.
    """

    session_id: str
    host: str
    pid: int | None
    threads: int
    endpoints: tuple[str, ...]
    is_connected: bool
    refused: Mapping[str, str] = field(default_factory=dict)


def write(database: Database, worker_id: str, process: ActorProcess) -> None:
    """Write that a process is connected, with its present actors, or that it has left."""
    key = {"worker": worker_id, "session": process.session_id}
    if not process.is_connected:
        database.fetch(LEFT, key)
        return
    about = {"host": process.host, "pid": process.pid, "threads": process.threads}
    actors = {"endpoints": json.dumps(process.endpoints), "refused": json.dumps(process.refused)}
    database.fetch(CONNECTED, {**key, **about, **actors})
