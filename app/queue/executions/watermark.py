"""Watermark of an index that is read in time order: start of the next read."""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.kernel.formats import EPOCH

# A row becomes visible at its commit, but its time is the start of its transaction, perhaps by another node's clock.
SLACK = timedelta(seconds=5)
SWEEP_SECONDS = 30.0


@dataclass(slots=True)
class LowWater:
    """Start of the next read: SLACK before the end of the last read; at intervals, the start of the index.

    Claimed and promoted rows leave dead entries at the front of the index until a vacuum, or for `gc.ttlseconds` on
    CockroachDB, and a read from the front passes all of them. A row may still appear behind the mark, after a release
    or a long lock. So a full scan starts at the front at least every `sweep_seconds`. If the database's clock is set
    back, the mark follows it.
    """

    since: datetime = EPOCH
    sweep_seconds: float = SWEEP_SECONDS
    _sweep_at: float = 0.0

    def advance(self, seen_up_to: datetime, now: float) -> None:
        """Move behind a read from `since` that was complete up to `seen_up_to`; `now` is time.monotonic()."""
        if self.since == EPOCH:
            # Random, so that processes do not scan at the same time.
            self._sweep_at = now + self.sweep_seconds * random.uniform(0.5, 1.0)
        self.since = seen_up_to - SLACK if now < self._sweep_at else EPOCH

    def read_again(self, since: datetime) -> None:
        """Start the next read at an earlier instant."""
        self.since = min(self.since, since)
