"""Pruning of the oldest executions by a dedicated scheduler, and its rate."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg2

from app.dev.process.child import Child, ChildError
from app.dev.stack import programs
from benchmarks import machine
from benchmarks.contenders.ours import Ours

_SHARE = 30  # the oldest thirtieth of the finished executions is pruned
_PATIENCE_SECONDS = 60.0
_SILENCE_SECONDS = 10.0  # longer than a rest of the pruner; without a deletion for so long, pruning has finished
_POLL_SECONDS = 0.02

_CUT = """
SELECT extract(epoch FROM now() - completed_at) / 86400 FROM executions
 WHERE shard = 0 AND completed_at IS NOT NULL
 ORDER BY completed_at OFFSET (SELECT reltuples / %s FROM pg_class WHERE relname = 'executions') LIMIT 1
"""
# PostgreSQL's own counter, updated once a second: counting the rows would cost as much as pruning them.
_DELETED = "SELECT n_tup_del FROM pg_stat_user_tables WHERE relname = 'executions'"


class Pruning:
    """Scheduler whose retention ends within the history."""

    def __init__(self, ours: Ours, child: Child) -> None:
        self._ours = ours
        self._count = _ask(ours, _DELETED)
        if not self._has_progress(_PATIENCE_SECONDS):
            raise ChildError(f"nothing was pruned within {_PATIENCE_SECONDS:.0f} s:\n{child.tail()}")
        self._began, self._before, self._used = time.monotonic(), self._count, self._cpu()
        self.is_over = False

    def rate(self) -> tuple[float, float]:
        """Return the pruned executions per second since the start, and PostgreSQL's CPU ms for each."""
        self.is_over = not self._has_progress(_SILENCE_SECONDS)
        pruned, took = self._count - self._before, time.monotonic() - self._began
        return pruned / took, (self._cpu() - self._used) / max(1, pruned) * 1000

    def _has_progress(self, patience: float) -> bool:
        """Wait until the count changes, for at most `patience` seconds."""
        deadline, before = time.monotonic() + patience, self._count
        while self._count == before and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            self._count = _ask(self._ours, _DELETED)
        return self._count != before

    def _cpu(self) -> float:
        return machine.cpu_seconds(self._ours.database_pid or 0)


@contextmanager
def pruning(ours: Ours) -> Iterator[Pruning]:
    """Lend a pruning that has started; stop it at the end of the block."""
    days = _ask(ours, _CUT, _SHARE)
    name = f"pruner-{len(ours.stack.names)}"
    child = ours.stack.launch(name, programs.SCHEDULER, TE_RETENTION_DAYS=f"{days:.6f}")
    try:
        yield Pruning(ours, child)
    finally:
        ours.stack.terminate(name)


def _ask(ours: Ours, query: str, *values: float) -> float:
    with closing(psycopg2.connect(ours.stack.database_url)) as connection, connection.cursor() as cursor:
        cursor.execute(query, values)
        return float((cursor.fetchone() or [0])[0])
