"""Promoter: the chore that queues delayed executions shortly before they are due."""

import time
from collections import defaultdict
from functools import partial

from app.queue.executions import on_hold
from app.queue.executions.promotion import promote
from app.queue.executions.watermark import LowWater
from app.scheduler.chore import ChoreContext, Counts, counts_so_far


class Promoter:
    """Reads each shard from where the last run ended."""

    def __init__(self, context: ChoreContext) -> None:
        self._context = context
        new_mark = partial(LowWater, sweep_seconds=context.full_scan_seconds)
        self._waiting: dict[int, LowWater] = defaultdict(new_mark)  # by shard

    def promote(self) -> Counts:
        """Queue every PENDING execution due within the look-ahead; hold back the retries of paused jobs."""
        counts = counts_so_far()
        for shard in range(self._context.served.count):
            self._context.until_short(partial(self._promote_batch, shard, counts))
        counts.update(held=on_hold.hold_retries(self._context.database))
        return counts

    def _promote_batch(self, shard: int, counts: Counts) -> int:
        mark = self._waiting[shard]
        done = promote(
            self._context.database,
            shard=shard,
            ahead_ms=self._context.ahead_ms,
            limit=self._context.batch,
            since=mark.since,
        )
        mark.advance(done.seen_up_to, time.monotonic())
        self._context.hint_all(done.queues)
        counts.update(promoted=done.queues.total())
        return done.queues.total()
