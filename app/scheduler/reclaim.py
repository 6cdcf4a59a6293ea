"""The chores that take executions back: from dead workers, and from claims that are stuck."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from app.db import Database
from app.executions.reclaim import Candidate, Reclaimed, lost, reclaim_lost, reclaim_stuck, stuck
from app.scheduler.chore import Hint, Stopping

BATCH = 500


@dataclass(frozen=True, slots=True)
class ReclaimCounts:
    """What a run did."""

    retrying: int
    failed: int
    cancelled: int


class Reclaim:
    """Finds candidates and takes them back, until a batch comes back short or only others make progress."""

    def __init__(
        self,
        name: str,
        *,
        find: Callable[[], list[Candidate]],
        take: Callable[[Sequence[Candidate]], Reclaimed],
        hint: Hint,
        stopping: Stopping,
    ) -> None:
        self.name = name
        self._find = find
        self._take = take
        self._hint = hint
        self._stopping = stopping

    @classmethod
    def from_dead_workers(cls, database: Database, *, hint: Hint, stopping: Stopping) -> "Reclaim":
        """Take back what belongs to workers without a valid lease."""
        find, take = partial(lost, database, limit=BATCH), partial(reclaim_lost, database)
        return cls("reclaim from dead workers", find=find, take=take, hint=hint, stopping=stopping)

    @classmethod
    def of_stuck(cls, database: Database, *, stuck_ms: int, hint: Hint, stopping: Stopping) -> "Reclaim":
        """Take back what was claimed longer than `stuck_ms` ago."""
        find = partial(stuck, database, stuck_ms=stuck_ms, limit=BATCH)
        take = partial(reclaim_stuck, database, stuck_ms=stuck_ms)
        return cls("reclaim of stuck executions", find=find, take=take, hint=hint, stopping=stopping)

    def run_once(self) -> ReclaimCounts:
        """Take back every candidate there is."""
        retrying = failed = cancelled = 0
        while not self._stopping():
            candidates = self._find()
            done = self._take(candidates)
            for queue in done.queues:
                self._hint(queue)
            retrying, failed = retrying + done.retrying, failed + done.failed
            cancelled += done.cancelled
            if len(candidates) < BATCH or not done.retrying + done.failed + done.cancelled:
                break
        return ReclaimCounts(retrying, failed, cancelled)
