"""A chore: one entry of the scheduler's plan, and what chores have in common."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Self

from app.kernel.config import Settings
from app.kernel.db import Database
from app.kernel.function_types import Call, Hint, Run, Stopping
from app.kernel.tracing.exporting import Exporting
from app.queue.claiming.shards import ShardCount, stored_beyond
from app.queue.executions.watermark import SWEEP_SECONDS

BATCH = 500  # rows in one statement

Counts = Counter[str]
"""Counts of what one run of a chore changed, by name; the log shows those that are not zero."""


@dataclass(frozen=True, slots=True)
class Chore:
    """One entry of the plan: what runs, under which name, and how often; the first time at once."""

    name: str
    every_seconds: float
    run: Run[Counts]


@dataclass(frozen=True, slots=True)
class ChoreContext:
    """What the chores of one scheduler are built from; each may run in a thread of its own."""

    database: Database
    settings: Settings
    hint: Hint
    stopping: Stopping
    served: ShardCount
    exporting: Sequence[Exporting] = ()
    batch: int = BATCH
    full_scan_seconds: float = SWEEP_SECONDS

    @classmethod
    def of(
        cls,
        database: Database,
        settings: Settings,
        *,
        hint: Hint,
        stopping: Stopping,
        exporting: Sequence[Exporting] = (),
    ) -> Self:
        """Build the context of the chores over one database."""
        shards = ShardCount(settings.shards(cockroach=database.is_cockroach), partial(stored_beyond, database))
        return cls(database, settings, hint, stopping, shards, exporting)

    @property
    def shards(self) -> int:
        """Return the number of shards of new executions."""
        return self.settings.shards(cockroach=self.database.is_cockroach)

    @property
    def ahead_ms(self) -> int:
        """Return the look-ahead in milliseconds."""
        return int(self.settings.look_ahead_seconds * 1000)

    @property
    def retention_ms(self) -> int:
        """Return for how many milliseconds finished executions are kept."""
        return int(self.settings.retention_days * 24 * 3600 * 1000)

    def hint_all(self, queues: Iterable[str]) -> None:
        """Wake the workers of queues in which something became claimable."""
        for queue in queues:
            self.hint(queue)

    def until_short(self, do_batch: Run[int], size: int | None = None) -> int:
        """Repeat until a batch is shorter than `size`, or the process stops; returns the sum of the batches."""
        return until_short(do_batch, self.batch if size is None else size, self.stopping)


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of a chore: what it has done so far, and whom to tell that it gets on."""

    counts: Counts
    tell: Call


_CURRENT: ContextVar[_Run | None] = ContextVar("run", default=None)


@contextmanager
def counting(tell: Call) -> Iterator[Counts]:
    """Give the counts of the run that this thread begins; they hold what it has done until an error ended it.

    `tell` is called after each of its batches, unless it is the last one.
    """
    run = _Run(Counts(), tell)
    token = _CURRENT.set(run)
    try:
        yield run.counts
    finally:
        _CURRENT.reset(token)


def counts_so_far() -> Counts:
    """Return the counts of the current run, which a chore that acts in batches adds to after each of them."""
    run = _CURRENT.get()
    return Counts() if run is None else run.counts


def got_on() -> None:
    """Tell that the current run has done a batch, and goes on."""
    if (run := _CURRENT.get()) is not None:
        run.tell()


def until_short(do_batch: Run[int], size: int, stopping: Stopping) -> int:
    """Repeat until a batch comes back shorter than `size`, or the process stops; returns the sum of them."""
    total = 0
    while not stopping():
        done = do_batch()
        total += done
        if done < size:
            break
        got_on()
    return total
