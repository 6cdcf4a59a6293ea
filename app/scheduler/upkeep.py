"""Upkeep: the small chores of the kernel."""

import logging
import math
import time
from collections import defaultdict
from collections.abc import Sequence
from functools import partial

from app.kernel.formats import numbered
from app.queue.executions import on_hold
from app.queue.executions.promotion import not_promoted, promote
from app.queue.executions.watermark import LowWater
from app.queue.jobs import moved_schedules, unfinished_changes
from app.scheduler.chore import ChoreContext, Counts, counts_so_far
from app.scheduler.finding import SafetyNet

log = logging.getLogger(__name__)

MAX_NAMED = 10  # locked executions of a shard


class Promoter:
    """Chore that queues delayed executions shortly before they are due; reads each shard from its last end on."""

    def __init__(self, context: ChoreContext) -> None:
        self._context = context
        new_mark = partial(LowWater, pace=context.scan_pace)
        self._marks: dict[int, LowWater] = defaultdict(new_mark)  # by shard
        self._named_at = -math.inf
        self._has_paused_jobs = False  # by the newest answer to a promotion

    def promote(self) -> Counts:
        """Queue all PENDING executions within the look-ahead, and hold the retries of paused jobs if any job is."""
        counts = counts_so_far()
        for shard in range(self._context.served.count):
            self._context.until_short(partial(self._promote_batch, shard, counts))
        if time.monotonic() >= self._named_at + self._context.scan_pace.longest_seconds:
            self._name_locked()
        counts.update(held=on_hold.hold_retries(self._context.database) if self._has_paused_jobs else 0)
        return counts

    def _name_locked(self) -> None:
        """Log the due executions that have stayed locked since the last call."""
        left = list[str]()
        for shard in range(self._context.served.count):
            left += not_promoted(self._context.database, shard=shard, limit=MAX_NAMED)
        self._context.skipped("promote", "it is not queued", {f"execution {each}" for each in left})
        self._named_at = time.monotonic()

    def _promote_batch(self, shard: int, counts: Counts) -> int:
        mark, began = self._marks[shard], time.monotonic()
        queues, seen_up_to, self._has_paused_jobs = promote(
            self._context.database,
            shard=shard,
            ahead_ms=self._context.ahead_ms,
            limit=self._context.batch,
            since=mark.since,
        )
        mark.advance(seen_up_to, began, time.monotonic())
        self._context.hint_all(queues)
        counts.update(promoted=queues.total())
        return queues.total()


class Upkeep:
    """Chores whose only state between two runs is whether the time zones were followed."""

    def __init__(self, context: ChoreContext, nets: Sequence[SafetyNet]) -> None:
        self._context = context
        self._nets = nets
        self._follows_zones = False

    def follow_time_zones(self) -> Counts:
        """Move next runs that other time zone rules computed; once, because a process reads the rules once."""
        if self._follows_zones:
            return Counts()
        moved, locked = moved_schedules.follow_rules(
            self._context.database,
            ahead_ms=self._context.ahead_ms,
            limit=self._context.batch,
            stopping=self._context.stopping,
        )
        self._context.skipped("time zones", "its next run stays", {f"job {each}" for each in locked})
        self._follows_zones = not locked and not self._context.stopping()
        return Counts(moved=moved)

    def survey_shards(self) -> Counts:
        """Find shards beyond the setting that hold executions."""
        self._context.served.survey()
        return Counts()

    def finish(self) -> Counts:
        """Complete interrupted changes of jobs with very many executions."""
        finished, queues, locked = unfinished_changes.finish(
            self._context.database, self._context.ahead_ms, limit=self._context.batch, stopping=self._context.stopping
        )
        self._context.hint_all(queues)
        names = {f"job {each} or one of its executions" for each in locked}
        self._context.skipped("finish changes", "its change is unfinished", names)
        return Counts(finished=finished)

    def repair(self) -> Counts:
        """Run all safety nets and log each repair, because no statement leaves such rows.

        A net that fails does not stop the other nets; its error is raised after them.
        """
        counts, failure = counts_so_far(), None
        for net in self._nets:
            try:
                number = net.repair(self._context)
            except Exception as error:  # noqa: BLE001 - raised below
                failure = error
                continue
            counts.update({net.done: number})
            if number:
                log.warning("repaired: %s", numbered(number, net.noun, net.problem))
        if failure is not None:
            raise failure
        return counts
