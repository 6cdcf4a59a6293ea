"""Watermark of an index that is read in time order: start of the next read."""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from app.kernel.formats import EPOCH

# A row becomes visible at its commit, but its time is the start of its transaction, perhaps by another node's clock.
SLACK = timedelta(seconds=5)


class ScanPace(NamedTuple):
    """Pause between two full scans: so many times as long as the last one lasted, and at most `longest_seconds`.

    So each read is a full scan while there are few dead entries, and scans take two percent of the time, or more if one
    takes longer than 0.6 s.
    """

    longest_seconds: float = 30.0
    rest: float = 50.0

    def pause(self, lasted: float) -> float:
        """Return the seconds until the next full scan; random, so that processes do not scan at the same time."""
        return min(self.longest_seconds, self.rest * lasted) * random.uniform(0.5, 1.0)


PACE = ScanPace()


@dataclass(slots=True)
class LowWater:
    """Start of the next read: SLACK before the end of the last read; at intervals, the start of the index.

    Claimed and promoted rows leave dead entries at the front of the index until a vacuum, or for `gc.ttlseconds` on
    CockroachDB, and a read from the front passes all of them. A row may still appear behind the mark, after a release,
    a long lock or a long transaction. So a full scan starts at the front, at the pace that its cost allows. If the
    database's clock is set back, the mark follows it.
    """

    since: datetime = EPOCH
    pace: ScanPace = PACE
    _scan_at: float = 0.0

    def advance(self, seen_up_to: datetime, began: float, now: float) -> None:
        """Move behind a read from `since` that was complete up to `seen_up_to`; floats are time.monotonic()."""
        if self.since == EPOCH:
            self._scan_at = now + self.pace.pause(now - began)
        self.since = seen_up_to - SLACK if now < self._scan_at else EPOCH
