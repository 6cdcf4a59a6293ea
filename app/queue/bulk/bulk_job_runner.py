"""Bulk job runner of a scheduler: runs each bulk job under way, the oldest rows first, each row exactly once.

The transaction that processes a batch also counts it and stores the cursor. A row that cannot be processed is counted
and left unchanged: a failed batch is halved until the failing row is alone. An unexpected error of the code stops the
bulk job at that row, which the log names.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from sqlalchemy.exc import DBAPIError

from app.kernel.db import Database, hardly_wait
from app.kernel.db.paging import Position
from app.kernel.db.retries import explained, is_rows_fault, is_statements_fault
from app.kernel.errors import ConflictError, TaskExecutorError
from app.kernel.function_types import Hint, Stopping
from app.queue.bulk.bulk_job_store import BEGINNING, BatchResult, BulkJob, BulkJobStore
from app.queue.executions.execution_model import Treated

log = logging.getLogger(__name__)

MAX_COUNTED = 10_000  # rows that a preview reads
SAMPLE = 10
MAX_RATE = 10_000  # per second
MAX_RUNNING = 20  # bulk jobs of a kind per round, least recently served first
TURN_SECONDS = 2.0  # per bulk job and round
AT_ONCE = 500  # rows per transaction

Q = TypeVar("Q")
T = TypeVar("T")
W = TypeVar("W", bound=BulkJob)


@dataclass(frozen=True, slots=True)
class FilteredRow(Generic[T]):
    """A row of the index that a bulk job reads, and what is wanted of it; None where the filter does not want it."""

    position: Position
    item: T | None


class BulkJobKind(Protocol[W, Q, T]):
    """Kind of bulk job: `Q` is its filter, `T` an item that it processes."""

    bulk_jobs: BulkJobStore[W]

    def filter_of(self, bulk_job: W) -> Q:
        """Return the filter of a bulk job, bounded by the time of its creation."""
        ...

    def next(self, database: Database, wanted: Q, after: Position, limit: int) -> Sequence[FilteredRow[T]]:
        """Read the next rows of the index, oldest first; fewer than `limit` at the end."""
        ...

    def at_once(self, bulk_job: W) -> int:
        """Return the maximum number of rows per transaction."""
        ...

    def process(self, bulk_job: W, items: Sequence[T]) -> Treated:
        """Process items in the ambient transaction of this thread; an error rolls back the whole batch."""
        ...


@dataclass(frozen=True, slots=True)
class BulkPreview(Generic[T]):
    """Preview of a bulk job: number of matching rows and the first of them; incomplete if not all were counted."""

    count: int
    sample: Sequence[T]
    is_complete: bool


class BulkCounts(NamedTuple):
    """Number of rows processed and refused."""

    done: int = 0
    refused: int = 0

    @property
    def rows(self) -> int:
        return self.done + self.refused

    def plus(self, other: "BulkCounts") -> "BulkCounts":
        """Return the sum of two counts."""
        return BulkCounts(self.done + other.done, self.refused + other.refused)


Tell = Callable[[BulkCounts], object]
"""Takes the counts of a batch after its commit."""


class _NotHeldError(Exception):
    """The bulk job was paused or stopped, or another scheduler has continued it."""


def preview(database: Database, kind: BulkJobKind[Any, Q, T], wanted: Q) -> BulkPreview[T]:
    """Preview a bulk job with this filter, from at most MAX_COUNTED rows of its index."""
    found, after, read = list[T](), BEGINNING, 0
    while read < MAX_COUNTED:
        places = kind.next(database, wanted, after, AT_ONCE)
        found += [place.item for place in places if place.item is not None]
        read += len(places)
        if len(places) < AT_ONCE:
            return BulkPreview(len(found), found[:SAMPLE], is_complete=True)
        after = places[-1].position
    return BulkPreview(len(found), found[:SAMPLE], is_complete=not kind.next(database, wanted, after, 1))


class BulkJobRunner:
    """Runner of bulk jobs of several kinds, for the scheduler `who`."""

    def __init__(
        self,
        database: Database,
        kinds: Sequence[BulkJobKind[Any, Any, Any]],
        who: str,
        *,
        hint: Hint,
        stopping: Stopping,
    ) -> None:
        self._database = database
        self._kinds = kinds
        self._who = who
        self._hint = hint
        self._stopping = stopping

    def run(self, tell: Tell | None = None) -> BulkCounts:
        """Process each bulk job for one turn, up to one second's worth of its rate; returns the sum of the counts.

        `tell` gets the counts of each batch after its commit. The error of a failed bulk job is raised after the turns
        of all other bulk jobs.
        """
        total, failure = BulkCounts(), None
        for kind in self._kinds:
            for bulk_job_id in kind.bulk_jobs.running(self._database, limit=MAX_RUNNING):
                if self._stopping():
                    break
                try:
                    total = total.plus(self._go_on(kind, bulk_job_id, tell))
                except Exception as error:  # noqa: BLE001 - raised below
                    why = " ".join([explained(error), *getattr(error, "__notes__", ())])
                    log.warning("could not continue %s %s: %s; retrying", kind.bulk_jobs.noun, bulk_job_id, why)
                    failure = failure or error
        if failure is not None:
            raise failure
        return total

    def _go_on(self, kind: BulkJobKind[Any, Any, Any], bulk_job_id: str, tell: Tell | None) -> BulkCounts:
        if not kind.bulk_jobs.hold(self._database, bulk_job_id, self._who):
            return BulkCounts()
        batch = _Batch(self._database, kind, bulk_job_id, self._who, hint=self._hint, tell=tell)
        return batch.take(self._stopping)


class _Batch(Generic[W, Q, T]):
    """Turn of one bulk job, which this scheduler holds."""

    def __init__(
        self,
        database: Database,
        kind: BulkJobKind[W, Q, T],
        bulk_job_id: str,
        who: str,
        *,
        hint: Hint,
        tell: Tell | None,
    ) -> None:
        self._database = database
        self._kind = kind
        self._bulk_job_id = bulk_job_id
        self._who = who
        self._hint = hint
        self._tell = tell
        self._bulk_job = kind.bulk_jobs.get(database, bulk_job_id)

    def take(self, stopping: Stopping) -> BulkCounts:
        """Process batches until the rate, TURN_SECONDS or the end is reached, or the hold is lost."""
        wanted, at_once = self._kind.filter_of(self._bulk_job), self._kind.at_once(self._bulk_job)
        after, until, total = self._bulk_job.reached, time.monotonic() + TURN_SECONDS, BulkCounts()
        while not stopping():
            places = self._kind.next(self._database, wanted, after, AT_ONCE)
            taken = up_to(places, min(self._bulk_job.rate - total.rows, at_once))
            is_last = len(taken) == len(places) < AT_ONCE
            try:
                total = total.plus(self._process(after, taken, is_last=is_last))
            except _NotHeldError:
                break
            if is_last or total.rows >= self._bulk_job.rate or time.monotonic() >= until:
                break
            after = taken[-1].position
        return total

    def _process(self, after: Position, places: Sequence[FilteredRow[T]], *, is_last: bool) -> BulkCounts:
        """Process the matching rows, in one transaction if possible."""
        items = [place.item for place in places if place.item is not None]
        try:
            return self._step(after, places, is_last=is_last)
        except _NotHeldError:
            raise
        except Exception as error:
            refusal = _refusal(error)
            if not items or (refusal is None and _is_no_rows(error)):
                raise
            if len(items) == 1:
                if refusal is None:
                    error.add_note(f"at {next(place.position.key for place in places if place.item is not None)}")
                    raise
                return self._step(after, places, Treated(refused={"": refusal}), is_last=is_last)
        half = len(places) // 2
        first = self._process(after, places[:half], is_last=False)
        return first.plus(self._process(places[half - 1].position, places[half:], is_last=is_last))

    def _step(
        self, after: Position, places: Sequence[FilteredRow[T]], refused: Treated | None = None, *, is_last: bool
    ) -> BulkCounts:
        """Process the matching rows, unless they are refused, and move the cursor behind all rows."""
        items = [place.item for place in places if place.item is not None]
        reached = places[-1].position if places else after

        def body() -> tuple[Treated, BulkCounts]:
            self._database.transact(hardly_wait)
            if not self._kind.bulk_jobs.lock(self._database, self._bulk_job_id, after):
                raise _NotHeldError
            treated = refused or (self._kind.process(self._bulk_job, items) if items else Treated())
            counts = BulkCounts(len(items) - len(treated.refused), len(treated.refused))
            refusal = next((error.message for error in [*treated.refused.values()][::-1]), None)
            step = BatchResult(reached, counts.done, counts.refused, refusal, is_last=is_last)
            if not self._kind.bulk_jobs.advance(self._database, self._bulk_job_id, self._who, after, step):
                raise _NotHeldError
            return treated, counts

        treated, counts = self._database.transact_jointly(body)
        if self._tell is not None:
            self._tell(counts)
        for queue in treated.queues:
            self._hint(queue)
        return counts


def _refusal(error: Exception) -> TaskExecutorError | None:
    """Return the reason why a row cannot be processed; None if the fault is not the row's."""
    if isinstance(error, TaskExecutorError):
        return error if error.status < 500 else None
    if not isinstance(error, DBAPIError) or not is_rows_fault(error) or is_statements_fault(error):
        return None
    log.warning("bulk job: cannot process row: %s", explained(error))
    return ConflictError(f"A stored row is invalid ({type(error).__name__}): repair or archive it.")


def _is_no_rows(error: Exception) -> bool:
    """Return whether the error cannot be caused by a row."""
    return isinstance(error, DBAPIError | TaskExecutorError)


def up_to(places: Sequence[FilteredRow[T]], most: int) -> Sequence[FilteredRow[T]]:
    """Return the first rows with at most `most` matches, and the rows without a match behind the last of them."""
    matches = 0
    for number, place in enumerate(places):
        matches += place.item is not None
        if matches > most:
            return places[:number]
    return places
