"""Leases of worker processes: one row each, by the database's clock."""

import json
from collections.abc import Collection, Sequence

from app.kernel.db import Database
from app.kernel.sql import statement

REGISTER = statement(
    "workers.register",
    """
    INSERT INTO workers (worker_id, host, pid, queues, capacity, lease_expires_at)
    VALUES (:worker, :host, CAST(:pid AS BIGINT), CAST(:queues AS JSONB), CAST(:capacity AS BIGINT),
            now() + CAST(:lease_ms AS BIGINT) * INTERVAL '1 millisecond')
    ON CONFLICT (worker_id) DO UPDATE SET lease_expires_at = excluded.lease_expires_at
    """,
)

# An expired lease is not renewed: reclaim may have taken the rows already.
RENEW = statement(
    "workers.renew",
    """
    UPDATE workers
       SET last_beat_at = now(), in_flight = CAST(:in_flight AS BIGINT),
           lease_expires_at = now() + CAST(:lease_ms AS BIGINT) * INTERVAL '1 millisecond'
     WHERE worker_id = :worker AND status = 'ALIVE' AND lease_expires_at > now()
    RETURNING worker_id
    """,
)

SERVE = statement(
    "workers.serve",
    "UPDATE workers SET queues = CAST(:queues AS JSONB) WHERE worker_id = :worker RETURNING worker_id",
)

LEAVE = statement(
    "workers.leave",
    """
    UPDATE workers SET status = 'DEAD', last_beat_at = now(), lease_expires_at = now(), in_flight = 0
     WHERE worker_id = :worker RETURNING worker_id
    """,
)


def register(
    database: Database, *, worker_id: str, host: str, pid: int, queues: Sequence[str], capacity: int, lease_ms: int
) -> None:
    """Insert the row of a starting worker process, whose id is new at each start."""
    params = {"worker": worker_id, "host": host, "pid": pid, "queues": json.dumps(sorted(queues))}
    database.fetch(REGISTER, params | {"capacity": capacity, "lease_ms": lease_ms})


def renew(database: Database, *, worker_id: str, in_flight: int, lease_ms: int) -> bool:
    """Renew the lease; False means that it is lost for good."""
    return bool(database.fetch(RENEW, {"worker": worker_id, "in_flight": in_flight, "lease_ms": lease_ms}))


def serve(database: Database, worker_id: str, queues: Collection[str]) -> None:
    """Write the queues that a worker process serves now; this does not renew the lease."""
    database.fetch(SERVE, {"worker": worker_id, "queues": json.dumps(sorted(queues))})


def leave(database: Database, worker_id: str) -> None:
    """Write the last heartbeat, DEAD, so that the next reclaim takes all executions that are still RUNNING."""
    database.fetch(LEAVE, {"worker": worker_id})
