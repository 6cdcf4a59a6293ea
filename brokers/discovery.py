"""Discovery: finds the partitions of a queue that have something due."""

import random
import time
from datetime import timedelta
from math import inf

from app.kernel.db import Database
from app.queue.claiming.full_scan import FullScan
from app.queue.claiming.poll import poll
from brokers.sharing.partitions import KnownPartitions

FIRST_IDLE_WAIT_SECONDS = 0.01
SHORTEST_HORIZON_SECONDS = 0.2
POLLED_SHARE = 10  # looks that hints ask for take no more than this part of the time, while there is work to do
LONGEST_REST_SECONDS = 0.02  # after which a hint is followed all the same
SCAN_SECONDS = 30.0
BUSY_SCAN_SECONDS = 1.0  # between two full scans when a poll could not see everything


class Discovery:
    """Tells the partitions of one queue what is due, and when; belongs to one thread.

    A poll reads what has become due since the last one, and what will be due before the next one: soon after something
    was found, then less and less often, and at once after a hint. What it cannot see a full scan finds: rows behind its
    mark, which were handed back or locked for long, and partitions behind very many rows of others.
    """

    def __init__(
        self, database: Database, queue: str, partitions: KnownPartitions, *, longest_wait: float, ahead: float
    ) -> None:
        self._database = database
        self._queue = queue
        self._partitions = partitions
        self._longest_wait = longest_wait
        self._ahead = ahead
        self._idle_wait = FIRST_IDLE_WAIT_SECONDS
        # Looks are late by a tenth at most, and what is due is to be known of before it may be claimed.
        self._horizon = timedelta(seconds=ahead + max(SHORTEST_HORIZON_SECONDS, longest_wait * 1.25))
        self.poll_at = self.scan_at = 0.0  # when the next one is due, on time.monotonic()
        self._polled_at = self._rested_at = -inf
        self._scanned_at = -inf
        self._scan: FullScan | None = None
        self._last: FullScan | None = None

    def poll_soon(self, now: float) -> None:
        """Look at once, or after some of the work that is known of: something may have become due."""
        self.poll_at = min(self.poll_at, max(now, self._rested_at) if self._partitions.wanting(now) else now)

    def drained(self, found: int, now: float) -> None:
        """Take in that a claim has left nothing in its partitions, and how much it found: more may follow soon."""
        poll_at = now + FIRST_IDLE_WAIT_SECONDS * random.uniform(0.9, 1.1)
        if found:
            self._idle_wait = FIRST_IDLE_WAIT_SECONDS
            # Claims that follow each other tell as much as polls; they do not put them off for ever.
            self.poll_at = min(poll_at, self._polled_at + self._longest_wait)
        else:
            self.poll_at = min(poll_at, self.poll_at)

    def step(self) -> int:
        """Run the statement that is due; returns the revision of the rules, 0 where it does not tell."""
        now = time.monotonic()
        if self.poll_at <= now:
            return self._poll(now)
        if self._scan is None:
            self._scan, self._scanned_at = FullScan(len(self._partitions.since), self._last), now
        due, clock = self._scan.step(self._database, self._queue)
        now = time.monotonic()
        self._partitions.found([one for one in due if one.run_at <= clock + self._horizon], clock, now)
        if self._scan.is_over:
            self._scan, self._last = None, self._scan
            # Spread, so that many processes do not scan in step.
            self.scan_at = now + SCAN_SECONDS * random.uniform(0.5, 1.0)
        return 0

    def _poll(self, asked_at: float) -> int:
        horizon_ms = self._horizon // timedelta(milliseconds=1)
        found = poll(self._database, queue=self._queue, since=self._partitions.since, horizon_ms=horizon_ms)
        now = time.monotonic()
        self._partitions.found(found.due, found.now, now, by_poll=True)
        if found.is_full:
            self.scan_at = min(self.scan_at, max(now, self._scanned_at + BUSY_SCAN_SECONDS))
        self._idle_wait = min(self._idle_wait * 2, self._longest_wait)
        self._polled_at, self._rested_at = now, now + min((now - asked_at) * (POLLED_SHARE - 1), LONGEST_REST_SECONDS)
        wait = self._idle_wait * random.uniform(0.9, 1.1)
        if not found.is_full:
            wait = min(wait, (found.known_until - found.now).total_seconds() - self._ahead)
        self.poll_at = now + max(wait, FIRST_IDLE_WAIT_SECONDS)
        return found.flow_revision
