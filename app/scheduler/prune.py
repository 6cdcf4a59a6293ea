"""The chore that deletes what is older than the retention."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from app.db import Database
from app.executions import pruning
from app.scheduler.chore import Stopping

BATCH = 500
MAX_RUN_SECONDS = 900.0  # what is left waits for the next run


@dataclass(frozen=True, slots=True)
class PruneCounts:
    """What a run did."""

    executions: int
    jobs: int
    workers: int


class Prune:
    """Deletes finished executions shard by shard, the oldest first; then worker rows of the distant past."""

    name = "prune"

    def __init__(self, database: Database, *, shards: int, retention_ms: int, stopping: Stopping) -> None:
        self._database = database
        self._shards = shards
        self._retention_ms = retention_ms
        self._stopping = stopping

    def run_once(self) -> PruneCounts:
        """Delete in batches until nothing has expired, or the time of a run is over."""
        deadline = time.monotonic() + MAX_RUN_SECONDS
        executions = jobs = 0
        for shard in range(self._shards):
            while not self._stopping() and time.monotonic() < deadline:
                expired = pruning.expired(self._database, shard=shard, retention_ms=self._retention_ms, limit=BATCH)
                pruned = self._delete(expired)
                executions, jobs = executions + pruned.executions, jobs + pruned.jobs
                if len(expired) < BATCH:
                    break
        return PruneCounts(executions, jobs, pruning.prune_workers(self._database, limit=BATCH))

    def _delete(self, executions: list[str]) -> pruning.Pruned:
        if not executions:
            return pruning.Pruned(0, 0)
        self._until_short(lambda: pruning.prune_logs(self._database, executions, limit=BATCH))
        self._until_short(lambda: pruning.prune_attempts(self._database, executions, limit=BATCH))
        self._until_short(lambda: pruning.prune_events(self._database, executions, limit=BATCH))
        if self._stopping():
            return pruning.Pruned(0, 0)
        return pruning.prune_executions(self._database, executions, retention_ms=self._retention_ms)

    def _until_short(self, delete: Callable[[], int]) -> None:
        while not self._stopping() and delete() == BATCH:
            pass
