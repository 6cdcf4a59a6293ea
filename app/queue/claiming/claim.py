"""Claims: take the due executions of several partitions at once, and list the claims of a worker."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from app.kernel.db import Database
from app.kernel.sql import hot_statement
from app.queue.claiming.arms import MAX_ARMS, answer, arms, parameters, take
from app.queue.claiming.partition import ClaimRequest, Partition, PartitionQuota
from app.queue.executions.database_clock import DatabaseClock
from app.queue.executions.execution_model import Claim, ClaimKey


def _claim(count: int) -> str:
    return f"WITH {arms(count)},\n    claimed AS ({take('due')}){answer()}"


# By the number of arms, because an arm without a partition has a price too.
CLAIM_1 = hot_statement("executions.claim_1", _claim(1))
CLAIM_4 = hot_statement("executions.claim_4", _claim(4))
CLAIM_16 = hot_statement("executions.claim_16", _claim(MAX_ARMS))

CLAIMS_OF = hot_statement(
    "executions.claims_of",
    """
    SELECT execution_id, attempt_count, started_at FROM executions
     WHERE worker_id = :worker AND status = 'RUNNING' AND queue = :queue ORDER BY execution_id
    """,
)


class FoundRows(NamedTuple):
    """Executions that a claim has found in a partition, and the `run_at` up to which no more wait there."""

    rows: int
    seen: datetime


@dataclass(frozen=True, slots=True)
class ClaimAnswer:
    """Answer to a claim: the executions, in no order, and the rows found in each wanted partition.

    `now` is the database's clock. A partition in which fewer rows were found than wanted has no other due executions.
    """

    claims: list[Claim]
    now: datetime
    catalog_revision: int
    flow_revision: int
    found: dict[Partition, FoundRows] = field(default_factory=dict)

    @classmethod
    def of(
        cls, rows: Sequence[Any], wanted: Sequence[PartitionQuota], request: ClaimRequest, asked_at: float
    ) -> "ClaimAnswer":
        """Read the rows of an answer to a statement that was sent at `asked_at`."""
        first, last = rows[0], rows[-1]
        now: datetime = first.db_now
        clock = request.clock or DatabaseClock()
        claimed_here = clock.here(now, last.answered_at, asked_at=asked_at, answered_at=time.monotonic())
        claims, found = [], dict.fromkeys((partition for partition, _, _ in wanted), FoundRows(0, now))
        number = None
        for row in rows:
            if row.counted_arm is None:
                continue
            if row.counted_arm != number:
                number = row.counted_arm
                partition, quota, _ = wanted[number]
                found[partition] = FoundRows(row.found, row.seen if row.found >= quota else now)
            if row.execution_id is None:
                continue
            due_in = (row.run_at - now).total_seconds()
            claims.append(
                Claim(
                    key=ClaimKey(row.execution_id, row.attempt_count, now),
                    execution_id=row.execution_id,
                    job_id=row.job_id,
                    endpoint=partition.endpoint,
                    endpoint_version=row.endpoint_version,
                    endpoint_type=row.endpoint_type,
                    worker_id=request.worker_id,
                    attempt=row.attempt_count,
                    max_attempts=row.max_attempts,
                    config_revision=row.config_revision,
                    scheduled_at=row.scheduled_at,
                    claimed_at=now,
                    due_at=row.run_at,
                    expires_at=row.expires_at,
                    due_in_seconds=due_in,
                    late_seconds=max(0.0, -due_in),
                    claimed_here=claimed_here,
                    input=row.input,
                    trace_context=row.trace_context,
                    followed=row.followed or 0,
                    queue=request.queue,
                    shard=partition.shard,
                    limit_key=partition.limit_key,
                    priority=partition.priority,
                )
            )
        return cls(claims, now, first.revision or 0, first.flow_revision or 0, found)


def claim(database: Database, wanted: Sequence[PartitionQuota], request: ClaimRequest) -> ClaimAnswer:
    """Claim from up to MAX_ARMS partitions in one statement.

    After an UnavailableError the database may have claimed nevertheless: see `claims_of`.
    """
    few = len(wanted)
    count, statement = (1, CLAIM_1) if few == 1 else (4, CLAIM_4) if few <= 4 else (MAX_ARMS, CLAIM_16)
    params, asked_at = parameters(wanted, count, request), time.monotonic()
    return ClaimAnswer.of(database.fetch(statement, params, repeatable=False), wanted, request, asked_at)


def claims_of(database: Database, worker_id: str, queue: str) -> set[ClaimKey]:
    """Return the claims that a worker has on a queue, according to the database."""
    rows = database.fetch(CLAIMS_OF, {"worker": worker_id, "queue": queue})
    return {ClaimKey(row.execution_id, row.attempt_count, row.started_at) for row in rows}
