"""The chore that queues delayed executions shortly before they are due, and holds back the retries of paused jobs."""

from dataclasses import dataclass

from app.db import Database
from app.executions.paused import hold_retries
from app.executions.promotion import promote
from app.scheduler.chore import Hint, Stopping

BATCH = 500


@dataclass(frozen=True, slots=True)
class PromoteCounts:
    """What a run did."""

    promoted: int
    held: int


class Promote:
    """Goes through the shards, each until a batch comes back short."""

    name = "promote"

    def __init__(self, database: Database, *, shards: int, ahead_ms: int, hint: Hint, stopping: Stopping) -> None:
        self._database = database
        self._shards = shards
        self._ahead_ms = ahead_ms
        self._hint = hint
        self._stopping = stopping

    def run_once(self) -> PromoteCounts:
        """Queue every PENDING execution that is due within the look-ahead."""
        promoted = sum(self._promote(shard) for shard in range(self._shards))
        return PromoteCounts(promoted, hold_retries(self._database))

    def _promote(self, shard: int) -> int:
        total = 0
        while not self._stopping():
            promoted = promote(self._database, shard=shard, ahead_ms=self._ahead_ms, limit=BATCH)
            for queue in promoted:
                self._hint(queue)
            total += promoted.total()
            if promoted.total() < BATCH:
                break
        return total
