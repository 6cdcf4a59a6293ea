"""A chore: one entry of the scheduler's plan, and what chores have in common."""

from collections import Counter
from collections.abc import Callable
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


def until_short(do_batch: Callable[[], int], size: int, stopping: Stopping) -> int:
    """Repeat until a batch comes back shorter than `size`, or the process stops; returns the sum of them."""
    total = 0
    while not stopping():
        done = do_batch()
        total += done
        if done < size:
            break
    return total
