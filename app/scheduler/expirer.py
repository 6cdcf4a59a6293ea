"""Expirer: ends what has waited for longer than its retry policy's `max_age_ms`, at endpoints that make things wait."""

import time
from collections.abc import Callable, Sequence
from datetime import datetime

from app.db import Database
from app.executions import expiry
from app.executions.claiming.lane import Lane
from app.executions.claiming.queues import claimable_queues
from app.formats import EPOCH
from app.scheduler.chore import BATCH, Counts, Stopping

MOST_QUEUES = 1_000
WHOLE_SECONDS = 300.0  # after which each lane is read from its beginning again


class Expirer:
    """The chore that ends what waits for too long; `shards` returns how many there are.

    What was allowed to be older stays allowed, so a lane is read on from where the last run came to, apart for each age
    that versions of its endpoint allow. What was claimed meanwhile, and given back to its old place, is found later.
    """

    def __init__(self, database: Database, *, shards: Callable[[], int], stopping: Stopping) -> None:
        self._database = database
        self._shards = shards
        self._stopping = stopping
        self._reached: dict[tuple[str, Lane, int], datetime] = {}
        self._whole_at = 0.0  # on time.monotonic()

    def expire(self) -> Counts:
        """Look through all lanes, where an endpoint with rules bounds the age of its executions."""
        if time.monotonic() >= self._whole_at:
            self._reached.clear()
            self._whole_at = time.monotonic() + WHOLE_SECONDS
        ages = expiry.ages(self._database)
        counts = Counts()
        for queue in claimable_queues(self._database, MOST_QUEUES) if ages else ():
            for lane, age_ms in expiry.overdue(self._database, queue, self._shards(), ages, self._stopping):
                counts.update(expired=self._expire_lane(queue, lane, age_ms, ages[lane.endpoint][age_ms]))
        return counts

    def _expire_lane(self, queue: str, lane: Lane, age_ms: int, versions: Sequence[int]) -> int:
        ended, key = 0, (queue, lane, age_ms)
        while not self._stopping():
            since = self._reached.get(key, EPOCH)
            done = expiry.expire(
                self._database, queue, lane, max_age_ms=age_ms, versions=versions, limit=BATCH, since=since
            )
            ended += done.ended
            self._reached[key] = done.reached
            # What is allowed to be older stays: go on behind it.
            if done.seen < BATCH or (not done.ended and done.reached == since):
                break
        return ended
