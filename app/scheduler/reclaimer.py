"""Reclaimer: takes executions back from workers that are dead, or that have held them for too long."""

from app.queue.executions.reclaim import START, Reclaimed, candidates, reclaim
from app.scheduler import lost_spans
from app.scheduler.chore import BATCH, ChoreContext, Counts, counts_so_far, until_short
from app.scheduler.locked_rows import LockedRow, LockedRows
from app.scheduler.outbox_chore import Outbox


class Reclaimer:
    """The two chores that reclaim; each run reads all candidates, page by page, and skips locked rows."""

    def __init__(self, context: ChoreContext, outbox: Outbox) -> None:
        self._database = context.database
        self._outbox = outbox
        self._stuck_ms = int(context.settings.stuck_timeout_seconds * 1000)
        self._hint = context.hint
        self._stopping = context.stopping
        self._exporting = context.exporting
        self._lost_locked, self._stuck_locked = LockedRows("reclaim waits"), LockedRows("reclaim waits")

    def reclaim_from_dead_workers(self, page: int = BATCH) -> Counts:
        """Take back the executions of workers without a valid lease."""
        return self._reclaim(None, self._lost_locked, page)

    def reclaim_stuck(self, page: int = BATCH) -> Counts:
        """Take back the executions that were claimed longer ago than the stuck timeout allows."""
        return self._reclaim(self._stuck_ms, self._stuck_locked, page)

    def _reclaim(self, stuck_ms: int | None, locked: LockedRows, page: int) -> Counts:
        counts = counts_so_far()
        after, skipped = START, set[LockedRow]()

        def batch() -> int:
            nonlocal after
            found = candidates(self._database, after, stuck_ms=stuck_ms, limit=page)
            done = reclaim(self._database, found, stuck_ms=stuck_ms)
            self._follow(done, counts)
            skipped.update(map(LockedRow, done.locked))
            after = found[-1].place if found else after
            return len(found)

        until_short(batch, page, self._stopping)
        locked.note(skipped)
        return counts

    def _follow(self, done: Reclaimed, counts: Counts) -> None:
        """Do what follows from the ends of attempts, and count them."""
        for queue in done.queues:
            self._hint(queue)
        for each in self._exporting:
            lost_spans.record(self._database, each, done.ends)
        counts.update(retrying=done.retrying, failed=done.failed, cancelled=done.cancelled, ignored=done.ignored)
        counts.update(self._outbox.handle_named(done.ends))
