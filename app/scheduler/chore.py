"""A chore: one entry of the scheduler's plan, and what chores have in common."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

BATCH = 500  # rows in one statement

Counts = Counter[str]
"""Counts of what one run of a chore changed, by name; the log shows those that are not zero."""

Hint = Callable[[str], None]
"""Takes the name of a queue in which something became claimable; may be lost."""

Stopping = Callable[[], bool]
"""Returns true once a chore shall end between two statements."""


@dataclass(frozen=True, slots=True)
class Chore:
    """One entry of the plan: what runs, under which name, and how often; the first time at once."""

    name: str
    every_seconds: float
    run: Callable[[], Counts]


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of a chore: what it has done so far, and whom to tell that it gets on."""

    counts: Counts
    tell: Callable[[], None]


_CURRENT: ContextVar[_Run | None] = ContextVar("run", default=None)


@contextmanager
def counting(tell: Callable[[], None]) -> Iterator[Counts]:
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


def until_short(do_batch: Callable[[], int], size: int, stopping: Stopping) -> int:
    """Repeat until a batch comes back shorter than `size`, or the process stops; returns the sum of them."""
    total = 0
    while not stopping():
        done = do_batch()
        total += done
        if done < size:
            break
        got_on()
    return total
