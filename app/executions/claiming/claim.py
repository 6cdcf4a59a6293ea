"""Claims: take due executions, and list what a worker has claimed."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from app.db import Database
from app.executions.claiming.arms import ANSWER, COUNTED, MOST_ARMS, arms, parameters, take
from app.executions.claiming.lane import Wanted
from app.executions.claiming.taken import Taken
from app.executions.database_clock import DatabaseClock
from app.executions.model import Claim, ClaimKey
from app.formats import EPOCH
from app.sql import hot_statement, statement

# The lock is a hint; the UPDATE repeats the whole condition and is the guarantee. COALESCE hides that condition from
# the choice of an index, here and in others that know the keys of their rows: by statistics from before a burst,
# an index of what waits or runs holds next to nothing, and each claim would read all of it for its few rows.
# The claimer's own lease is part of the condition, so a worker that was declared dead claims nothing. The answer always
# has one row or more: it also tells when the next execution of this queue is due and which catalogue revision the
# secrets must be as new as. The configs of an execution are those of its first claim: the revision of that moment stays
# with it.
# A read begins at the low-water mark of the shard (app.executions.low_water) and says how far it has seen everything.
# Its order, by run_at, is also that of the index idx_executions_pickup, of `next_run_at` below, of a batch that is
# handed out (brokers.consumer), and of what the explanation of an execution calls ahead of it.
CLAIM = hot_statement(
    "executions.claim",
    """
    WITH due AS MATERIALIZED (
      SELECT execution_id, run_at FROM executions
       WHERE queue = :queue AND shard = :shard AND status IN ('QUEUED', 'RETRYING')
         AND run_at >= CAST(:since AS TIMESTAMPTZ)
         AND run_at <= now() + CAST(:ahead_ms AS BIGINT) * INTERVAL '1 millisecond'
         AND attempt_count < max_attempts
       ORDER BY run_at, execution_id LIMIT :limit FOR UPDATE SKIP LOCKED),
    claimed AS (
      UPDATE executions AS e
         SET status = 'RUNNING', worker_id = :worker, started_at = now(), attempt_count = e.attempt_count + 1,
             config_revision = CASE WHEN e.attempt_count = 0 OR e.config_revision IS NULL
                                    THEN COALESCE((SELECT revision FROM catalog_revision WHERE id = 'catalog'), 0)
                                    ELSE e.config_revision END
        FROM due, jobs AS j
       WHERE e.execution_id = due.execution_id AND j.job_id = e.job_id
         AND COALESCE(e.status IN ('QUEUED', 'RETRYING') AND e.attempt_count < e.max_attempts
                      AND e.run_at <= now() + CAST(:ahead_ms AS BIGINT) * INTERVAL '1 millisecond', false)
         AND EXISTS (SELECT 1 FROM workers AS w
                      WHERE w.worker_id = :worker AND w.status = 'ALIVE' AND w.lease_expires_at > now())
      RETURNING e.execution_id, e.job_id, e.endpoint, e.endpoint_version, e.endpoint_type, e.attempt_count,
                e.max_attempts, e.config_revision, e.scheduled_at, e.run_at, j.input)
    SELECT now() AS db_now, clock_timestamp() AS answered_at,
           (SELECT revision FROM catalog_revision WHERE id = 'catalog') AS revision,
           (SELECT f.run_at FROM executions AS f
             WHERE f.queue = :queue AND f.shard = :shard AND f.status IN ('QUEUED', 'RETRYING')
               AND f.run_at > now() + CAST(:ahead_ms AS BIGINT) * INTERVAL '1 millisecond'
             ORDER BY f.run_at, f.execution_id LIMIT 1) AS next_run_at,
           (SELECT CASE WHEN count(*) < CAST(:limit AS BIGINT) THEN now() ELSE max(due.run_at) END
              FROM due) AS seen_up_to,
           claimed.*
      FROM (SELECT 1 AS one) AS always LEFT JOIN claimed ON true
    """,
)


# The answer always has one row or more. It does not say when something is due next: looks tell.
def _claim_of_lanes(count: int) -> str:
    return f"""
    WITH {arms(count)},
    claimed AS ({take("due")})
    {ANSWER}
      FROM (SELECT 1 AS one) AS always
      LEFT JOIN {COUNTED} ON true
      LEFT JOIN claimed ON claimed.lane = counted.lane
    """


# By their numbers of arms: one that takes nothing costs a little all the same.
CLAIM_1 = hot_statement("executions.claim_1", _claim_of_lanes(1))
CLAIM_4 = hot_statement("executions.claim_4", _claim_of_lanes(4))
CLAIM_16 = hot_statement("executions.claim_16", _claim_of_lanes(MOST_ARMS))

CLAIMS_OF = statement(
    "executions.claims_of",
    """
    SELECT execution_id, attempt_count, started_at FROM executions
     WHERE worker_id = :worker AND status = 'RUNNING' AND queue = :queue ORDER BY execution_id
    """,
)


@dataclass(frozen=True, slots=True)
class Claimed:
    """The answer to a claim: the executions in no order, the catalogue revision, and how soon after it the next is due.

    Nothing that could be claimed is left between where the claim began and `seen_up_to`.
    """

    claims: list[Claim]
    catalog_revision: int
    next_due_in_seconds: float | None
    seen_up_to: datetime


def claim_batch(
    database: Database,
    *,
    queue: str,
    shard: int,
    worker_id: str,
    limit: int,
    ahead_ms: int,
    since: datetime = EPOCH,
    clock: DatabaseClock | None = None,
) -> Claimed:
    """Claim up to `limit` executions due from `since` on and within `ahead_ms`, in one statement.

    The `clock` knows from earlier claims better when this one began.
    When it raises UnavailableError the database may have claimed all the same: see `claims_of`.
    """
    params = {
        "queue": queue,
        "shard": shard,
        "worker": worker_id,
        "limit": limit,
        "ahead_ms": ahead_ms,
        "since": since,
    }
    asked_at = time.monotonic()
    rows = database.fetch(CLAIM, params, repeatable=False)
    first, last = rows[0], rows[-1]
    claimed_here = (clock or DatabaseClock()).here(
        first.db_now, last.answered_at, asked_at=asked_at, answered_at=time.monotonic()
    )
    claims = [_claim(row, worker_id, claimed_here) for row in rows if row.execution_id is not None]
    next_due_in = None if first.next_run_at is None else (first.next_run_at - last.answered_at).total_seconds()
    return Claimed(claims, first.revision or 0, next_due_in, first.seen_up_to)


def _claim(row: Row[Any], worker_id: str, claimed_here: float) -> Claim:
    return Claim(
        key=ClaimKey(row.execution_id, row.attempt_count, row.db_now),
        execution_id=row.execution_id,
        job_id=row.job_id,
        endpoint=row.endpoint,
        endpoint_version=row.endpoint_version,
        endpoint_type=row.endpoint_type,
        worker_id=worker_id,
        attempt=row.attempt_count,
        max_attempts=row.max_attempts,
        config_revision=row.config_revision,
        scheduled_at=row.scheduled_at,
        claimed_at=row.db_now,
        due_in_seconds=(row.run_at - row.db_now).total_seconds(),
        claimed_here=claimed_here,
        input=row.input,
    )


def claim(
    database: Database,
    *,
    queue: str,
    worker_id: str,
    wanted: Sequence[Wanted],
    ahead_ms: int,
    clock: DatabaseClock | None = None,
) -> Taken:
    """Claim what is due within `ahead_ms` in up to MOST_ARMS lanes, in one statement.

    The `clock` knows from earlier claims better when this one began.
    When it raises UnavailableError the database may have claimed all the same: see `claims_of`.
    """
    few = len(wanted)
    count, statement = (1, CLAIM_1) if few == 1 else (4, CLAIM_4) if few <= 4 else (MOST_ARMS, CLAIM_16)
    params = parameters(wanted, count)
    params.update(queue=queue, worker=worker_id, ahead_ms=ahead_ms)
    asked_at = time.monotonic()
    rows = database.fetch(statement, params, repeatable=False)
    return Taken.of(rows, wanted, queue=queue, worker_id=worker_id, asked_at=asked_at, clock=clock)


def claims_of(database: Database, worker_id: str, queue: str) -> set[ClaimKey]:
    """Return the claims that a worker has on a queue, according to the database."""
    rows = database.fetch(CLAIMS_OF, {"worker": worker_id, "queue": queue})
    return {ClaimKey(row.execution_id, row.attempt_count, row.started_at) for row in rows}
