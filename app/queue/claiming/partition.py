"""Partition: the claimable executions of a queue that share shard, endpoint, limit key and priority."""

from datetime import datetime
from typing import NamedTuple

from app.queue.executions.database_clock import DatabaseClock

ANY_RULES = 2**62  # a revision newer than all endpoint rules


class Partition(NamedTuple):
    """One prefix of the claim's index, in the order of `run_at`."""

    shard: int
    endpoint: str
    limit_key: str
    priority: int


class PartitionQuota(NamedTuple):
    """A partition from which to claim up to `quota` executions; none of them is due before `since`."""

    partition: Partition
    quota: int
    since: datetime


class ClaimRequest(NamedTuple):
    """The common part of all statements of one claim.

    Executions that are due within `ahead_ms` are claimed, but none if the endpoint rules are newer than
    `flow_revision`. The `clock` has learned from earlier claims.
    """

    queue: str
    worker_id: str
    ahead_ms: int
    flow_revision: int = ANY_RULES
    clock: DatabaseClock | None = None
