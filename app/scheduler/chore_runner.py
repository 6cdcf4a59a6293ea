"""Runner of chores: logs and counts each run, reports an outage of the database once, and detects stalled chores."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from app.kernel.errors import UnavailableError
from app.kernel.metrics import PROCESS, series
from app.scheduler.chore import CURRENT_RUN, Chore, ChoreRun, Counts, report_progress

log = logging.getLogger(__name__)

# Polls at one per second; longer than any statement with all its retries.
PATIENCE_POLLS = 300
_FAILING = frozenset({"expired", "failed"})  # counts of executions that chores have failed


class ChoreRunner:
    """Runs chores on the threads that call `run`, and keeps the state that their runs share."""

    def __init__(self, patience: int = PATIENCE_POLLS) -> None:
        self._patience = patience
        self._lock = threading.Lock()
        self._runs: list[ChoreRun] = []
        self._idle_polls = 0  # since the start of the last run
        self._outage_changes = 0  # starts and ends of outages; odd during an outage
        self._failing: set[str] = set()

    def run(self, chore: Chore) -> None:
        """Run a chore once and log its counts; never raises, so that no chore stops another chore."""
        since, began = self._outage_changes, time.monotonic()
        with self.running(chore.name) as run:
            try:
                counts = chore.run()
            except UnavailableError as error:
                PROCESS.add(series.CHORE_FAILURES, chore.name)
                _report(chore, run.counts)
                self._note_unavailable(chore.name, error.explained, since)
            except Exception:
                PROCESS.add(series.CHORE_FAILURES, chore.name)
                _report(chore, run.counts)
                log.exception("chore %s failed; the scheduler retries", chore.name)
            else:
                self._note_answer(chore.name, since)
                PROCESS.observe(series.CHORE_SECONDS, time.monotonic() - began, chore.name)
                report_progress()
                _report(chore, counts)

    @contextmanager
    def running(self, chore: str) -> Iterator[ChoreRun]:
        """Watch a run of a chore on this thread until the block ends."""
        run = ChoreRun(chore)
        token = CURRENT_RUN.set(run)
        with self._lock:
            self._runs.append(run)
            self._idle_polls = 0
        try:
            yield run
        finally:
            with self._lock:
                self._runs = [other for other in self._runs if other is not run]
            CURRENT_RUN.reset(token)

    def heartbeat(self) -> None:
        """Record a heartbeat of the chore on this thread, if any."""
        if (run := CURRENT_RUN.get()) is not None:
            with self._lock:
                run.silent_polls = 0

    def poll(self) -> str | None:
        """Count one poll; return the name of a part that has stalled for too long, if any.

        Counts polls instead of seconds: while the whole process or its machine is stopped, nothing polls.
        """
        with self._lock:
            self._idle_polls += 1
            for run in self._runs:
                run.silent_polls += 1
                if run.silent_polls > self._patience:
                    return f"its chore {run.chore} stalled"
            return "it started no chore" if self._idle_polls > self._patience else None

    def _note_unavailable(self, chore: str, reason: str, since: int) -> None:
        """Note a failed run, and log the first one of an outage; `since` is `_outage_changes` at its start."""
        with self._lock:
            # A chore that also failed last time, while other chores succeed, was logged before.
            is_first = chore not in self._failing and self._outage_changes == since and since % 2 == 0
            self._failing.add(chore)
            self._outage_changes += is_first
        if is_first:
            log.warning("chore %s: %s; the scheduler retries", chore, reason)

    def _note_answer(self, chore: str, since: int) -> None:
        """Note a successful run, and log the first success after an outage.

        A run that began before the outage proves nothing: its last answer may have come before the outage.
        """
        with self._lock:
            self._failing.discard(chore)
            ends_outage = since % 2 == 1 and self._outage_changes == since
            self._outage_changes += ends_outage
        if ends_outage:
            log.warning("the database answers again")


def _report(chore: Chore, counts: Counts) -> None:
    for name, count in counts.items():
        # Also zero: a rate needs a sample before the first change.
        PROCESS.add(series.CHORE_ROWS, chore.name, name, amount=count)
        if name in _FAILING:
            PROCESS.add(series.FAILED, chore.name, amount=count)
    if done := [f"{count} {name}" for name, count in counts.items() if count]:
        log.info("%s: %s", chore.name, ", ".join(done))
