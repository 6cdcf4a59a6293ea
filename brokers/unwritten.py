"""Unwritten: items that wait to be written to the database, and the batches in which they are tried.

A batch that fails is tried once more as a whole and then in halves, down to single items, so that no item delays the
rest for longer than it takes to find it. Failed batches take turns with new batches.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from app.queue.claiming.release import Release
from app.queue.executions.attempt_notes import AttemptNote
from app.queue.executions.completion import Completion
from app.queue.executions.execution_model import ClaimKey

T = TypeVar("T", Completion, Release, AttemptNote)

MAX_PER_BATCH = 500
FITTING = 16  # items that never exceed MAX_BYTES together: 24 KiB of a body, each byte as a \\u0000
MAX_BYTES = 4 * 1024 * 1024  # a quarter of the largest message that CockroachDB reads
TRIES_WHOLE = 2
RETRY_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0)


@dataclass(slots=True)
class Batch(Generic[T]):
    """Items that are written by one statement, and the state of its tries."""

    items: list[T]
    failures: int = 0
    failures_alone: int = 0  # of a single item
    is_reported: bool = False
    is_bare: bool = False  # a single item without the payload that the database refused
    is_refused: bool = False  # refused for good: kept until its claim is lost


class Unwritten(Generic[T]):
    """New items in the order of their arrival, and batches to be tried again; not thread-safe.

    After an append to `new`, increment `count`, the number of all items.
    """

    def __init__(self, retry_seconds: Sequence[float]) -> None:
        self.new: deque[T] = deque()
        self.count = 0
        self._retry_seconds = retry_seconds
        self._again: list[tuple[float, int, Batch[T]]] = []  # a heap, by the instant of the next try
        self._order = itertools.count()
        self._is_turn_of_new = True

    def __len__(self) -> int:
        return self.count

    def take(self, now: float) -> Batch[T] | None:
        """Take the next batch; None when nothing is due."""
        is_again_due = bool(self._again) and self._again[0][0] <= now
        if not (self.new or is_again_due):
            return None
        if self.new and (self._is_turn_of_new or not is_again_due):
            batch = Batch([self.new.popleft() for _ in range(min(MAX_PER_BATCH, len(self.new)))])
            self._is_turn_of_new = False
        else:
            batch = heapq.heappop(self._again)[2]
            self._is_turn_of_new = True
        self.count -= len(batch.items)
        return batch

    def put_first(self, items: Sequence[T]) -> None:
        """Return items of a batch that was never tried to the front of the queue."""
        self.new.extendleft(reversed(items))
        self.count += len(items)

    def put_back(self, batch: Batch[T], due_at: float) -> None:
        """Keep a batch to try it again from an instant on."""
        heapq.heappush(self._again, (due_at, next(self._order), batch))
        self.count += len(batch.items)

    def put_back_halves(self, batch: Batch[T], due_at: float) -> None:
        """Keep a batch of several items to try its halves from an instant on."""
        middle = len(batch.items) // 2
        for half in (batch.items[:middle], batch.items[middle:]):
            self.put_back(Batch(half, batch.failures), due_at)

    def retry(self, batch: Batch[T], now: float) -> None:
        """Keep a batch that could not be written: whole after its first failure, in halves after later failures."""
        batch.failures += 1
        if batch.failures >= TRIES_WHOLE and len(batch.items) > 1:
            self.put_back_halves(batch, now)
            return
        alone = len(batch.items) == 1
        batch.failures_alone += alone
        tries = batch.failures_alone if alone else batch.failures
        self.put_back(batch, now + self._retry_seconds[min(tries, len(self._retry_seconds)) - 1])

    def next_due(self) -> float:
        """Return when `take` returns the next batch if nothing is added; only if there are items."""
        return 0.0 if self.new else self._again[0][0]

    def keys(self) -> set[ClaimKey]:
        """Return the keys of all items."""
        waiting = itertools.chain(self.new, *(batch.items for _, _, batch in self._again))
        return {item.key for item in waiting}

    def may_end(self) -> bool:
        """Return whether no item is left that may still be written."""
        return not self.new and all(batch.is_refused for _, _, batch in self._again)

    def clear(self) -> None:
        """Drop everything."""
        self.new.clear()
        self._again.clear()
        self.count = 0


def beyond_bytes(items: list[T]) -> list[T]:
    """Remove and return the items beyond the bytes that a statement may have; a single item may have more."""
    total = 0
    for number, item in enumerate(items):
        total += item.size if isinstance(item, Completion) else 0
        if total > MAX_BYTES and number:
            rest = items[number:]
            del items[number:]
            return rest
    return []
