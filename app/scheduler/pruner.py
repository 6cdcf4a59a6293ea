"""Pruner: deletes what is older than the retention."""

import random
import time
from collections.abc import Callable, Sequence
from functools import partial

from app.catalog import superseded_configs
from app.features.breakers import breaker_pruning
from app.features.bulk_jobs.store import BULK_OPERATIONS
from app.features.dead_letters.redrives import REDRIVES
from app.features.limits import store as limits_store
from app.features.notifications import notification_pruning as notifications
from app.features.results import store as results_store
from app.kernel import audit, idempotency
from app.kernel.config import Settings
from app.kernel.db import Database
from app.kernel.db.paging import Position
from app.kernel.formats import EPOCH
from app.kernel.processes import process_heartbeat, worker_commands
from app.queue.executions import execution_pruning
from app.scheduler.chore import BATCH, Counts, Stopping, until_short

DAY_MS = 24 * 3600 * 1000
MAX_PRUNE_SECONDS = 900.0  # what is left waits for the next run
# In one statement each. Most executions have one attempt and one log line: once through their children is the rule.
EXECUTIONS, CHILDREN = 1_000, 2_000


class Pruner:
    """The chores that delete; `survey` returns the number of shards, `deleted` is told how many executions are gone."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        survey: Callable[[], int],
        stopping: Stopping,
        deleted: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._database = database
        self._settings = settings
        self._survey = survey
        self._stopping = stopping
        self._deleted = deleted

    def prune(self) -> Counts:
        """Delete what finished before the retention, the oldest first; then worker rows of the distant past."""
        counts = Counts()
        ends_at = time.monotonic() + MAX_PRUNE_SECONDS
        shards = self._survey()
        # Anywhere, so that the last shards get their turn where time runs out, and several schedulers differ.
        first = random.randrange(shards)
        for shard in (*range(first, shards), *range(first)):
            self._prune_shard(shard, ends_at, counts)
        counts.update(workers=execution_pruning.prune_workers(self._database, limit=BATCH))
        retention_ms = int(self._settings.retention_days * DAY_MS)
        told = partial(notifications.prune_groups, self._database, retention_ms=retention_ms, limit=BATCH)
        subjects = partial(notifications.prune_subjects, self._database, limit=BATCH)
        counts.update(notifications=sum(self._until_short(each, BATCH) for each in (told, subjects)))
        counts.update(notifications=self._until_short(self._prune_astray, 1))
        for name, walks in (("redrives", REDRIVES), ("bulk_operations", BULK_OPERATIONS)):
            prune = partial(walks.prune, self._database, retention_ms=retention_ms, limit=BATCH)
            counts.update({name: self._until_short(prune, BATCH)})
        return counts

    def _prune_astray(self) -> int:
        return sum(notifications.prune_astray(self._database, limit=BATCH))

    def _prune_shard(self, shard: int, ends_at: float, counts: Counts) -> None:
        retention_ms, after = int(self._settings.retention_days * DAY_MS), Position.behind(EPOCH)
        while not self._stopping() and time.monotonic() < ends_at:
            expired = execution_pruning.expired(
                self._database, shard=shard, after=after, retention_ms=retention_ms, limit=EXECUTIONS
            )
            if expired.executions:
                self._prune_batch(expired.executions, retention_ms, counts)
            if expired.seen < EXECUTIONS:
                break
            after = expired.reached

    def _prune_batch(self, executions: Sequence[str], retention_ms: int, counts: Counts) -> None:
        self._until_short(
            partial(execution_pruning.prune_children, self._database, executions, limit=CHILDREN), CHILDREN
        )
        if not self._stopping():
            pruned = execution_pruning.prune_executions(self._database, executions, retention_ms=retention_ms)
            counts.update(executions=pruned.executions, jobs=pruned.jobs)
            self._deleted(pruned.executions)

    def prune_versions(self, jobs: Sequence[str]) -> Counts:
        """Delete those of the repeating jobs that ended before the retention, old versions among them."""
        retention_ms = int(self._settings.retention_days * DAY_MS)
        return Counts(versions=execution_pruning.prune_versions(self._database, jobs, retention_ms=retention_ms))

    def prune_audit(self) -> Counts:
        """Delete entries of the audit log that are older than its own retention, the oldest first."""
        retention_ms = int(self._settings.audit_retention_days * DAY_MS)
        # A batch is also short when another scheduler was faster, so only an empty one is the end.
        delete = partial(audit.prune, self._database, retention_ms=retention_ms, limit=BATCH)
        return Counts(entries=self._until_short(delete, 1))

    def prune_configs(self) -> Counts:
        """Delete superseded values of configs that no unfinished execution began with."""
        up_to = superseded_configs.needless_up_to(self._database, self._stopping)
        if up_to is None:
            return Counts()
        delete = partial(superseded_configs.prune, self._database, up_to=up_to, limit=BATCH)
        return Counts(values=self._until_short(delete, BATCH))

    def prune_keys(self) -> Counts:
        """Delete idempotency keys that have been kept for their time, the oldest first."""
        delete = partial(idempotency.prune, self._database, limit=BATCH)
        return Counts(idempotency_keys=self._until_short(delete, 1))

    def prune_gates(self) -> Counts:
        """Delete the gates of keys and endpoints through which nothing went for long."""
        counts = Counts()
        after: str | None = ""
        while after is not None and not self._stopping():
            after, deleted = limits_store.prune(self._database, after=after, limit=BATCH)
            counts.update(gates=deleted)
        return counts

    def prune_breakers(self) -> Counts:
        """Delete the breakers that nobody needs any more, their counts, and events older than the retention."""
        forget = partial(breaker_pruning.forget, self._database, limit=BATCH)
        breakers = partial(breaker_pruning.prune, self._database, limit=BATCH)
        retention_ms = int(self._settings.retention_days * DAY_MS)
        events = partial(breaker_pruning.prune_events, self._database, retention_ms=retention_ms, limit=BATCH)
        return Counts(
            forgotten=self._until_short(forget, BATCH),
            breakers=self._until_short(breakers, BATCH),
            breaker_counts=breaker_pruning.prune_counts(self._database, limit=BATCH, stopping=self._stopping),
            breaker_events=self._until_short(events, 1),
        )

    def prune_results(self) -> Counts:
        """Delete what receivers answered longer ago than their endpoints keep it, the shortest retention first."""
        counts = Counts()
        for shard in range(self._survey()):
            retention_ms: int | None = 0
            while retention_ms is not None and not self._stopping():
                if retention_ms:
                    counts.update(results=self._prune_results_of(shard, retention_ms))
                retention_ms = results_store.next_retention(self._database, shard=shard, after=retention_ms)
        return counts

    def _prune_results_of(self, shard: int, retention_ms: int) -> int:
        pruned, since = 0, EPOCH
        while not self._stopping():
            found, since = results_store.expired(
                self._database, shard=shard, retention_ms=retention_ms, since=since, limit=results_store.BATCH
            )
            pruned += results_store.prune(self._database, found) if found else 0
            if len(found) < results_store.BATCH:
                break
        return pruned

    def prune_heartbeats(self) -> Counts:
        """Delete the rows of processes of which nothing was heard for ten minutes, however many start and end.

        And commands to workers, after a day.
        """
        delete = partial(process_heartbeat.prune, self._database, limit=BATCH)
        old_commands = partial(worker_commands.prune, self._database, limit=BATCH)
        return Counts(heartbeats=self._until_short(delete, BATCH), commands=self._until_short(old_commands, BATCH))

    def _until_short(self, do_batch: Callable[[], int], size: int) -> int:
        return until_short(do_batch, size, self._stopping)
