"""Finalizer: the one thread of a process that writes results, in batches that form by themselves.

Results that arrive while one batch commits form the next; none waits to fill a batch. `submit` neither blocks nor
raises; the backlog is bounded by the consumers, which stop claiming above HIGH_WATER. What the database cannot write is
kept and tried again, until it is written or its claim is known to be lost; the lease bounds that.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from sqlalchemy.exc import SQLAlchemyError

from app.kernel.db.retries import explained, is_rows_fault, is_statements_fault
from app.kernel.errors import UnavailableError
from app.kernel.metrics import series
from app.kernel.metrics.values import Values
from app.kernel.threads import STOP_SECONDS, BackgroundThread
from app.queue.claiming.release import Release
from app.queue.executions.completion import Conclusion
from app.queue.executions.execution_model import ClaimKey
from app.queue.executions.soft_limit import SoftLimitPassed
from brokers.attempt_line import ids_of
from brokers.outcomes import Outcomes
from brokers.unwritten import FITTING, RETRY_SECONDS, TRIES_WHOLE, Batch, T, Unwritten, by_bytes

log = logging.getLogger(__name__)

HIGH_WATER = 5000  # results that wait to be written
LONGEST_PAUSE_SECONDS = 1.0  # between two tries while none succeeds


class Finalizer(BackgroundThread):
    """Writes conclusions and hand-backs of one worker process."""

    is_vital = True

    def __init__(self, outcomes: Outcomes, values: Values, *, retry_seconds: Sequence[float] = RETRY_SECONDS) -> None:
        super().__init__("te-finalizer")
        self.outcomes = outcomes
        self._values = values
        self._retry_seconds = retry_seconds
        self._ready = threading.Condition()
        self.conclusions = Unwritten[Conclusion](retry_seconds)
        self._releases = Unwritten[Release](retry_seconds)
        self._limits = Unwritten[SoftLimitPassed](retry_seconds)
        self._writing: set[ClaimKey] = set()
        self._failures = 0  # in a row, of either kind
        self._abandoned = False

    def submit(self, conclusion: Conclusion) -> None:
        """Take a conclusion to write."""
        with self._ready:
            self.conclusions.add(conclusion)
            self._ready.notify_all()

    def submit_release(self, release: Release) -> None:
        """Take an unstarted claim to hand back."""
        with self._ready:
            self._releases.add(release)
            self._ready.notify_all()

    def submit_soft_limit(self, passed: SoftLimitPassed) -> None:
        """Take that an attempt goes on beyond its soft limit; written before what is submitted later."""
        with self._ready:
            self._limits.add(passed)
            self._ready.notify_all()

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until all is written that was submitted and not refused for good; False after the timeout."""
        with self._ready:
            return self._ready.wait_for(self._is_done, timeout_seconds)

    def stop(self, timeout_seconds: float = STOP_SECONDS) -> bool:
        """Flush, then end the thread; False when something was left unwritten."""
        flushed = self.flush(timeout_seconds)
        super().stop()
        return flushed

    def interrupt(self) -> None:
        """Wake the thread."""
        with self._ready:
            self._ready.notify_all()

    def abandon(self) -> None:
        """Drop everything: the lease is lost, the rows belong to others now."""
        with self._ready:
            self._abandoned = True
            self._values.add(series.ABANDONED, amount=self.conclusions.count)
            self.conclusions.clear()
            self._releases.clear()
            self._limits.clear()
            self._ready.notify_all()

    def pending(self) -> set[ClaimKey]:
        """List the claims whose end is not written yet."""
        with self._ready:
            return self.conclusions.keys() | self._releases.keys() | self._writing

    def run(self) -> None:
        """Write what is submitted, until nothing is left to do and the thread is stopping."""
        while (taken := self._take()) is not None:
            limits, releases, conclusions = taken
            if limits is not None:  # first: of an attempt that has ended nothing is noted
                self._try(self._limits, limits, self.outcomes.note)
            if releases is not None:
                self._try(self._releases, releases, self.outcomes.release)
            if conclusions is None:
                continue
            parts = [conclusions]
            if len(conclusions.items) > FITTING:
                parts = list(by_bytes(conclusions))
            for part in parts:
                self._try(self.conclusions, part, self.outcomes.conclude)

    def _take(self) -> tuple[Batch[SoftLimitPassed] | None, Batch[Release] | None, Batch[Conclusion] | None] | None:
        """Wait for something to write; None at the end."""
        with self._ready:
            self._writing = set()
            self._ready.notify_all()
            while True:
                now = time.monotonic()
                limits = self._limits.take(now)
                releases, conclusions = self._releases.take(now), self.conclusions.take(now)
                if limits is not None or releases is not None or conclusions is not None:
                    held = {item.key for batch in (limits, releases) if batch is not None for item in batch.items}
                    results = conclusions.items if conclusions is not None else []
                    self._writing = held | {conclusion.claim.key for conclusion in results}
                    return limits, releases, conclusions
                if self.stopping.is_set():
                    return None
                lanes = (self._limits, self._releases, self.conclusions)
                dues = [unwritten.next_due() - now for unwritten in lanes if unwritten.count]
                self._ready.wait(max(0.0, min(dues)) if dues else None)

    def _try(self, unwritten: Unwritten[T], batch: Batch[T], write: Callable[[Batch[T]], None]) -> None:
        """Write a batch, or keep it; no item may hold up the others."""
        try:
            write(batch)
        except (UnavailableError, SQLAlchemyError, ValueError) as error:
            if is_rows_fault(error) and not is_statements_fault(error):
                self._divide(unwritten, batch, error)
            else:
                self._postpone(unwritten, batch, error)
        else:
            self._failures = 0

    def _is_done(self) -> bool:
        waiting = (self.conclusions, self._releases, self._limits)
        return all(each.may_end() for each in waiting) and not self._writing

    def _is_over(self) -> bool:
        return self._abandoned or self.stopping.is_set()

    def _postpone(self, unwritten: Unwritten[T], batch: Batch[T], error: Exception) -> None:
        """Keep a batch that the database cannot write now."""
        self._failures += 1
        with self._ready:
            if self._abandoned:
                return
            unwritten.retry(batch, time.monotonic())
            # Said at the beginning of an outage, and of the one item that fails while others pass.
            is_news = batch.failures == 1 or len(batch.items) == 1
            if self._failures == 1 and is_news and not batch.is_reported:
                batch.is_reported = True
                log.warning("cannot write %s, keeping them: %s", _named(batch), explained(error))
            if self._failures > 1:
                pause = self._retry_seconds[min(self._failures - 1, len(self._retry_seconds)) - 1]
                self._ready.wait_for(self._is_over, min(pause, LONGEST_PAUSE_SECONDS))

    def _divide(self, unwritten: Unwritten[T], batch: Batch[T], error: Exception) -> None:
        """Find the item that the database refuses; store its bare outcome, or else keep it until its claim is lost."""
        now = time.monotonic()
        with self._ready:
            if self._abandoned:
                return
            if len(batch.items) > 1:
                unwritten.put_back_halves(batch, now)
                return
            item = batch.items[0]
            if isinstance(item, Conclusion) and not batch.is_bare:
                self._values.add(series.REFUSED)
                named = item.claim.execution_id
                log.error("the result of %s was refused: %s", named, explained(error), extra=ids_of(item.claim))
                bare = item.without_payload("the result could not be stored")
                unwritten.put_back(Batch([bare], is_bare=True), now)
                return
            if not batch.is_refused:
                log.error("the outcome of %s could not be written: %s", _named(batch), explained(error))
            if isinstance(item, SoftLimitPassed):
                return  # nothing waits for it
            # The reclaim of stuck executions will find the row; nothing else depends on it.
            batch.is_refused, batch.failures = True, TRIES_WHOLE
            unwritten.put_back(batch, now + self._retry_seconds[-1])


def _named(batch: Batch[T]) -> str:
    """Return the id of a single execution, else how many there are."""
    first, *others = batch.items
    if others:
        return f"{len(batch.items)} results"
    return first.key.execution_id
