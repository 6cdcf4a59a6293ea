"""Bulk job store: reads and writes the rows of bulk jobs.

A scheduler holds a bulk job and runs it (app.queue.bulk.bulk_job_runner). One transaction changes a batch of rows,
counts them and stores the cursor, so after a kill -9 the next scheduler starts behind the last processed row.
"""

from typing import Any, Generic, TypeVar

from sqlalchemy import Table, and_, false, func, not_, select
from sqlalchemy.dialects.postgresql import insert

from app.kernel.db import Database
from app.kernel.db.paging import Page, PageRequest, Position, newest_first, page_of
from app.kernel.errors import ConflictError, NotFoundError
from app.kernel.formats import EPOCH
from app.queue.bulk.bulk_job import BatchResult, BulkJob
from app.queue.bulk.bulk_job_statements import BulkJobStatements
from schema.states import BulkJobStatus

HELD_SECONDS = 5  # a scheduler that died is replaced after this
_MAX_REFUSAL = 500


W = TypeVar("W", bound=BulkJob)


class BulkJobStore(Generic[W]):
    """Store of the bulk jobs of one kind; safe to use from several threads.

    The table has the columns of BulkJob except `waits_for_turn`, and `holder` and `held_until`. `key` and `done` are
    names of columns: of the id, and of the number of processed rows. `noun` is the name of the kind in messages.
    """

    def __init__(
        self, table: Table, make: type[W], *, key: str, done: str, noun: str, missing: type[NotFoundError]
    ) -> None:
        self.key, self.done, self.noun = key, done, noun
        self._table, self._columns, self._make, self._missing = table, table.c, make, missing
        is_held = func.coalesce(table.c.held_until > func.now(), false())
        self._waits = and_(table.c.status == BulkJobStatus.RUNNING, not_(is_held)).label("waits_for_turn")
        self.statements = BulkJobStatements.of(table.name, key=key, done=done)

    def begin(self, database: Database, bulk_job_id: str, **values: Any) -> W:
        """Store a RUNNING bulk job; a scheduler starts it within seconds. A second call with the id changes nothing."""
        given = {self.key: bulk_job_id, "status": BulkJobStatus.RUNNING} | values
        database.fetch(insert(self._table).values(given).on_conflict_do_nothing(index_elements=[self.key]))
        return self.get(database, bulk_job_id)

    def get(self, database: Database, bulk_job_id: str) -> W:
        """Read a bulk job; raises the NotFoundError of its kind."""
        rows = database.fetch(select(*self._columns, self._waits).where(self._columns[self.key] == bulk_job_id))
        if not rows:
            raise self._missing.of(bulk_job_id)
        return self._make.from_row(rows[0])

    def page(self, database: Database, wanted: PageRequest) -> Page[W]:
        at, key = self._columns.created_at, self._columns[self.key]
        rows = database.fetch(newest_first(select(*self._columns, self._waits), at, key, wanted))
        return page_of(rows, "created_at", self.key, wanted, self._make.from_row)

    def change(self, database: Database, bulk_job_id: str, status: BulkJobStatus) -> W:
        """Pause, resume or stop a bulk job, after the batch that is being processed; return it in this state.

        Raises the NotFoundError of its kind, or ConflictError for a bulk job that has ended in another state.
        """
        changed = database.fetch(self.statements.change, {"id": bulk_job_id, "status": status.value})
        found = self.get(database, bulk_job_id)
        if not changed and found.status is not status:
            raise ConflictError(f"The {self.noun} {bulk_job_id!r} is {found.status}. Create a new {self.noun}.")
        return found

    def running(self, database: Database, *, limit: int) -> list[str]:
        """Read the ids of running bulk jobs, least recently served first."""
        return [row.id for row in database.fetch(self.statements.running, {"limit": limit})]

    def hold(self, database: Database, bulk_job_id: str, scheduler_id: str) -> bool:
        """Hold a bulk job for HELD_SECONDS, or renew the hold; false if another scheduler holds it, or it is over."""
        params = {"id": bulk_job_id, "holder": scheduler_id, "seconds": HELD_SECONDS}
        return bool(database.fetch_unless_locked(self.statements.hold, params))

    def lock(self, database: Database, bulk_job_id: str, before: Position) -> bool:
        """Lock a bulk job in the ambient transaction; false unless it is RUNNING and its cursor is `before`."""
        return bool(database.fetch(self.statements.lock, {"id": bulk_job_id} | _cursor(before)))

    def advance(
        self, database: Database, bulk_job_id: str, scheduler_id: str, before: Position, result: BatchResult
    ) -> bool:
        """Store the counts and the cursor of a batch in the ambient transaction, after its rows are processed.

        Returns false as `lock` does; the transaction must then roll back.
        """
        params = _cursor(before) | {
            "id": bulk_job_id,
            "holder": scheduler_id,
            "done": result.done,
            "refused": result.refused,
            "refusal": result.refusal and result.refusal[:_MAX_REFUSAL],
            "reached_at": result.reached.at if result.reached.key else None,
            "reached_id": result.reached.key,
            "is_last": result.is_last,
            "seconds": HELD_SECONDS,
        }
        return bool(database.fetch(self.statements.advance, params))


def _cursor(before: Position) -> dict[str, Any]:
    return {"epoch": EPOCH, "before_at": before.at, "before_id": before.key}
