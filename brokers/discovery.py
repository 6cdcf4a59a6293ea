"""Discovery: finds the partitions of a queue with due executions."""

import random
import time
from dataclasses import dataclass
from datetime import timedelta
from math import inf

from app.kernel.db import Database
from app.queue.claiming.full_scan import FullScan
from app.queue.claiming.poll import poll
from brokers.sharing.partitions import KnownPartitions

SHORTEST_HORIZON_SECONDS = 0.2
POLLED_SHARE = 10  # polls caused by wake-ups take at most this part of the time while there is work to do
BUSY_SCAN_SECONDS = 1.0  # between two full scans when a poll could not see everything


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryTimes:
    """Intervals of polls and full scans."""

    first_idle_wait_seconds: float = 0.01  # between a claim and the next poll; doubles with each poll that follows
    longest_rest_seconds: float = 0.02  # longest delay of a poll caused by a wake-up while there is work to do
    scan_seconds: float = 30.0


TIMES = DiscoveryTimes()


class Discovery:
    """Finds the due partitions of one queue by polls and full scans; belongs to one thread.

    A poll reads the rows that became due since the last poll or will be due before the next poll. It runs soon after a
    claim found something, then less and less often, and at once after a wake-up. A full scan finds the rows that a poll
    cannot see: rows behind its watermark (released, or locked for long), and partitions behind very many other rows.
    """

    def __init__(
        self,
        database: Database,
        queue: str,
        partitions: KnownPartitions,
        *,
        longest_wait: float,
        ahead: float,
        times: DiscoveryTimes = TIMES,
    ) -> None:
        self._database = database
        self._queue = queue
        self._partitions = partitions
        self._longest_wait = longest_wait
        self._ahead = ahead
        self._times = times
        self._idle_wait = times.first_idle_wait_seconds
        # A poll is late by a tenth at most, and must find a row before it may be claimed.
        self._horizon = timedelta(seconds=ahead + max(SHORTEST_HORIZON_SECONDS, longest_wait * 1.25))
        self.poll_at = self.scan_at = 0.0  # instants of the next poll and scan, on time.monotonic()
        self._polled_at = self._rested_at = -inf
        self._scanned_at = -inf
        self._scan: FullScan | None = None
        self._last: FullScan | None = None

    def poll_soon(self, now: float) -> None:
        """Poll at once, or after some of the known work."""
        is_busy = self._partitions.wanting or self._partitions.event_at <= now
        self.poll_at = min(self.poll_at, max(now, self._rested_at) if is_busy else now)

    def drained(self, found: int, now: float) -> None:
        """Poll soon after a claim of `found` executions that left none in its partitions."""
        poll_at = now + self._times.first_idle_wait_seconds * random.uniform(0.9, 1.1)
        if found:
            self._idle_wait = self._times.first_idle_wait_seconds
            # A claim reports as much as a poll, but frequent claims do not delay the next poll without end.
            self.poll_at = min(poll_at, self._polled_at + self._longest_wait)
        else:
            self.poll_at = min(poll_at, self.poll_at)

    def poll(self, asked_at: float) -> int:
        """Poll; return the revision of the endpoint rules."""
        horizon_ms = self._horizon // timedelta(milliseconds=1)
        found = poll(self._database, queue=self._queue, since=self._partitions.since, horizon_ms=horizon_ms)
        now = time.monotonic()
        self._partitions.found(found.due, found.now, now, by_poll=True)
        if found.is_full:
            self.scan_at = min(self.scan_at, max(now, self._scanned_at + BUSY_SCAN_SECONDS))
        self._idle_wait = min(self._idle_wait * 2, self._longest_wait)
        rest = min((now - asked_at) * (POLLED_SHARE - 1), self._times.longest_rest_seconds)
        self._polled_at, self._rested_at = now, now + rest
        wait = self._idle_wait * random.uniform(0.9, 1.1)
        if not found.is_full:
            wait = min(wait, (found.known_until - found.now).total_seconds() - self._ahead)
        self.poll_at = now + max(wait, self._times.first_idle_wait_seconds)
        return found.flow_revision

    def scan(self, now: float) -> None:
        """Run the next statement of a full scan."""
        if self._scan is None:
            self._scan, self._scanned_at = FullScan(len(self._partitions.since), self._last), now
        due, clock = self._scan.step(self._database, self._queue)
        now = time.monotonic()
        self._partitions.found([one for one in due if one.run_at <= clock + self._horizon], clock, now)
        if self._scan.is_over:
            self._scan, self._last = None, self._scan
            # Spread, so that many processes do not scan at the same time.
            self.scan_at = now + self._times.scan_seconds * random.uniform(0.5, 1.0)
