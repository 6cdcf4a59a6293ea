"""Chores: entries of the scheduler's plan, their context and their counts."""

import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NamedTuple

from app.kernel.config import Settings
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.kernel.function_types import Hint, Run, Stopping
from app.kernel.metrics import PROCESS, series
from app.kernel.sql import NamedStatement
from app.kernel.tracing.exporting import Exporting
from app.queue.claiming.shards import ShardCount
from app.queue.executions.watermark import PACE, ScanPace
from app.queue.jobs.job_creation import Creator
from app.scheduler.locked_rows import LockedRow, LockedRows

BATCH = 500  # rows in one statement
LATE_PER_PASS = 500  # missed ticks that one pass over the due jobs inserts

Counts = Counter[str]
"""Counts of the changes of one run of a chore, by name; the log shows counts above zero."""


class Chore(NamedTuple):
    """Entry of the plan: runs at the start of the process and then at every interval, on a thread of the scheduler.

    A run that is still busy at its next interval is not started twice. Every scheduler process runs every chore, so
    concurrent runs must not disturb each other: rows are locked with SKIP LOCKED, or changed under a condition. A run
    whose UnavailableError or other error reaches the runner is logged and counted, and repeated at the next interval.

    Attributes:
        name: Name in the log, and label `chore` of the metrics.
        every_seconds: Seconds between the starts of two runs.
        run: Makes one run and returns its counts. A long run calls `context.stopping()` between two statements and ends
            once the result is True. The process ends as stalled if a run does not call it for five minutes.
        condition: Statement without parameters that returns a row while the chore has work; None: run always. One
            statement reads all conditions, so each has to be as cheap as a read of one index entry.

    Example:
        def chores(context: ChoreContext) -> list[Chore]:
            def prune() -> Counts:
                return Counts(pruned=context.delete(PRUNE, {"retention_ms": context.retention_ms}))

            return [Chore("prune_notes", 3600, prune)]
    """

    name: str
    every_seconds: float
    run: Run[Counts]
    condition: NamedStatement | None = None


@dataclass(frozen=True, slots=True)
class ChoreContext:
    """Shared objects of all chores of one scheduler; thread-safe, because chores run concurrently.

    Attributes:
        database: Database of the service.
        settings: Settings of the process.
        hint: Wakes the workers of a queue; a wake-up may be lost.
        stopping: Returns True once the process shuts down. The call is also the heartbeat of the calling chore.
        exporting: Exporters of spans.
        batch: Rows in one statement.
        late_per_pass: Missed ticks that one pass over the due jobs inserts.
        scan_pace: Pause between two full scans.
        until: Instant by `time.monotonic()` after which checks do not wait; infinite for schedulers.
        served: Shards that may have executions; `served.count` is their number.
    """

    database: Database
    settings: Settings
    hint: Hint
    stopping: Stopping
    exporting: Sequence[Exporting] = ()
    batch: int = BATCH
    late_per_pass: int = LATE_PER_PASS
    scan_pace: ScanPace = PACE
    until: float = math.inf
    served: ShardCount = field(init=False)
    _locked_rows: dict[str, LockedRows] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "served", ShardCount(self.shards, self.database))

    @property
    def shards(self) -> int:
        """Number of shards of new executions."""
        return self.settings.shards(cockroach=self.database.is_cockroach)

    @property
    def ahead_ms(self) -> int:
        """Look-ahead in milliseconds."""
        return int(self.settings.look_ahead_seconds * 1000)

    @property
    def retention_ms(self) -> int:
        """Retention of finished executions in milliseconds."""
        return int(self.settings.retention_days * 24 * 3600 * 1000)

    def creator(self) -> Creator:
        """Return a creator of jobs with the settings of the process; built once for each kind of bulk job."""
        return Creator(self.database, shards=self.shards, look_ahead_ms=self.ahead_ms)

    def hint_all(self, queues: Iterable[str]) -> None:
        """Wake the workers of queues that have new claimable executions."""
        for queue in queues:
            self.hint(queue)

    def until_short(self, do_batch: Run[int], size: int | None = None) -> int:
        """Repeat until a batch is shorter than `size`, or the process stops.

        Args:
            do_batch: Processes one batch in a transaction and returns the number of its rows.
            size: Rows of a full batch; None for `batch`.

        Returns:
            The sum of the batches.

        Example:
            counts = Counts(held=context.until_short(partial(store.hold, context.database, limit=context.batch)))
        """
        total, size = 0, self.batch if size is None else size
        while not self.stopping():
            done = do_batch()
            total += done
            if done < size:
                break
            report_progress()
        return total

    def delete(self, deletion: NamedStatement, params: Mapping[str, object] | None = None, work: str = "") -> int:
        """Delete all rows of a deletion that are not locked; log the rows that stay locked from run to run.

        Args:
            deletion: Result of `app.kernel.db.deletion.deletion`.
            params: Parameters of its condition; `since` if its batches are in no order of time.
            work: Name of the work if a run repeats the deletion with other parameters.

        Returns:
            The number of deleted rows.
        """
        locked: Sequence[str] = ()
        given = {"since": EPOCH, **(params or {}), "limit": self.batch}

        def batch() -> int:
            nonlocal locked
            (row,) = self.database.fetch(deletion, given)
            locked, given["since"] = row.locked, getattr(row, "reached", None) or given["since"]
            return int(row.deleted)

        # Another scheduler can make a batch short, so only an empty batch is the end.
        total = self.until_short(batch, 1)
        self.skipped(work or deletion.name, "its deletion waits", locked)
        return total

    def skipped(self, work: str, consequence: str, names: Iterable[str]) -> None:
        """Take the names of all rows that a run has skipped as locked, and log the rows with a long lock.

        Args:
            work: Name of the work of the run, unique within the scheduler.
            consequence: Clause of the warning, such as "its deletion waits".
            names: Names of the rows, such as "execution exec_1".
        """
        locked_rows = self._locked_rows.setdefault(work, LockedRows(consequence))
        locked_rows.note({LockedRow(name) for name in names})


@dataclass(slots=True)
class ChoreRun:
    """Run of a chore on the current thread.

    Attributes:
        chore: Name of the chore.
        counts: Changes made so far, logged also if the run fails.
        silent_polls: Polls of the process since the last heartbeat of the run.
    """

    chore: str
    counts: Counts = field(default_factory=Counts)
    silent_polls: int = 0


CURRENT_RUN: ContextVar[ChoreRun | None] = ContextVar("chore_run", default=None)


def counts_so_far() -> Counts:
    """Return the counts of the current run; a chore that works in batches adds to them after each batch.

    Returns:
        Counts of the run on this thread, which stay if the run fails later; new counts outside a run.

    Example:
        counts = counts_so_far()
        while not context.stopping() and (ended := expire_batch()):
            counts.update(expired=ended)
        return counts
    """
    run = CURRENT_RUN.get()
    return Counts() if run is None else run.counts


def report_progress() -> None:
    """Record that the current run has finished a batch and continues; does nothing outside a run."""
    if (run := CURRENT_RUN.get()) is not None:
        PROCESS.set(series.CHORE_AT, time.time(), run.chore)
