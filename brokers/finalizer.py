"""Finalizer: the one thread of a process that writes results, in batches that form by themselves.

Results that arrive while one batch commits form the next; none waits to fill a batch. `submit` neither blocks nor
raises; the backlog is bounded by the consumers, which stop claiming above HIGH_WATER. While the database is unreachable
results are kept and tried again, for as long as the lease allows.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from functools import partial

from sqlalchemy.exc import SQLAlchemyError

from app.db import Database
from app.errors import UnavailableError
from app.executions.conclusion import Conclusion, conclude
from app.executions.model import ClaimKey
from app.executions.release import release
from app.threads import STOP_SECONDS, BackgroundThread
from brokers.counters import Counters

log = logging.getLogger(__name__)

MOST_PER_STATEMENT = 500
HIGH_WATER = 5000  # results that wait to be written
RETRY_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0)


class Finalizer(BackgroundThread):
    """Writes conclusions and hand-backs of one worker process."""

    def __init__(self, database: Database, worker_id: str, counters: Counters) -> None:
        super().__init__("te-finalizer")
        self._database = database
        self._worker_id = worker_id
        self._counters = counters
        self._ready = threading.Condition()
        self._conclusions: deque[Conclusion] = deque()
        self._releases: deque[ClaimKey] = deque()
        self._writing: set[ClaimKey] = set()
        self._abandoned = False

    def submit(self, conclusion: Conclusion) -> None:
        """Take a conclusion to write."""
        with self._ready:
            self._conclusions.append(conclusion)
            self._ready.notify_all()

    def submit_release(self, claim: ClaimKey) -> None:
        """Take an unstarted claim to hand back."""
        with self._ready:
            self._releases.append(claim)
            self._ready.notify_all()

    @property
    def is_backed_up(self) -> bool:
        """Whether claiming should wait until results are written."""
        return len(self._conclusions) >= HIGH_WATER

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until all that was submitted is written; False after the timeout."""
        with self._ready:
            return self._ready.wait_for(
                lambda: not (self._conclusions or self._releases or self._writing), timeout_seconds
            )

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
            self._counters.add("results_abandoned", len(self._conclusions))
            self._conclusions.clear()
            self._releases.clear()
            self._ready.notify_all()

    def pending(self) -> set[ClaimKey]:
        """List the claims whose end is not written yet."""
        with self._ready:
            waiting = {conclusion.claim.key for conclusion in self._conclusions}
            return waiting | set(self._releases) | self._writing

    def run(self) -> None:
        """Write what is submitted, until nothing is left and the thread is stopping."""
        while True:
            with self._ready:
                self._writing = set()
                self._ready.notify_all()
                self._ready.wait_for(lambda: self._conclusions or self._releases or self.stopping.is_set())
                if not (self._conclusions or self._releases):
                    return
                batch = [self._conclusions.popleft() for _ in range(min(MOST_PER_STATEMENT, len(self._conclusions)))]
                releases = [self._releases.popleft() for _ in range(len(self._releases))]
                self._writing = {conclusion.claim.key for conclusion in batch} | set(releases)
            if releases:
                self._hand_back(releases)
            if batch:
                self._write(batch)

    def _hand_back(self, releases: list[ClaimKey]) -> None:
        def run() -> None:
            self._counters.add("released", release(self._database, self._worker_id, releases))

        try:
            self._persist(run, "hand back unstarted claims")
        except SQLAlchemyError:
            # They stay RUNNING and are reclaimed once this worker's lease has run out.
            log.exception("%d unstarted claims could not be handed back", len(releases))

    def _write(self, batch: list[Conclusion]) -> None:
        """Write a batch; when the database refuses it, split it so that one bad row cannot hold up the rest."""
        try:
            self._persist(partial(self._conclude, batch), f"write {len(batch)} results")
        except SQLAlchemyError as error:
            if len(batch) > 1:
                middle = len(batch) // 2
                self._write(batch[:middle])
                self._write(batch[middle:])
            else:
                self._write_poison(batch[0], error)

    def _write_poison(self, conclusion: Conclusion, error: SQLAlchemyError) -> None:
        """Store the bare outcome of a result that the database refuses to store in full."""
        self._counters.add("results_refused", 1)
        log.error("the result of %s was refused: %s", conclusion.claim.execution_id, type(error).__name__)
        bare = conclusion.without_payload("the result could not be stored")
        try:
            self._conclude([bare])
        except (SQLAlchemyError, UnavailableError):
            # The reclaim of stuck executions will find the row; nothing else depends on it.
            log.exception("the outcome of %s could not be written", conclusion.claim.execution_id)

    def _persist(self, run: Callable[[], None], what: str) -> None:
        tries = 0
        while not self._abandoned:
            try:
                return run()
            except UnavailableError as error:
                pause = RETRY_SECONDS[min(tries, len(RETRY_SECONDS) - 1)]
                if tries == 0:
                    log.warning("cannot %s, keeping them: %s", what, error.explained)
                tries += 1
                with self._ready:
                    self._ready.wait_for(lambda: self._abandoned, pause)
        return None

    def _conclude(self, batch: list[Conclusion]) -> None:
        effective = conclude(self._database, self._worker_id, batch)
        self._counters.add("concluded", len(effective))
        for conclusion in batch:
            if conclusion.claim.execution_id not in effective:
                self._counters.add("leases_lost", 1)
                log.warning(
                    "the claim on %s (attempt %d) was lost; its result changes nothing",
                    conclusion.claim.execution_id,
                    conclusion.claim.attempt,
                )
