"""Bulk job runner of a scheduler: runs each bulk job under way, the oldest rows first, each row exactly once.

The transaction that processes a batch also counts it and stores the cursor. A row that cannot be processed is counted
and left unchanged: a failed batch is halved until the failing row is alone. An unexpected error of the code stops the
bulk job at that row, which the log names.
"""

import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from sqlalchemy.exc import DBAPIError

from app.kernel.db import Database, hardly_wait
from app.kernel.db.paging import Position
from app.kernel.db.retries import explained, is_rows_fault, is_statements_fault
from app.kernel.errors import ConflictError, LockedError, TaskExecutorError
from app.kernel.function_types import Hint, Stopping
from app.queue.bulk.bulk_job import BatchResult, BulkJob
from app.queue.bulk.bulk_job_kind import AT_ONCE, BulkJobKind, FilteredRow
from app.queue.executions.execution_model import OperationResult

log = logging.getLogger(__name__)

MAX_RUNNING = 20  # bulk jobs of a kind per round, least recently served first
TURN_SECONDS = 2.0  # per bulk job and round

T = TypeVar("T")


class BulkCounts(NamedTuple):
    done: int
    refused: int


class _NotHeldError(Exception):
    """The bulk job was paused or stopped, or another scheduler has continued it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkJobRunner:
    """Runner of the bulk jobs of a kind, for one scheduler process. Only one thread may run it at a time.

    `stopping` is asked between batches. `at_once` is the number of rows per read, `max_running` of bulk jobs per run.
    """

    database: Database
    kind: BulkJobKind[Any, Any, Any]
    scheduler_id: str
    hint: Hint
    stopping: Stopping
    at_once: int = AT_ONCE
    max_running: int = MAX_RUNNING

    def run(self, counts: Counter[str] | None = None) -> BulkCounts:
        """Process each bulk job for one turn: up to one second's worth of its rate, or TURN_SECONDS.

        `counts` receives `processed` and `refused` after the commit of each batch. Raises the first error of a bulk
        job, after the turns of all other bulk jobs.
        """
        failure, store = None, self.kind.bulk_jobs
        counts = Counter() if counts is None else counts
        for bulk_job_id in store.running(self.database, limit=self.max_running):
            if self.stopping():
                break
            try:
                if store.hold(self.database, bulk_job_id, self.scheduler_id):
                    _Turn(self, store.get(self.database, bulk_job_id), bulk_job_id, counts).take()
            except Exception as error:  # noqa: BLE001 - raised below
                why = " ".join([explained(error), *getattr(error, "__notes__", ())])
                log.warning("could not continue %s %s: %s; retrying", store.noun, bulk_job_id, why)
                failure = failure or error
        if failure is not None:
            raise failure
        return BulkCounts(counts["processed"], counts["refused"])


class _Turn(NamedTuple):
    runner: BulkJobRunner
    bulk_job: BulkJob
    bulk_job_id: str
    counts: Counter[str]

    def take(self) -> None:
        """Process batches until the rate, TURN_SECONDS or the end is reached, or the hold is lost."""
        kind, at_once, rate = self.runner.kind, self.runner.at_once, self.bulk_job.rate
        wanted, max_matches = kind.filter_of(self.bulk_job), kind.at_once(self.bulk_job)
        after, until, done = self.bulk_job.reached, time.monotonic() + TURN_SECONDS, 0
        while not self.runner.stopping():
            allowed = kind.allowance(self.bulk_job)
            if allowed == 0:
                break
            rows = kind.next(self.runner.database, wanted, after, at_once)
            taken = first_matches(rows, min(rate - done, max_matches, allowed or max_matches))
            is_last = len(taken) == len(rows) < at_once
            try:
                self._process(after, taken, is_last=is_last)
            except _NotHeldError:
                break
            done += sum(row.item is not None for row in taken)
            if is_last or done >= rate or time.monotonic() >= until:
                break
            after = taken[-1].position

    def _process(self, after: Position, rows: Sequence[FilteredRow[Any]], *, is_last: bool) -> None:
        """Process the matching rows, in one transaction if possible."""
        keys = [row.position.key for row in rows if row.item is not None]
        try:
            self._step(after, rows, is_last=is_last)
        except _NotHeldError:
            raise
        except Exception as error:
            refusal = _refusal(error)
            # Without a refusal, these errors are not caused by a row.
            if not keys or (refusal is None and isinstance(error, DBAPIError | TaskExecutorError)):
                raise
            if len(keys) == 1:
                if refusal is None:
                    error.add_note(f"at {keys[0]}")
                    raise
                log.warning("bulk job %s: cannot process %s: %s", self.bulk_job_id, keys[0], explained(error))
                self._step(after, rows, OperationResult(refused={"": refusal}), is_last=is_last)
                return
        else:
            return
        half = len(rows) // 2
        self._process(after, rows[:half], is_last=False)
        self._process(rows[half - 1].position, rows[half:], is_last=is_last)

    def _step(
        self,
        after: Position,
        rows: Sequence[FilteredRow[Any]],
        refused: OperationResult | None = None,
        *,
        is_last: bool,
    ) -> None:
        """Process the matching rows, unless they are refused, and move the cursor behind all rows."""
        items = [row.item for row in rows if row.item is not None]
        reached = rows[-1].position if rows else after
        database, kind = self.runner.database, self.runner.kind

        def body() -> OperationResult:
            database.transact(hardly_wait)
            if not kind.bulk_jobs.lock(database, self.bulk_job_id, after):
                raise _NotHeldError
            treated = refused or (kind.process(self.bulk_job, items) if items else OperationResult())
            number = len(treated.refused)
            refusal = next((error.message for error in [*treated.refused.values()][::-1]), None)
            step = BatchResult(reached, len(items) - number, number, refusal, is_last=is_last)
            if not kind.bulk_jobs.advance(database, self.bulk_job_id, self.runner.scheduler_id, after, step):
                raise _NotHeldError
            return treated

        treated = database.transact_jointly(body)
        self.counts.update(processed=len(items) - len(treated.refused), refused=len(treated.refused))
        for queue in treated.queues:
            self.runner.hint(queue)


def _refusal(error: Exception) -> TaskExecutorError | None:
    """Return the reason why a row cannot be processed; None if the fault is not the row's."""
    if isinstance(error, LockedError):
        return ConflictError("Another transaction holds a lock on the row: repeat the operation later.")
    if isinstance(error, TaskExecutorError):
        return error if error.status < 500 else None
    if not isinstance(error, DBAPIError) or not is_rows_fault(error) or is_statements_fault(error):
        return None
    return ConflictError(f"A stored row is invalid ({type(error).__name__}): repair or archive it.")


def first_matches(rows: Sequence[FilteredRow[T]], max_matches: int) -> Sequence[FilteredRow[T]]:
    """Return the first rows with at most `max_matches` matches, and the rows without a match behind them."""
    matches = 0
    for number, row in enumerate(rows):
        matches += row.item is not None
        if matches > max_matches:
            return rows[:number]
    return rows
