"""Executions that schedulers took back from lost workers, by worker."""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

from app.features.control.store import ListedWorker, WorkerState
from app.kernel.db import Database, chunked_scan
from app.kernel.formats import array_literal
from app.kernel.sql import statement
from app.queue.executions.reclaim_candidates import LossReason
from schema.tables.executions import IS_UNCERTAIN

MAX_READ = 1_000  # uncertain attempts, from the end of a lease on

# A lost attempt may have been delivered, so idx_attempts_uncertain has it, unless its retry policy ignores the loss.
# Schedulers take executions back soon after the end of the lease, so these attempts come first in the order of time.
RECLAIMED = statement(
    "stats.reclaimed",
    """
    WITH uncertain AS MATERIALIZED (
      SELECT worker_id, error ->> 'type' AS error_type, created_at FROM attempts
       WHERE {uncertain} AND created_at >= CAST(:since AS TIMESTAMPTZ)
       ORDER BY created_at, attempt_id LIMIT :most)
    SELECT w.worker_id, count(*) AS attempts, max(u.created_at) AS at
      FROM unnest(CAST(:workers AS TEXT[]), CAST(:ends AS TIMESTAMPTZ[])) AS w (worker_id, lease_ended_at)
      JOIN uncertain AS u ON u.worker_id = w.worker_id AND u.created_at >= w.lease_ended_at
     WHERE u.error_type = :reason GROUP BY w.worker_id
    UNION ALL
    SELECT CAST(NULL AS TEXT), count(*), max(created_at) FROM uncertain
    """,
    uncertain=IS_UNCERTAIN,
)


class Reclaimed(NamedTuple):
    """Number of executions that were taken back from a worker, and the instant of the last."""

    executions: int
    last_at: datetime | None


def reclaimed_from(database: Database, workers: Collection[ListedWorker], most: int = MAX_READ) -> dict[str, Reclaimed]:
    """Count the executions that were taken back from each lost worker, among the attempts that are read.

    `most` uncertain attempts are read, from the first lost lease on. A worker that was lost behind them is left out.
    """
    ends = {each.worker_id: each.lease_expires_at for each in workers if each.state is WorkerState.LOST}
    if not ends:
        return {}
    params = {
        "since": min(ends.values()),
        "most": most,
        "workers": array_literal(ends),
        "ends": array_literal(ends.values()),
        "reason": LossReason.WORKER_LOST.name,
    }
    rows = {row.worker_id: row for row in chunked_scan.in_order(database, RECLAIMED, params)}
    read = rows.pop(None)
    counts = {worker: Reclaimed(row.attempts, row.at) for worker, row in rows.items()}
    reached = None if read.attempts < most else read.at
    return {
        worker: counts.get(worker, Reclaimed(0, None))
        for worker, end in ends.items()
        if reached is None or end < reached
    }
