"""Taken: the answer to a claim as a value."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from app.queue.claiming.partition import Partition, Wanted
from app.queue.executions.database_clock import DatabaseClock
from app.queue.executions.execution_model import Claim, ClaimKey


class Found(NamedTuple):
    """How many executions of a partition a claim has found, and up to which `run_at` nothing else waits in it."""

    rows: int
    seen: datetime


@dataclass(frozen=True, slots=True)
class Taken:
    """The answer to a claim: the executions, in no order, and what it tells of each partition that was wanted.

    `now` is the database's clock. A partition of which fewer were found than wanted has nothing left that is due.
    """

    claims: list[Claim]
    now: datetime
    catalog_revision: int
    flow_revision: int
    found: dict[Partition, Found] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        rows: Sequence[Any],
        wanted: Sequence[Wanted],
        *,
        queue: str,
        worker_id: str,
        asked_at: float,
        clock: DatabaseClock | None = None,
    ) -> "Taken":
        """Read the rows of an answer (app.queue.claiming.arms) to a question that was asked at `asked_at`."""
        first, last = rows[0], rows[-1]
        now: datetime = first.db_now
        claimed_here = (clock or DatabaseClock()).here(
            now, last.answered_at, asked_at=asked_at, answered_at=time.monotonic()
        )
        claims, found = [], dict.fromkeys((partition for partition, _, _ in wanted), Found(0, now))
        number = None
        for row in rows:
            if row.counted_arm is None:
                continue
            if row.counted_arm != number:
                number = row.counted_arm
                partition, quota, _ = wanted[number]
                found[partition] = Found(row.found, row.seen if row.found >= quota else now)
            if row.execution_id is not None:
                claims.append(_claim(row, partition, queue, worker_id, claimed_here))
        return cls(claims, now, first.revision or 0, first.flow_revision or 0, found)


def _claim(row: Any, partition: Partition, queue: str, worker_id: str, claimed_here: float) -> Claim:
    due_in = (row.run_at - row.db_now).total_seconds()
    return Claim(
        key=ClaimKey(row.execution_id, row.attempt_count, row.db_now),
        execution_id=row.execution_id,
        job_id=row.job_id,
        endpoint=partition.endpoint,
        endpoint_version=row.endpoint_version,
        endpoint_type=row.endpoint_type,
        worker_id=worker_id,
        attempt=row.attempt_count,
        max_attempts=row.max_attempts,
        config_revision=row.config_revision,
        scheduled_at=row.scheduled_at,
        claimed_at=row.db_now,
        expires_at=row.expires_at,
        due_in_seconds=due_in,
        late_seconds=max(0.0, -due_in),
        claimed_here=claimed_here,
        input=row.input,
        trace_context=row.trace_context,
        followed=row.followed or 0,
        queue=queue,
        shard=partition.shard,
        limit_key=partition.limit_key,
        priority=partition.priority,
    )
