"""Low-water mark of an index that is read in time order: where the next read begins."""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.kernel.formats import EPOCH

# A row is visible at its commit, and its time is that of its transaction's start, by the clock of another node perhaps.
SLACK = timedelta(seconds=5)
SWEEP_SECONDS = 30.0


@dataclass(slots=True)
class LowWater:
    """Where the next read begins: shortly before what the last one has seen, now and then at the very beginning.

    What was claimed or promoted leaves dead entries at the front of its index until they are vacuumed, on CockroachDB
    for `gc.ttlseconds`, and a read that begins at the oldest entry walks all of them. Nothing in the database forbids a
    row behind the mark (one that was handed back, one whose lock was held for long), so a sweep reads from the
    beginning every `sweep_seconds` at the latest. The mark follows the database's clock also when that is set back.
    """

    since: datetime = EPOCH
    sweep_seconds: float = SWEEP_SECONDS
    _sweep_at: float = 0.0

    def advance(self, seen_up_to: datetime, now: float) -> None:
        """Take in how far a read that began at `since` has seen everything; `now` is time.monotonic()."""
        if self.since == EPOCH:
            # Spread, so that many processes do not sweep in step.
            self._sweep_at = now + self.sweep_seconds * random.uniform(0.5, 1.0)
        self.since = seen_up_to - SLACK if now < self._sweep_at else EPOCH
