"""Unwritten: what waits to be written to the database, and the batches in which it is tried.

What fails together is tried once more together and then in halves, down to single items, so that no item holds up the
others for longer than it takes to find it. Batches that have failed take turns with new ones.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from app.queue.claiming.release import Release
from app.queue.executions.completion import Conclusion
from app.queue.executions.execution_model import ClaimKey
from app.queue.executions.soft_limit import SoftLimitPassed

T = TypeVar("T", Conclusion, Release, SoftLimitPassed)

MOST_PER_BATCH = 500
FITTING = 16  # items that are no larger together, however large each: 24 KiB of a body, each byte as a \\u0000
MOST_BYTES = 4 * 1024 * 1024  # a quarter of the largest message that CockroachDB reads
TRIES_WHOLE = 2
RETRY_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0)


@dataclass(slots=True)
class Batch(Generic[T]):
    """Items that are written in one statement, and what became of it so far."""

    items: list[T]
    failures: int = 0
    failures_alone: int = 0  # of a single item
    is_reported: bool = False
    is_bare: bool = False  # a single item without what the database refused
    is_refused: bool = False  # refused for good: waits for nothing but the loss of its claim


class Unwritten(Generic[T]):
    """New items in the order of their arrival, and batches to be tried again: `count` items; not thread-safe."""

    def __init__(self, retry_seconds: Sequence[float] = RETRY_SECONDS) -> None:
        self._retry_seconds = retry_seconds
        self._new: deque[T] = deque()
        self._again: list[tuple[float, int, Batch[T]]] = []  # a heap, by the instant to try at
        self._order = itertools.count()
        self._is_turn_of_new = True
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def add(self, item: T) -> None:
        """Take a new item."""
        self._new.append(item)
        self.count += 1

    def take(self, now: float) -> Batch[T] | None:
        """Take what is to be tried next; None when nothing is due."""
        is_again_due = bool(self._again) and self._again[0][0] <= now
        if not (self._new or is_again_due):
            return None
        if self._new and (self._is_turn_of_new or not is_again_due):
            batch = Batch([self._new.popleft() for _ in range(min(MOST_PER_BATCH, len(self._new)))])
            self._is_turn_of_new = False
        else:
            batch = heapq.heappop(self._again)[2]
            self._is_turn_of_new = True
        self.count -= len(batch.items)
        return batch

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
        """Keep a batch that could not be written: whole after its first failure, in halves after the next ones."""
        batch.failures += 1
        if batch.failures >= TRIES_WHOLE and len(batch.items) > 1:
            self.put_back_halves(batch, now)
            return
        alone = len(batch.items) == 1
        batch.failures_alone += alone
        tries = batch.failures_alone if alone else batch.failures
        self.put_back(batch, now + self._retry_seconds[min(tries, len(self._retry_seconds)) - 1])

    def next_due(self) -> float:
        """Return when `take` returns something, if nothing is added; only where something waits."""
        return 0.0 if self._new else self._again[0][0]

    def keys(self) -> set[ClaimKey]:
        """List the keys of all that waits."""
        waiting = itertools.chain(self._new, *(batch.items for _, _, batch in self._again))
        return {item.key for item in waiting}

    def may_end(self) -> bool:
        """Return whether nothing waits that could still be written."""
        return not self._new and all(batch.is_refused for _, _, batch in self._again)

    def clear(self) -> None:
        """Forget everything."""
        self._new.clear()
        self._again.clear()
        self.count = 0


def by_bytes(batch: Batch[Conclusion]) -> Iterator[Batch[Conclusion]]:
    """Cut a batch into such as are no larger than a statement may be; one item alone may be larger."""
    part: list[Conclusion] = []
    total = 0
    for item in batch.items:
        size = item.size
        if part and total + size > MOST_BYTES:
            yield Batch(part, batch.failures)
            part, total = [], 0
        part.append(item)
        total += size
    yield Batch(part, batch.failures)
