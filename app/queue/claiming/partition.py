"""Partition: the claimable executions of a queue that share shard, endpoint, limit key and priority."""

from datetime import datetime
from typing import NamedTuple


class Partition(NamedTuple):
    """One prefix of the claim's index, in the order of `run_at`."""

    shard: int
    endpoint: str
    limit_key: str
    priority: int


class Wanted(NamedTuple):
    """A partition from which up to `quota` executions are to be claimed; nothing of it waits before `since`."""

    partition: Partition
    quota: int
    since: datetime
