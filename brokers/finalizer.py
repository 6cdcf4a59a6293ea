"""Finalizer: the one thread of a process that writes results, in batches that form by themselves.

Results that arrive while one batch commits form the next; none waits to fill a batch. `submit` neither blocks nor
raises; consumers bound the backlog, because they stop claiming above HIGH_WATER. A result that the database cannot
write is kept and tried again, until it is written or its claim is known to be lost; the lease bounds that.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from app.kernel.db.retries import explained, is_rows_fault, is_statements_fault
from app.kernel.errors import UnavailableError
from app.kernel.metrics import series
from app.kernel.metrics.values import Values
from app.kernel.threads import STOP_SECONDS, BackgroundThread
from app.queue.claiming.release import Release
from app.queue.executions.attempt_notes import AttemptNote
from app.queue.executions.completion import Completion
from app.queue.executions.execution_model import ClaimKey
from brokers.attempt_line import ids_of
from brokers.outcomes import Outcomes
from brokers.unwritten import FITTING, RETRY_SECONDS, TRIES_WHOLE, Batch, T, Unwritten, beyond_bytes

log = logging.getLogger(__name__)

HIGH_WATER = 5000  # results that wait to be written
LONGEST_PAUSE_SECONDS = 1.0  # between two tries while none succeeds
_Write = Callable[[Batch[Any]], None]


class Finalizer(BackgroundThread):
    """Writes the completions and releases of one worker process, and the notes on its attempts."""

    is_vital = True

    def __init__(self, outcomes: Outcomes, values: Values, *, retry_seconds: Sequence[float] = RETRY_SECONDS) -> None:
        super().__init__("te-finalizer")
        self._lock = threading.RLock()  # taken without the calls that the condition makes
        self._changed = threading.Condition(self._lock)
        self._waits = False  # for new items
        self.outcomes = outcomes
        self._values = values
        self._retry_seconds = retry_seconds
        self.completions = Unwritten[Completion](retry_seconds)
        self._releases = Unwritten[Release](retry_seconds)
        self._by_kind: dict[type, tuple[Unwritten[Any], _Write]] = {
            # First, because nothing is noted of an attempt that has ended.
            AttemptNote: (Unwritten[AttemptNote](retry_seconds), outcomes.note),
            Release: (self._releases, outcomes.release),
            Completion: (self.completions, outcomes.complete),
        }
        self._writing: set[ClaimKey] = set()
        self._failures = 0  # in a row, of any kind
        self._abandoned = False

    def submit(self, item: Completion | Release | AttemptNote) -> None:
        """Take an item to write; a note is written before the completion of its attempt."""
        with self._lock:
            unwritten = self._by_kind[type(item)][0]
            unwritten.new.append(item)
            unwritten.count += 1
            if self._waits:
                self._waits = False
                self._changed.notify_all()

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until everything is written except refused items; False after the timeout."""
        with self._changed:
            return self._changed.wait_for(self._is_done, timeout_seconds)

    def stop(self, timeout_seconds: float = STOP_SECONDS) -> bool:
        """Flush, then end the thread; False when something was left unwritten."""
        flushed = self.flush(timeout_seconds)
        super().stop()
        return flushed

    def abandon(self) -> None:
        """Drop everything: the lease is lost, and other workers may have the executions."""
        with self._changed:
            self._abandoned = True
            self._values.add(series.ABANDONED, amount=self.completions.count)
            for unwritten, _ in self._by_kind.values():
                unwritten.clear()
            self._changed.notify_all()

    def pending(self) -> set[ClaimKey]:
        """Return the claims whose end is not written yet."""
        with self._changed:
            return self.completions.keys() | self._releases.keys() | self._writing

    def run(self) -> None:
        """Write submitted items until the thread is stopping and nothing is left to do."""
        while batches := self._take():
            for unwritten, batch, write in batches:
                # Measured without the lock, for which deliveries wait.
                if not batch.failures and len(batch.items) > FITTING and (rest := beyond_bytes(batch.items)):
                    self._put_first(unwritten, rest)
                try:
                    write(batch)
                except (UnavailableError, SQLAlchemyError, ValueError) as error:
                    if is_rows_fault(error) and not is_statements_fault(error):
                        self._divide(unwritten, batch, error)
                    else:
                        self._postpone(unwritten, batch, error)
                else:
                    self._failures = 0

    def _take(self) -> list[tuple[Unwritten[Any], Batch[Any], _Write]]:
        """Wait for batches to write, at most one of each kind; none when the thread is stopping."""
        with self._changed:
            self._writing = set()
            self._changed.notify_all()
            while True:
                now, waiting = time.monotonic(), [one for one in self._by_kind.values() if one[0].count]
                taken = [(kept, batch, write) for kept, write in waiting if (batch := kept.take(now)) is not None]
                if taken or self.stopping.is_set():
                    items = [item for _, batch, _ in taken for item in batch.items]
                    self._writing = {(item.claim if isinstance(item, Completion) else item).key for item in items}
                    return taken
                self._waits = True
                self._changed.wait(max(0.0, min(kept.next_due() for kept, _ in waiting) - now) if waiting else None)
                self._waits = False

    def _put_first(self, unwritten: Unwritten[T], items: Sequence[T]) -> None:
        with self._changed:
            if not self._abandoned:
                unwritten.put_first(items)

    def _is_done(self) -> bool:
        return not self._writing and all(unwritten.may_end() for unwritten, _ in self._by_kind.values())

    def _is_over(self) -> bool:
        return self._abandoned or self.stopping.is_set()

    def _postpone(self, unwritten: Unwritten[T], batch: Batch[T], error: Exception) -> None:
        """Keep a batch that the database cannot write now."""
        self._failures += 1
        with self._changed:
            if self._abandoned:
                return
            unwritten.retry(batch, time.monotonic())
            # Logged once in an outage, and once for a single item that keeps failing.
            is_news = batch.failures == 1 or len(batch.items) == 1
            if self._failures == 1 and is_news and not batch.is_reported:
                batch.is_reported = True
                log.warning("cannot write %s: %s; keeping them and retrying", _named(batch), explained(error))
            if self._failures > 1:
                pause = self._retry_seconds[min(self._failures - 1, len(self._retry_seconds)) - 1]
                self._changed.wait_for(self._is_over, min(pause, LONGEST_PAUSE_SECONDS))

    def _divide(self, unwritten: Unwritten[T], batch: Batch[T], error: Exception) -> None:
        """Find the item that the database refuses; store its bare outcome, or keep it until its claim is lost."""
        now = time.monotonic()
        with self._changed:
            if self._abandoned:
                return
            if len(batch.items) > 1:
                unwritten.put_back_halves(batch, now)
                return
            item = batch.items[0]
            if isinstance(item, Completion) and not batch.is_bare:
                self._values.add(series.REFUSED)
                named = item.claim.execution_id
                log.error(
                    "the database refused the result of %s: %s; storing it without its payload",
                    named,
                    explained(error),
                    extra=ids_of(item.claim),
                )
                bare = item.without_payload("the result could not be stored")
                unwritten.put_back(Batch([bare], is_bare=True), now)
                return
            if not batch.is_refused:
                log.error("the outcome of %s could not be written: %s", _named(batch), explained(error))
            if isinstance(item, AttemptNote):
                return  # nothing waits for it
            # The reclaim of stuck executions will find the row; nothing else depends on it.
            batch.is_refused, batch.failures = True, TRIES_WHOLE
            unwritten.put_back(batch, now + self._retry_seconds[-1])


def _named(batch: Batch[T]) -> str:
    """Return the id of a single execution, else the number of results."""
    first, *others = batch.items
    return f"{len(batch.items)} results" if others else first.key.execution_id
