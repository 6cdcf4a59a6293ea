"""Executions that schedulers took back from lost workers, by worker."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from app.features.control.store import ListedWorker, WorkerState
from app.kernel.db import Database, chunked_scan
from app.kernel.formats import array_literal
from app.kernel.sql import statement
from app.queue.executions.reclaim_candidates import LossReason
from schema.tables.executions import IS_UNCERTAIN

MAX_READ = 5_000  # uncertain attempts, the latest

# A lost attempt may have been delivered, so idx_attempts_uncertain has it; its order bounds the read.
RECLAIMED = statement(
    "stats.reclaimed",
    """
    WITH uncertain AS MATERIALIZED (
      SELECT worker_id, error ->> 'type' AS error_type, created_at FROM attempts
       WHERE {uncertain} AND created_at >= CAST(:since AS TIMESTAMPTZ)
       ORDER BY created_at DESC, attempt_id DESC LIMIT :most)
    SELECT worker_id, count(*) AS attempts, max(created_at) AS at FROM uncertain
     WHERE error_type = :reason AND worker_id = ANY (CAST(:workers AS TEXT[])) GROUP BY worker_id
    UNION ALL
    SELECT CAST(NULL AS TEXT), count(*), min(created_at) FROM uncertain
    """,
    uncertain=IS_UNCERTAIN,
)


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """Number of executions that were taken back from a worker, and the instant of the last."""

    executions: int
    last_at: datetime | None


def reclaimed_from(database: Database, workers: Collection[ListedWorker], most: int = MAX_READ) -> dict[str, Reclaimed]:
    """Count the executions that were taken back from each lost worker.

    A worker that was lost before the latest `most` uncertain attempts is left out.
    """
    ends = {each.worker_id: each.lease_expires_at for each in workers if each.state is WorkerState.LOST}
    if not ends:
        return {}
    params = {"since": min(ends.values()), "workers": array_literal(ends), "reason": LossReason.WORKER_LOST.name}
    rows = {row.worker_id: row for row in chunked_scan.in_order(database, RECLAIMED, {**params, "most": most})}
    read = rows.pop(None)
    counts = {worker: Reclaimed(row.attempts, row.at) for worker, row in rows.items()}
    reached = None if read.attempts < most else read.at
    return {
        worker: counts.get(worker, Reclaimed(0, None))
        for worker, end in ends.items()
        if reached is None or reached <= end
    }
