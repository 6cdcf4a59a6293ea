"""Discovery: finds the lanes of a queue that have something due."""

import random
import time
from datetime import timedelta
from math import inf

from app.kernel.db import Database
from app.queue.claiming.full_scan import Sweep
from app.queue.claiming.poll import look
from brokers.sharing.partitions import Lanes

FIRST_IDLE_WAIT_SECONDS = 0.01
SHORTEST_HORIZON_SECONDS = 0.2
LOOKED_SHARE = 10  # looks that hints ask for take no more than this part of the time, while there is work to do
LONGEST_REST_SECONDS = 0.02  # after which a hint is followed all the same
SWEEP_SECONDS = 30.0
BUSY_SWEEP_SECONDS = 1.0  # between two sweeps when a look could not see everything


class Discovery:
    """Tells the lanes of one queue what is due, and when; belongs to one thread.

    A look reads what has become due since the last one, and what will be due before the next one: soon after something
    was found, then less and less often, and at once after a hint. What it cannot see a sweep finds: rows behind its
    mark, which were handed back or locked for long, and lanes behind very many rows of others.
    """

    def __init__(self, database: Database, queue: str, lanes: Lanes, *, longest_wait: float, ahead: float) -> None:
        self._database = database
        self._queue = queue
        self._lanes = lanes
        self._longest_wait = longest_wait
        self._ahead = ahead
        self._idle_wait = FIRST_IDLE_WAIT_SECONDS
        # Looks are late by a tenth at most, and what is due is to be known of before it may be claimed.
        self._horizon = timedelta(seconds=ahead + max(SHORTEST_HORIZON_SECONDS, longest_wait * 1.25))
        self._look_at = self._sweep_at = 0.0
        self._looked_at = self._rested_at = -inf
        self._swept_at = -inf
        self._sweep: Sweep | None = None
        self._last: Sweep | None = None

    @property
    def at(self) -> float:
        """Return when the next step is due, on time.monotonic()."""
        return min(self._look_at, self._sweep_at)

    def look_soon(self, now: float) -> None:
        """Look at once, or after some of the work that is known of: something may have become due."""
        self._look_at = min(self._look_at, max(now, self._rested_at) if self._lanes.wanting(now) else now)

    def drained(self, found: int, now: float) -> None:
        """Take in that a claim has left nothing in its lanes, and how much it found: more may follow soon."""
        look_at = now + FIRST_IDLE_WAIT_SECONDS * random.uniform(0.9, 1.1)
        if found:
            self._idle_wait = FIRST_IDLE_WAIT_SECONDS
            # Claims that follow each other tell as much as looks; they do not put them off for ever.
            self._look_at = min(look_at, self._looked_at + self._longest_wait)
        else:
            self._look_at = min(look_at, self._look_at)

    def step(self) -> int:
        """Run the statement that is due; returns the revision of the rules, 0 where it does not tell."""
        now = time.monotonic()
        if self._look_at <= now:
            return self._look(now)
        if self._sweep is None:
            self._sweep, self._swept_at = Sweep(len(self._lanes.since()), self._last), now
        due, clock = self._sweep.step(self._database, self._queue)
        now = time.monotonic()
        self._lanes.swept([one for one in due if one.run_at <= clock + self._horizon], clock, now)
        if self._sweep.is_over:
            self._sweep, self._last = None, self._sweep
            # Spread, so that many processes do not sweep in step.
            self._sweep_at = now + SWEEP_SECONDS * random.uniform(0.5, 1.0)
        return 0

    def _look(self, asked_at: float) -> int:
        horizon_ms = self._horizon // timedelta(milliseconds=1)
        found = look(self._database, queue=self._queue, since=self._lanes.since(), horizon_ms=horizon_ms)
        now = time.monotonic()
        self._lanes.looked(found.due, found.now, now)
        if found.is_full:
            self._sweep_at = min(self._sweep_at, max(now, self._swept_at + BUSY_SWEEP_SECONDS))
        self._idle_wait = min(self._idle_wait * 2, self._longest_wait)
        self._looked_at, self._rested_at = now, now + min((now - asked_at) * (LOOKED_SHARE - 1), LONGEST_REST_SECONDS)
        wait = self._idle_wait * random.uniform(0.9, 1.1)
        if not found.is_full:
            wait = min(wait, (found.known_until - found.now).total_seconds() - self._ahead)
        self._look_at = now + max(wait, FIRST_IDLE_WAIT_SECONDS)
        return found.flow_revision
