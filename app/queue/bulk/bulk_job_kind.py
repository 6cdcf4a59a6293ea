"""Kind of bulk job: the form of redrives and bulk operations, and the preview of a filter."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from app.kernel.db import Database
from app.kernel.db.chunked_scan import RowCount
from app.kernel.db.paging import Position
from app.queue.bulk.bulk_job import BEGINNING, BulkJob
from app.queue.bulk.bulk_job_store import BulkJobStore
from app.queue.executions.execution_model import OperationResult

MAX_COUNTED = 10_000  # rows that a preview reads
SAMPLE = 10
MAX_RATE = 10_000  # per second
AT_ONCE = 500  # rows per transaction
READ_AT_ONCE = 2_500  # rows per read of a preview

Q = TypeVar("Q")
T = TypeVar("T")
W = TypeVar("W", bound=BulkJob)


@dataclass(frozen=True, slots=True)
class FilteredRow(Generic[T]):
    """Row of the index that a bulk job reads; `item` is None if the filter does not match the row."""

    position: Position
    item: T | None


class BulkJobKind(Protocol[W, Q, T]):
    """Form of a kind of bulk job: its row is `W`, its filter `Q`, and an item that it processes `T`.

    A scheduler calls the methods on the thread of the kind's chore; web processes call `next` for a preview.
    `RedriveJob` of the dead letters is an example.
    """

    bulk_jobs: BulkJobStore[W]

    def filter_of(self, bulk_job: W) -> Q:
        """Return the filter of a bulk job, bounded by the time of its creation."""

    def next(self, database: Database, wanted: Q, after: Position, limit: int) -> Sequence[FilteredRow[T]]:
        """Read the next `limit` rows of the index, matching or not, oldest first, without locks; fewer at its end."""

    def count(self, database: Database, wanted: Q, after: Position, limit: int) -> RowCount | None:
        """Count the rows that `next` would read; None if only the rows themselves show whether they match."""

    def at_once(self, bulk_job: W) -> int:
        """Return the maximum number of matching rows per transaction."""

    def allowance(self, bulk_job: W) -> int | None:
        """Return how many more matching rows may be processed for now; asked before each batch.

        0 ends the turn, and the next turn asks again. None sets no bound beside the rate.
        """

    def process(self, bulk_job: W, items: Sequence[T]) -> OperationResult:
        """Process items in the ambient transaction of this thread, which `Database.transact` joins.

        The items are in order, the oldest first. An item may have changed since it was read. After a TaskExecutorError
        the batch is rolled back and halved, until the failing item is alone and counts as refused. A status from 500 on
        ends the turn instead. Any other error stops the bulk job at the failing item; the log names it.
        """


@dataclass(frozen=True, slots=True)
class BulkPreview(Generic[T]):
    """Number of matching rows that were read, and the first SAMPLE items; `is_complete` if all rows were read."""

    count: int
    sample: Sequence[T]
    is_complete: bool


def preview(
    database: Database, kind: BulkJobKind[Any, Q, T], wanted: Q, *, at_once: int = READ_AT_ONCE, most: int = MAX_COUNTED
) -> BulkPreview[T]:
    """Preview a bulk job with a filter, without changes, from up to `most` rows."""
    found, after, read, counted = list[T](), BEGINNING, 0, None
    while read < most:
        rows = kind.next(database, wanted, after, at_once)
        found += [row.item for row in rows if row.item is not None]
        read += len(rows)
        if len(rows) < at_once:
            return BulkPreview(len(found), found[:SAMPLE], is_complete=True)
        after, left = rows[-1].position, max(0, most - read)
        if counted is None:
            rest = kind.count(database, wanted, after, left + 1)  # the last row shows whether any is left
            if rest is not None:
                counted = BulkPreview(len(found) + min(rest.matching, left), found, is_complete=rest.read <= left)
        if counted is not None and len(found) >= min(counted.count, SAMPLE):
            return replace(counted, sample=found[:SAMPLE])
    return BulkPreview(len(found), found[:SAMPLE], is_complete=not kind.next(database, wanted, after, 1))
