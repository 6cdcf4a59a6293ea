"""Chores: the repeated work of the scheduler, done in batches until nothing is left."""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial

from app.features import completion_handlers
from app.features.bulk_jobs.bulk_walk import BulkWalk
from app.features.control.chores import REPORT_SECONDS, Reporter
from app.features.dead_letters.redrive_walk import RedriveWalk
from app.features.expiry.chores import Expirer
from app.features.notifications.chores import Notifier
from app.kernel import ids
from app.kernel.config import Settings
from app.kernel.db import Database
from app.kernel.errors import TaskExecutorError
from app.kernel.metrics import PROCESS
from app.kernel.metrics.series import FAILED
from app.kernel.tracing.exporting import Exporting
from app.queue.bulk.walker import Lap, Walker
from app.queue.claiming.depth import Depths
from app.queue.claiming.shards import SURVEY_SECONDS, ShardCount, stored_beyond
from app.queue.executions import on_hold
from app.queue.executions.materialization import due, materialize
from app.queue.executions.promotion import promote
from app.queue.executions.repairs import fail_exhausted
from app.queue.executions.watermark import LowWater
from app.queue.jobs import time_zones, unfinished_changes
from app.queue.jobs.job_creation import Creator
from app.schedule.due_ticks import Advance, DueJob, choose_ticks, makes_up_for_all, may_wait
from app.scheduler.catch_up import CatchUpPace
from app.scheduler.chore import BATCH, Chore, Counts, Hint, Stopping, counts_so_far, got_on, until_short
from app.scheduler.locked_rows import LockedRow, LockedRows
from app.scheduler.outbox_chore import Outbox
from app.scheduler.pruner import Pruner
from app.scheduler.reclaimer import Reclaimer
from app.scheduler.repairs_chore import Sweeper

log = logging.getLogger(__name__)

EXHAUSTED_BATCH = 100
_FAILING = ("reclaim from dead workers", "reclaim of stuck executions", "expire", "exhaust")
MAX_TICKS = 500  # executions per statement


class Chores:
    """The chores over one database; each may run in a thread of its own, and in any number of schedulers."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        hint: Hint,
        stopping: Stopping,
        exporting: Sequence[Exporting] = (),
    ) -> None:
        self._database = database
        self._settings = settings
        self._hint = hint
        self._stopping = stopping
        self._shards = settings.shards(cockroach=database.is_cockroach)
        self._served = ShardCount(self._shards, partial(stored_beyond, database))
        self._ahead_ms = int(settings.look_ahead_seconds * 1000)
        self._ticks = LowWater()
        self._locked_jobs = LockedRows("its ticks wait")
        self._waiting: dict[int, LowWater] = defaultdict(LowWater)  # of each shard
        pruner = Pruner(database, settings, survey=self._served.survey, stopping=stopping)
        self.prune, self.prune_audit, self.prune_configs = pruner.prune, pruner.prune_audit, pruner.prune_configs
        self.prune_keys, self.prune_gates = pruner.prune_keys, pruner.prune_gates
        self.prune_results = pruner.prune_results
        self.prune_breakers, self.prune_heartbeats = pruner.prune_breakers, pruner.prune_heartbeats
        self.expire = Expirer(database, shards=lambda: self._served.count, stopping=stopping).expire
        self.report = Reporter(database, shards=lambda: self._served.count).report
        self.retire = Sweeper(database, self._ahead_ms, pruner.prune_versions, hint=hint, stopping=stopping).retire
        self._outbox = Outbox(database, completion_handlers(), hint=hint, stopping=stopping)
        self.handle_ends = self._outbox.handle
        reclaimer = Reclaimer(
            database,
            self._outbox,
            stuck_ms=int(settings.stuck_timeout_seconds * 1000),
            hint=hint,
            stopping=stopping,
            exporting=exporting,
        )
        self.reclaim_from_dead_workers = reclaimer.reclaim_from_dead_workers
        self.reclaim_stuck = reclaimer.reclaim_stuck
        notifier = Notifier(database, hint=hint, stopping=stopping)
        self.watch, self.notify = notifier.watch, notifier.notify
        creator = Creator(database, shards=self._shards, look_ahead_ms=self._ahead_ms)
        kinds = (RedriveWalk(creator), BulkWalk(creator))
        self._walker = Walker(database, kinds, ids.process_id(), hint=hint, stopping=stopping)
        self._unreadable: set[str] = set()
        self._follows_zones = False

    def plan(self) -> list[Chore]:
        """Return when each chore runs."""
        settings = self._settings
        for name in _FAILING:
            PROCESS.add(FAILED, name, amount=0)  # a rate needs to have seen that before the first one
        dead_every = min(settings.worker_timeout_seconds / 3, settings.reclaim_interval_seconds)
        return [
            Chore("survey of shards", SURVEY_SECONDS, self.survey_shards),
            Chore("materialize", settings.cron_tick_interval_seconds, self.materialize),
            Chore("promote", settings.promote_interval_ms / 1000, self.promote),
            Chore("reclaim from dead workers", dead_every, self.reclaim_from_dead_workers),
            Chore("reclaim of stuck executions", settings.reclaim_interval_seconds, self.reclaim_stuck),
            Chore("outbox", 2, self.handle_ends),
            Chore("walk", 1, self.walk),
            Chore("watch", 5, self.watch),
            Chore("notify", 2, self.notify),
            Chore("retire", 60, self.retire),
            Chore("finish changes", 60, self.finish),
            Chore("expire", 5, self.expire),
            Chore("exhaust", 300, self.exhaust),
            Chore("time zones", 60, self.follow_time_zones),
            Chore("prune", 3600, self.prune),
            Chore("prune_audit", 3600, self.prune_audit),
            Chore("prune_configs", 3600, self.prune_configs),
            Chore("prune_keys", 3600, self.prune_keys),
            Chore("prune_gates", 3600, self.prune_gates),
            Chore("prune_breakers", 60, self.prune_breakers),
            Chore("prune_results", 300, self.prune_results),
            Chore("prune_heartbeats", 60, self.prune_heartbeats),
            *([Chore("report", REPORT_SECONDS, self.report)] if settings.scheduler_metrics_addr else ()),
        ]

    def materialize(self) -> Counts:
        """Insert the executions of every tick that is due within the look-ahead, from each job's own next tick on.

        Downtime delays ticks, and the job says which of them still run: a portion of them in each pass. A locked job is
        skipped, and the next pass tries it again.
        """
        counts = counts_so_far()
        batch = self._settings.cron_batch_size
        last: DueJob | None = None
        pace = CatchUpPace(self._settings.cron_tick_interval_seconds)
        depths = Depths(self._database, self._served.count)
        locked = set[LockedRow]()
        behind = False  # some job of this walk has more ticks in this pass than fitted in its statement
        while not self._stopping():
            found = due(self._database, ahead_ms=self._ahead_ms, limit=batch, since=self._ticks.since, after=last)
            jobs = found.jobs
            advances = self._advances(jobs, pace, depths)
            moved = self._move(advances, pace, counts, locked)
            behind = behind or any(pace.goes_on(advance, len(jobs)) for advance in moved)
            got_on()
            if len(jobs) == batch:
                last = jobs[-1]
            elif behind:
                last, behind = None, False
            else:
                self._ticks.advance(pace.reached(found.now), time.monotonic())
                self._locked_jobs.note(locked)
                break
        return counts

    def _move(
        self, advances: Sequence[Advance], pace: CatchUpPace, counts: Counts, locked: set[LockedRow]
    ) -> list[Advance]:
        """Advance jobs; put each locked job into `locked`, and return the advances of all other jobs."""
        done = materialize(self._database, advances, shards=self._shards)
        self._hint_all(done.queues)
        counts.update(ticks=done.executions, retired=done.retired, skipped=done.skipped)
        for advance in advances:
            if advance.job.job_id in done.locked:
                pace.put_back(advance)
                locked.add(LockedRow(f"job {advance.job.job_id}", advance.job.next_run_at))
        return [advance for advance in advances if advance.job.job_id not in done.locked]

    def _advances(self, jobs: Sequence[DueJob], pace: CatchUpPace, depths: Depths) -> list[Advance]:
        portions = {job.job_id: pace.portion(job, len(jobs)) for job in jobs}
        grace = timedelta(seconds=self._settings.misfire_grace_seconds)
        deep = depths.deep([job.job_id for job in jobs if makes_up_for_all(job, grace)])
        ready = sum(job.next_run_at > job.now or portions[job.job_id] > 0 for job in jobs)
        limit = max(1, MAX_TICKS // max(1, ready))
        advances: list[Advance | None] = []
        for job in jobs:
            try:
                is_put_off = job.job_id in deep and may_wait(job, pace.least(job))
                advance = choose_ticks(job, limit, grace, 0 if is_put_off else portions[job.job_id])
                pace.note(job, advance)
                advances.append(advance)
            except TaskExecutorError as error:
                # Stored, so it was valid once: this machine's time zones may be older. The others must go on.
                if job.job_id not in self._unreadable:
                    self._unreadable.add(job.job_id)
                    log.error("job %s is passed over: %s", job.job_id, error.message)  # noqa: TRY400
        return [found for found in advances if found is not None]

    def follow_time_zones(self) -> Counts:
        """Move next runs that were computed by other time zone rules; once, since a process never changes its own."""
        if self._follows_zones:
            return Counts()
        moved = time_zones.follow_rules(self._database, ahead_ms=self._ahead_ms, stopping=self._stopping)
        self._follows_zones = not self._stopping()
        return Counts(moved=moved)

    def survey_shards(self) -> Counts:
        """Find the shards that hold executions although the setting does not know them."""
        self._served.survey()
        return Counts()

    def promote(self) -> Counts:
        """Queue every PENDING execution due within the look-ahead; hold back the retries of paused jobs."""
        counts = counts_so_far()
        for shard in range(self._served.count):
            self._until_short(partial(self._promote_batch, shard, counts), BATCH)
        counts.update(held=on_hold.hold_retries(self._database))
        return counts

    def _promote_batch(self, shard: int, counts: Counts) -> int:
        mark = self._waiting[shard]
        done = promote(self._database, shard=shard, ahead_ms=self._ahead_ms, limit=BATCH, since=mark.since)
        mark.advance(done.seen_up_to, time.monotonic())
        self._hint_all(done.queues)
        counts.update(promoted=done.queues.total())
        return done.queues.total()

    def walk(self) -> Counts:
        """Go on with the redrives and bulk operations that are under way, each at its rate."""
        counts = counts_so_far()

        def tell(lap: Lap) -> None:
            counts.update(walked=lap.done, refused=lap.refused)

        tell(Lap())
        self._walker.walk(tell)
        return counts

    def finish(self) -> Counts:
        """End the changes of jobs with very many executions that a request was cut off from."""
        done = unfinished_changes.finish(self._database, self._ahead_ms, limit=BATCH, stopping=self._stopping)
        self._hint_all(done.queues)
        return Counts(finished=done.changes)

    def exhaust(self) -> Counts:
        """Fail the executions that wait although all their attempts are used up."""
        counts = counts_so_far()

        def fail_batch() -> int:
            failed = fail_exhausted(self._database, limit=EXHAUSTED_BATCH)
            counts.update(failed=failed)
            return failed

        self._until_short(fail_batch, EXHAUSTED_BATCH)
        return counts

    def _until_short(self, do_batch: Callable[[], int], size: int) -> int:
        return until_short(do_batch, size, self._stopping)

    def _hint_all(self, queues: Iterable[str]) -> None:
        for queue in queues:
            self._hint(queue)
