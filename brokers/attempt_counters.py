"""Tally: what a worker process counts of each attempt, without a lock and hardly a call."""

import time
from bisect import bisect_left
from collections.abc import Collection, Sequence

from app.kernel.metrics import series
from app.kernel.metrics.values import Values
from app.queue.executions.completion import Conclusion
from schema.states import ExecutionStatus

ATTEMPT = "attempt"  # what made an execution fail: none may follow its last one


class Tally:
    """The values that each attempt changes; whoever changes one is the only thread to do so.

    `te-delivery` counts what was `started`, and its `lateness`; `te-finalizer` calls `wrote` for each batch.
    """

    def __init__(self, values: Values) -> None:
        self.started = values.cells(series.STARTED)
        self.lateness = values.cells(series.LATENESS)
        self._completed = values.cells(series.COMPLETED)
        self._durations = values.cells(series.DURATION)
        self._executed = values.cells(series.EXECUTED)
        self._failed = values.cells(series.FAILED)
        self._uncertain = values.cells(series.UNCERTAIN)
        self._seconds = values.cells(series.CONCLUDE_SECONDS)
        self._rows = values.cells(series.CONCLUDE_ROWS)

    def wrote(self, conclusions: Sequence[Conclusion], effective: Collection[str], asked_at: float) -> None:
        """Count the results that took effect, of those in a statement that was sent at an instant."""
        took, rows = time.monotonic() - asked_at, len(conclusions)
        self._seconds[()][bisect_left(series.CONCLUDE_SECONDS.buckets, took) + 1] += 1
        self._seconds[()][0] += took
        self._rows[()][bisect_left(series.CONCLUDE_ROWS.buckets, rows) + 1] += 1
        self._rows[()][0] += rows
        executed, bounds = 0, series.DURATION.buckets
        for conclusion in conclusions:
            claim, verdict = conclusion.claim, conclusion.verdict
            if len(effective) < rows and claim.execution_id not in effective:
                continue
            kind, status, seconds = claim.endpoint_type, verdict.status, conclusion.duration_ms / 1000
            self._completed[kind, claim.endpoint, status][0] += 1
            cell = self._durations[kind, status]
            cell[bisect_left(bounds, seconds) + 1] += 1
            cell[0] += seconds
            if verdict.error is None:
                executed += 1
                continue
            executed += status is ExecutionStatus.SUCCESS  # its policy ignores the error
            self._failed[ATTEMPT,][0] += status is ExecutionStatus.FAILED
            self._uncertain[kind,][0] += bool(verdict.error.get("may_have_been_delivered"))
        self._executed[()][0] += executed
