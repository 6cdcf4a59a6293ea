"""Rate at which the oldest executions are pruned beside a drain, and what the drain keeps of its rate."""

import time
from contextlib import closing
from dataclasses import dataclass

import psycopg2

from app.dev.process.child import Child, ChildError
from app.dev.stack import programs
from benchmarks.arrivals import Arrivals
from benchmarks.contenders.ours import Ours
from benchmarks.measures import drain
from benchmarks.report.results import Figure, Section
from benchmarks.report.run import Run

_SHARE = 30  # each round prunes one part in so many of what is there, the oldest
_PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.2

_CUT = """
SELECT extract(epoch FROM now() - created_at) / 86400 FROM executions WHERE completed_at IS NOT NULL
 ORDER BY created_at OFFSET %s LIMIT 1
"""
_COUNT = "SELECT count(*) FROM executions WHERE completed_at IS NOT NULL"
# What is there of those that are to go.
_LEFT = "SELECT count(*) FROM executions WHERE created_at < now() - %s * INTERVAL '1 day'"

PRUNED = Figure("executions pruned beside a drain", "1/s")
KEPT = Figure("that drain, by one without", "", 2)


@dataclass(slots=True)
class _Pruning:
    """One more scheduler whose retention ends within the history."""

    ours: Ours
    child: Child | None = None
    before: int = 0
    began: float = 0.0
    days: float = 0.0

    def start(self) -> None:
        """Start it and wait until it has begun."""
        count = int(self._ask(_COUNT))
        self.days = float(self._ask(_CUT, count // _SHARE))
        everything = int(self._ask(_LEFT, self.days))
        name = f"pruner-{len(self.ours.stack.names)}"
        self.child = self.ours.stack.launch(name, programs.SCHEDULER, TE_RETENTION_DAYS=f"{self.days:.6f}")
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while (left := self.left()) >= everything:
            if time.monotonic() > deadline:
                raise ChildError(f"nothing was pruned within {_PATIENCE_SECONDS:.0f} s:\n{self.child.tail()}")
            time.sleep(_POLL_SECONDS)
        self.before, self.began = left, time.monotonic()

    def stop(self) -> None:
        """Stop it."""
        if self.child is not None:
            self.child.stop(30)

    def left(self) -> int:
        """Return how many are still there of those that are to go."""
        return int(self._ask(_LEFT, self.days))

    def _ask(self, query: str, *values: float) -> float:
        with closing(psycopg2.connect(self.ours.stack.database_url)) as connection, connection.cursor() as cursor:
            cursor.execute(query, values)
            return float((cursor.fetchone() or [0])[0])


def measure(run: Run, ours: Ours, arrivals: Arrivals, count: int, rounds: int) -> Section:
    """Drain without and with a pruning beside it; a part of the history is gone afterwards."""
    section = run.section("Prune")
    for _ in range(rounds):
        run.calibrate()
        alone = drain.drain(ours, arrivals.url, arrivals, count)
        pruning = _Pruning(ours)
        try:
            beside = drain.drain(ours, arrivals.url, arrivals, count, beside=pruning.start)
            left, took = pruning.left(), time.monotonic() - pruning.began
        finally:
            pruning.stop()
        run.calibrate()
        section.add(PRUNED, ours.name, (pruning.before - left) / took)
        section.add(KEPT, ours.name, beside[drain.STEADY] / alone[drain.STEADY])
        if left == 0:
            run.remark(
                "prune: it had nothing left to do before the drain ended, so its rate is too low; use a longer history"
            )
    return section
