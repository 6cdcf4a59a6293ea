"""Sweeper: puts right what was missed at the end, the pause or the resume of a job. A safety net that finds nothing."""

import logging
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from app.kernel.db.paging import Position
from app.kernel.formats import EPOCH
from app.queue.executions import on_hold
from app.queue.executions.repairs import repeating, restart_stalled, retire_finished
from app.scheduler.chore import BATCH, ChoreContext, Counts

log = logging.getLogger(__name__)

STRETCH = 5_000  # jobs that one statement looks at
RUN_SECONDS = 0.5  # what a run spends on jobs that run once, however many there are
MAX_BATCHES = 20  # of repeating jobs in a run
_NEWEST = Position(datetime.max.replace(tzinfo=UTC), "")
_OLDEST = Position(EPOCH, "")


class Sweeper:
    """Walks all jobs, a part in each run: those that run once from the newest on, those that repeat from the oldest on.

    Each walk begins again once it is through, and after a restart.
    """

    def __init__(self, context: ChoreContext, prune_versions: Callable[[Sequence[str]], Counts]) -> None:
        self._database = context.database
        self._ahead_ms = context.ahead_ms
        self._prune_versions = prune_versions
        self._hint = context.hint
        self._stopping = context.stopping
        self._before = _NEWEST
        self._after = _OLDEST

    def retire(self) -> Counts:
        """Walk on through both kinds of jobs."""
        counts = Counts()
        until = time.monotonic() + RUN_SECONDS
        while self._walk_once(counts) and time.monotonic() < until:
            pass
        for _ in range(MAX_BATCHES):
            if not self._walk_repeating(counts):
                break
        return counts

    def _walk_once(self, counts: Counts) -> bool:
        """Look at a stretch of the jobs that run once; returns whether others follow."""
        if self._stopping():
            return False
        stretch = retire_finished(self._database, before=self._before, limit=STRETCH)
        if stretch is not None:
            counts.update(retired=stretch.retired, freed=self._let_go(stretch.held))
        follows = stretch is not None and stretch.seen == STRETCH
        self._before = stretch.reached if stretch is not None and follows else _NEWEST
        return follows

    def _walk_repeating(self, counts: Counts) -> bool:
        """Look at a batch of the jobs that repeat; returns whether others follow."""
        if self._stopping():
            return False
        found = repeating(self._database, after=self._after, limit=BATCH)
        jobs = [position.key for position in found]
        if jobs:
            restarted = restart_stalled(self._database, jobs)
            for job_id in restarted:
                log.warning("job %s stood still and goes on", job_id)
            unheld = on_hold.not_held(self._database, jobs)
            for job_id in unheld:
                on_hold.hold_the_rest(self._database, job_id, stopping=self._stopping)
            counts.update(restarted=len(restarted), freed=self._let_go(jobs), paused=len(unheld))
            counts.update(self._prune_versions(jobs))
        follows = len(found) == BATCH
        self._after = found[-1] if follows else _OLDEST
        return follows

    def _let_go(self, jobs: Sequence[str]) -> int:
        """Let go what is on hold for no pause; returns of how many of the jobs."""
        astray = on_hold.held_astray(self._database, jobs) if jobs else {}
        for job_id, retired_by in astray.items():
            freed = on_hold.let_the_rest_go(
                self._database, job_id, self._ahead_ms, retired_by=retired_by, stopping=self._stopping
            )
            for queue in freed:
                self._hint(queue)
            log.warning("job %s had executions on hold: let go", job_id)
        return len(astray)
