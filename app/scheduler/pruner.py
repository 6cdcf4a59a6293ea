"""Pruner: deletes rows older than their retention."""

import random
import time
from collections.abc import Sequence
from functools import partial

from app.catalog import superseded_configs
from app.catalog.endpoints import inline_pruning
from app.kernel import audit, idempotency
from app.kernel.db.paging import Position
from app.kernel.formats import EPOCH
from app.kernel.function_types import Counted, uncounted
from app.kernel.processes import process_heartbeat, worker_commands
from app.queue.executions import execution_pruning
from app.scheduler.chore import ChoreContext, Counts

DAY_MS = 24 * 3600 * 1000
MAX_PRUNE_SECONDS = 900.0  # the next run continues
# Rows per statement. Most executions have one attempt and one log line, so one batch deletes all their children.
EXECUTIONS, CHILDREN = 1_000, 2_000


class Pruner:
    """Chores that delete; `deleted` is called with the number of executions of each batch."""

    def __init__(
        self,
        context: ChoreContext,
        *,
        deleted: Counted = uncounted,
        executions: int = EXECUTIONS,
        children: int = CHILDREN,
        seconds: float = MAX_PRUNE_SECONDS,
    ) -> None:
        self._context = context
        self._page, self._children, self._seconds = executions, children, seconds
        self._database = context.database
        self._deleted = deleted

    def prune(self) -> Counts:
        """Delete executions that finished before the retention, oldest first; then old rows of workers."""
        counts, locked = Counts(), set[str]()
        ends_at = time.monotonic() + self._seconds
        shards = self._context.served.survey()
        # A random first shard: a run that ends early must not always skip the last shards, and schedulers differ.
        first = random.randrange(shards)
        for shard in (*range(first, shards), *range(first)):
            self._prune_shard(shard, ends_at, counts, locked)
        self._context.skipped("executions.prune", "its deletion waits", locked)
        counts.update(workers=self._context.delete(execution_pruning.PRUNE_WORKERS))
        return counts

    def _prune_shard(self, shard: int, ends_at: float, counts: Counts, locked: set[str]) -> None:
        retention_ms = self._context.retention_ms
        after: Position | None = Position.behind(EPOCH)
        while after is not None and not self._context.stopping() and time.monotonic() < ends_at:
            after, executions = execution_pruning.expired(
                self._database, shard=shard, after=after, retention_ms=retention_ms, limit=self._page
            )
            if executions:
                locked.update(self._prune_batch(executions, retention_ms, counts))

    def _prune_batch(self, executions: Sequence[str], retention_ms: int, counts: Counts) -> set[str]:
        """Delete executions; return the names of those with a locked row."""
        self._context.until_short(
            partial(execution_pruning.prune_children, self._database, executions, limit=self._children), self._children
        )
        if self._context.stopping():
            return set()
        done = execution_pruning.prune_executions(self._database, executions, retention_ms=retention_ms)
        counts.update(executions=done.executions, jobs=done.jobs)
        self._deleted(done.executions)
        return {f"execution {each} or a row of it" for each in done.locked}

    def prune_versions(self) -> Counts:
        """Delete repeating jobs, and their old versions, that ended before the retention."""
        counts, retention_ms, all_locked = Counts(), self._context.retention_ms, list[str]()
        after: Position | None = Position(EPOCH, "")
        while after is not None and not self._context.stopping():
            after, deleted, locked = execution_pruning.prune_versions(
                self._database, after=after, retention_ms=retention_ms, limit=self._context.batch
            )
            counts.update(versions=deleted)
            all_locked += locked
        names = {f"job {each}" for each in all_locked}
        self._context.skipped("jobs.prune_versions", "its deletion waits", names)
        return counts

    def prune_audit(self) -> Counts:
        """Delete entries of the audit log that are older than its own retention, oldest first."""
        retention_ms = int(self._context.settings.audit_retention_days * DAY_MS)
        return Counts(entries=self._context.delete(audit.PRUNE, {"retention_ms": retention_ms}))

    def prune_configs(self) -> Counts:
        """Delete superseded values of configs that no unfinished execution uses."""
        up_to = superseded_configs.needless_up_to(self._database, self._context.stopping, page=self._context.batch)
        if up_to is None:
            return Counts()
        return Counts(values=self._context.delete(superseded_configs.PRUNE, {"up_to": up_to}))

    def prune_inline_endpoints(self) -> Counts:
        """Delete inline endpoints that nothing names."""
        return Counts(inline_endpoints=self._context.delete(inline_pruning.PRUNE))

    def prune_keys(self) -> Counts:
        """Delete idempotency keys after their retention, oldest first."""
        return Counts(idempotency_keys=self._context.delete(idempotency.PRUNE))

    def prune_heartbeats(self) -> Counts:
        """Delete rows of processes without a heartbeat for ten minutes, and commands to workers after a day."""
        return Counts(
            heartbeats=self._context.delete(process_heartbeat.PRUNE),
            commands=self._context.delete(worker_commands.PRUNE),
        )
