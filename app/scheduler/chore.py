"""Chores: entries of the scheduler's plan, their context and their counts."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field

from app.kernel.config import Settings
from app.kernel.db import Database
from app.kernel.function_types import Hint, Run, Stopping
from app.kernel.metrics import PROCESS, series
from app.kernel.tracing.exporting import Exporting
from app.queue.claiming.shards import ShardCount
from app.queue.executions.watermark import SWEEP_SECONDS

BATCH = 500  # rows in one statement
LATE_PER_PASS = 500  # missed ticks that one pass over the due jobs inserts

Counts = Counter[str]
"""Counts of the changes of one run of a chore, by name; the log shows counts above zero."""


@dataclass(frozen=True, slots=True)
class Chore:
    """Entry of the plan; runs at the start of the process and then at every interval."""

    name: str
    every_seconds: float
    run: Run[Counts]


@dataclass(frozen=True, slots=True)
class ChoreContext:
    """Shared objects of all chores of one scheduler; each chore runs on its own thread."""

    database: Database
    settings: Settings
    hint: Hint
    stopping: Stopping
    exporting: Sequence[Exporting] = ()
    batch: int = BATCH
    late_per_pass: int = LATE_PER_PASS
    full_scan_seconds: float = SWEEP_SECONDS
    served: ShardCount = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "served", ShardCount(self.shards, self.database))

    @property
    def shards(self) -> int:
        """Number of shards of new executions."""
        return self.settings.shards(cockroach=self.database.is_cockroach)

    @property
    def ahead_ms(self) -> int:
        return int(self.settings.look_ahead_seconds * 1000)

    @property
    def retention_ms(self) -> int:
        """Retention of finished executions in milliseconds."""
        return int(self.settings.retention_days * 24 * 3600 * 1000)

    def hint_all(self, queues: Iterable[str]) -> None:
        """Wake the workers of queues that have new claimable executions."""
        for queue in queues:
            self.hint(queue)

    def until_short(self, do_batch: Run[int], size: int | None = None) -> int:
        """Repeat until a batch is shorter than `size`, or the process stops; return the sum of the batches."""
        total, size = 0, self.batch if size is None else size
        while not self.stopping():
            done = do_batch()
            total += done
            if done < size:
                break
            report_progress()
        return total


@dataclass(slots=True)
class ChoreRun:
    """Run of a chore on the current thread; `counts` keeps the changes made before an error."""

    chore: str
    counts: Counts = field(default_factory=Counts)
    silent_polls: int = 0  # since the last heartbeat of the run


CURRENT_RUN: ContextVar[ChoreRun | None] = ContextVar("chore_run", default=None)


def counts_so_far() -> Counts:
    """Return the counts of the current run; a chore that works in batches adds to them after each batch."""
    run = CURRENT_RUN.get()
    return Counts() if run is None else run.counts


def report_progress() -> None:
    """Record that the current run has finished a batch and continues."""
    if (run := CURRENT_RUN.get()) is not None:
        PROCESS.set(series.CHORE_AT, time.time(), run.chore)
