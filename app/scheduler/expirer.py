"""Expirer: ends what has waited for longer than its retry policy's `max_age_ms`, at endpoints that make things wait."""

from collections.abc import Callable

from app.db import Database
from app.executions import expiry
from app.executions.claiming.lane import Lane
from app.executions.claiming.queues import claimable_queues
from app.formats import EPOCH
from app.scheduler.chore import BATCH, Counts, Stopping

MOST_QUEUES = 1_000


class Expirer:
    """The chore that ends what waits for too long; `shards` returns how many there are."""

    def __init__(self, database: Database, *, shards: Callable[[], int], stopping: Stopping) -> None:
        self._database = database
        self._shards = shards
        self._stopping = stopping

    def expire(self) -> Counts:
        """Look through all lanes, where an endpoint with rules bounds the age of its executions."""
        ages = expiry.ages(self._database)
        counts = Counts()
        for queue in claimable_queues(self._database, MOST_QUEUES) if ages else ():
            for lane in expiry.overdue(self._database, queue, self._shards(), ages, self._stopping):
                counts.update(expired=self._expire_lane(queue, lane, ages[lane.endpoint]))
        return counts

    def _expire_lane(self, queue: str, lane: Lane, max_age_ms: int) -> int:
        ended, since = 0, EPOCH
        while not self._stopping():
            done = expiry.expire(self._database, queue, lane, max_age_ms=max_age_ms, limit=BATCH, since=since)
            ended += done.ended
            # What is allowed to be older stays: go on behind it.
            if done.seen < BATCH or (not done.ended and done.reached == since):
                break
            since = done.reached
        return ended
