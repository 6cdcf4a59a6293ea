"""Holders of an execution: ends of the leases of workers that held it, and results that came after a lease was lost."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from app.kernel.db import Database
from app.kernel.formats import array_literal
from app.kernel.sql import statement
from app.queue.ending.execution_events import ChangeReason

MAX_REFUSED = 100  # refused results, the latest

HOLDERS = statement(
    "executions.holders",
    """
    (SELECT 'lease' AS kind, worker_id AS holder, CAST(NULL AS BIGINT) AS attempt, lease_expires_at AS at FROM workers
      WHERE worker_id = ANY (CAST(:workers AS TEXT[])))
    UNION ALL
    (SELECT 'refused', actor, attempt_number, occurred_at FROM execution_events
      WHERE execution_id = :execution_id AND reason = :refused
      ORDER BY occurred_at DESC, event_id DESC LIMIT :most)
    """,
)


@dataclass(frozen=True, slots=True)
class Holders:
    """Ends of leases by worker, and instants of refused results by attempt.

    The lease of a live worker ends unless its next heartbeat renews it; the row of a worker is kept for a day.
    """

    leases: Mapping[str, datetime] = field(default_factory=dict)
    refused: Mapping[int, datetime] = field(default_factory=dict)


def holders_of(database: Database, execution_id: str, workers: Collection[str]) -> Holders:
    """Read the leases of workers, and the refused results of an execution."""
    params = {"workers": array_literal(sorted(workers)), "execution_id": execution_id}
    rows = database.fetch(HOLDERS, params | {"refused": ChangeReason.STALE_RESULT.value, "most": MAX_REFUSED})
    return Holders(
        {row.holder: row.at for row in rows if row.kind == "lease"},
        {row.attempt: row.at for row in rows if row.kind == "refused"},
    )
