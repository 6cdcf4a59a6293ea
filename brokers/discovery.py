"""Discovery: finds the partitions of a queue with due executions."""

import random
import time
from datetime import datetime, timedelta
from math import inf
from typing import NamedTuple

from app.kernel.db import Database
from app.kernel.errors import UnavailableError
from app.kernel.formats import EPOCH
from app.kernel.wakeup import Wakeup, digest_of
from app.queue.claiming.full_scan import FullScan
from app.queue.claiming.partition import Partition
from app.queue.claiming.poll import Polled, poll
from app.queue.executions.watermark import PACE, ScanPace
from brokers.idle_check import IdleCheck
from brokers.sharing.partitions import KnownPartitions

SHORTEST_HORIZON_SECONDS = 0.2
POLLED_SHARE = 10  # while there is work to do, or wake-ups find none, their polls take at most this part of the time
MAX_RECENT = 1024
BUSY_SCAN_SECONDS = 1.0  # between two full scans when a poll could not see everything
MAX_SKIPPED = 50  # polls of an idle queue in sequence that a check of all idle queues replaces


class DiscoveryTimes(NamedTuple):
    """Intervals of polls and full scans."""

    first_idle_wait_seconds: float = 0.01  # between a claim and the next poll; doubles with each poll that follows
    longest_rest_seconds: float = 0.02  # longest delay of a poll caused by a wake-up while there is work to do
    scan_pace: ScanPace = PACE


TIMES = DiscoveryTimes()


def horizon_ms(longest_wait: float, ahead: float) -> int:
    """Return how far a poll reads ahead: it is late by a tenth at most, and must find a row before its claim."""
    return round(1000 * (ahead + max(SHORTEST_HORIZON_SECONDS, longest_wait * 1.25)))


class Discovery:
    """Finds the due partitions of one queue by polls and full scans; belongs to one thread.

    A poll reads the rows that became due since the last poll or will be due before the next poll. It runs soon after a
    claim found something, then less and less often, and at once after a wake-up. Rows may appear behind its watermark:
    released, locked for long, or committed long after their due time. So a late poll reads from that time on if a
    wake-up names it, and from the start at most once in half of the longest wait, at the pace of full scans. A full
    scan finds also partitions behind very many other rows.
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
        idle_check: IdleCheck | None = None,
    ) -> None:
        self._database = database
        self._idle_check = idle_check
        self._queue = queue
        self._partitions = partitions
        self._longest_wait = longest_wait
        self._ahead = ahead
        self._times = times
        # Partitions of the last polls, by digest. They stay when they are drained, so that the next wake-up of a steady
        # endpoint needs no poll.
        self._recent: dict[str, Partition] = {}
        self._idle_wait = times.first_idle_wait_seconds
        self._horizon = timedelta(milliseconds=horizon_ms(longest_wait, ahead))
        self.poll_at = self.scan_at = 0.0  # instants of the next poll and scan, on time.monotonic()
        self._polled_at = self._rested_at = -inf
        self._is_woken = False  # by a wake-up, since the last statement
        self._is_asked = True  # for the next poll, which is not an idle one
        self._vain_until = -inf  # end of the rest after a wake-up whose claim or poll found no work
        self._late_since: datetime | None = None  # the next poll reads from here, if that is before its watermark
        self._late_at = -inf  # end of the rest after such a poll
        self._start_at = -inf  # end of the rest after a poll from the start
        self._scanned_at = -inf
        self._scan_lasted = 0.0
        self._scan: FullScan | None = None
        self._last: FullScan | None = None

    def receive(self, wakeup: Wakeup, now: float) -> None:
        """Claim from the partition that a wake-up names if it is known here, else poll.

        A wake-up may be forged: it causes one claim or poll, and after a vain one these rest.
        """
        self._is_woken = True
        partition = self._recent.get(wakeup.digest or "")
        is_late = wakeup.run_at is not None and wakeup.run_at < self._partitions.start
        if partition is None or is_late or now < self._vain_until:
            self.poll_soon(now, wakeup.run_at)
        else:
            self._partitions.noticed(partition, now)

    def poll_soon(self, now: float, since: datetime | None = None) -> None:
        """Poll at once, or after some of the known work; find also rows that are due since an earlier instant."""
        is_busy = self._partitions.wanting or self._partitions.event_at <= now
        poll_at = max(now, self._rested_at if is_busy else self._vain_until)
        self._is_asked = True
        if since is not None and since < self._partitions.start:
            self._late_since = since if self._late_since is None else min(since, self._late_since)
            poll_at = max(poll_at, self._late_at)
        self.poll_at = min(self.poll_at, poll_at)

    def drained(self, found: int, asked_at: float, now: float) -> None:
        """Poll soon after a claim of `found` executions that left none in its partitions."""
        poll_at = now + self._times.first_idle_wait_seconds * random.uniform(0.9, 1.1)
        self._is_asked = True
        if found:
            self._idle_wait = self._times.first_idle_wait_seconds
            # A claim reports as much as a poll, but frequent claims do not delay the next poll without end.
            self.poll_at = min(poll_at, self._polled_at + self._longest_wait)
        else:
            self.poll_at = min(poll_at, self.poll_at)
            if self._is_woken:
                self._vain_until = now + min((now - asked_at) * (POLLED_SHARE - 1), self._times.longest_rest_seconds)
        self._is_woken = False

    def skips_poll(self, now: float) -> bool:
        """Return whether the poll that is due can be skipped: the queue is idle, and nothing of it is due.

        Raises UnavailableError.
        """
        if self._idle_check is None or self._is_asked or len(self._partitions.since) > 1:
            return False
        is_recent = now - self._polled_at < MAX_SKIPPED * self._longest_wait
        if not is_recent or not self._idle_check.is_quiet(self._queue, now):
            return False
        self.poll_at = now + self._longest_wait * random.uniform(0.9, 1.1)
        return True

    def poll(self, asked_at: float) -> None:
        """Read the partitions with executions that are due soon."""
        late_since = EPOCH if asked_at >= self._start_at else self._late_since if asked_at >= self._late_at else None
        try:
            found = poll(
                self._database,
                queue=self._queue,
                since=self._partitions.since,
                horizon_ms=self._horizon // timedelta(milliseconds=1),
                late_since=late_since,
            )
        except UnavailableError:
            # The next poll reads from the watermark, since very many dead entries could time out each late poll.
            if late_since is not None:
                self._rest_late(late_since, asked_at, time.monotonic())
            raise
        now = time.monotonic()
        self._partitions.found(found.due, found.now, now, by_poll=True)
        for partition, _ in found.due:
            self._recent.pop(digest := digest_of(*partition), None)
            self._recent[digest] = partition
        for digest in list(self._recent)[:-MAX_RECENT]:
            del self._recent[digest]
        if late_since is not None:
            self._rest_after_late(found, late_since, asked_at, now)
        if found.is_full:
            self.scan_at = min(self.scan_at, max(now, self._scanned_at + BUSY_SCAN_SECONDS))
        self._idle_wait = min(self._idle_wait * 2, self._longest_wait)
        rest = min((now - asked_at) * (POLLED_SHARE - 1), self._times.longest_rest_seconds)
        self._polled_at, self._rested_at = now, now + rest
        if self._is_woken and not self._partitions.wanting:
            self._vain_until = self._rested_at
        self._is_woken = False
        wait = self._idle_wait * random.uniform(0.9, 1.1)
        if not found.is_full:
            wait = min(wait, (found.known_until - found.now).total_seconds() - self._ahead)
        if self._late_since is not None:
            wait = min(wait, self._late_at - now)
        self._is_asked = wait < self._longest_wait * 0.9
        self.poll_at = now + max(wait, self._times.first_idle_wait_seconds)

    def scan(self, now: float) -> None:
        """Run the next statement of a full scan."""
        if self._scan is None:
            self._scan, self._scanned_at = FullScan(len(self._partitions.since), self._last), now
            self._scan_lasted = 0.0
        due, clock = self._scan.step(self._database, self._queue)
        began, now = now, time.monotonic()
        self._scan_lasted += now - began
        self._partitions.found([one for one in due if one.run_at <= clock + self._horizon], clock, now)
        if self._scan.is_over:
            self._scan, self._last = None, self._scan
            self.scan_at = now + self._times.scan_pace.pause(inf)

    def _rest_late(self, late_since: datetime, asked_at: float, now: float) -> None:
        if late_since > EPOCH:
            self._late_at = now + (now - asked_at) * (POLLED_SHARE - 1)
        else:
            self._start_at = now + max(self._longest_wait / 2, self._times.scan_pace.pause(now - asked_at))

    def _rest_after_late(self, found: Polled, late_since: datetime, asked_at: float, now: float) -> None:
        """Rest after a late poll, and plan the next full scan; a poll from the start that has read all rows is one."""
        pace, self._late_since = self._times.scan_pace, None
        self._rest_late(late_since, asked_at, now)
        if found.is_cut:
            rest = max(BUSY_SCAN_SECONDS, pace.pause(self._scan_lasted))
            self.scan_at = min(self.scan_at, max(now, self._scanned_at + rest))
        elif late_since == EPOCH and self._scan is None and not found.is_full:
            self.scan_at = now + pace.pause(inf)
