"""Pruner: deletes rows older than their retention."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from app.catalog import superseded_configs
from app.catalog.endpoints import inline_pruning
from app.kernel import audit, idempotency
from app.kernel.access import console_sessions
from app.kernel.db.paging import Position
from app.kernel.formats import EPOCH
from app.kernel.function_types import Counted, uncounted
from app.kernel.processes import actor_processes, process_heartbeat, worker_commands
from app.queue.executions import execution_pruning
from app.scheduler.chore import ChoreContext, Counts

DAY_MS = 24 * 3600 * 1000
MAX_PRUNE_SECONDS = 3_000.0  # the next run, after an hour, continues
# Rows per statement: larger batches cost as much for each row, but hold up others for longer. Few executions have more
# than one attempt or log line, so one batch deletes all their children.
EXECUTIONS, CHILDREN = 250, 500
MAX_SLEEP_SECONDS = 0.1  # until the next check whether the process stops


@dataclass(frozen=True, slots=True)
class PruningPace:
    """Rest after each batch of executions, in multiples of the time that the batch took.

    Pruning takes a tenth of the time, so that deliveries keep their rate: on a busy database it slows down by itself.
    While executions are late, the tables grow, and it takes half of the time.
    """

    usual: float = 9.0
    late: float = 1.0

    def rest(self, took: float, *, are_late: bool) -> float:
        """Return the seconds to rest after a batch that took so many seconds."""
        return took * (self.late if are_late else self.usual)


AT_ONCE = PruningPace(0.0, 0.0)


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
        pace: PruningPace = AT_ONCE,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._context = context
        self._pace, self._sleep = pace, sleep
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
        unhandled = execution_pruning.unhandled_ends(self._database, shard)
        while after is not None and not self._context.stopping() and time.monotonic() < ends_at:
            began = time.monotonic()
            after, executions, are_late = execution_pruning.expired(
                self._database, unhandled, shard=shard, after=after, retention_ms=retention_ms, limit=self._page
            )
            if executions:
                locked.update(self._prune_batch(executions, retention_ms, counts))
                self._rest(self._pace.rest(time.monotonic() - began, are_late=are_late))

    def _rest(self, seconds: float) -> None:
        """Sleep, unless the process stops."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._context.stopping():
            self._sleep(min(left, MAX_SLEEP_SECONDS))

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
        return Counts(inline_endpoints=self._context.delete(inline_pruning.PRUNE, {"since": ""}))

    def prune_keys(self) -> Counts:
        """Delete idempotency keys and sessions of the console after their retention, oldest first."""
        return Counts(
            idempotency_keys=self._context.delete(idempotency.PRUNE),
            sessions=self._context.delete(console_sessions.PRUNE),
        )

    def prune_heartbeats(self) -> Counts:
        """Delete rows of processes without a heartbeat for ten minutes, and commands and user processes after a day."""
        return Counts(
            heartbeats=self._context.delete(process_heartbeat.PRUNE),
            commands=self._context.delete(worker_commands.PRUNE),
            actor_processes=self._context.delete(actor_processes.PRUNE),
        )
