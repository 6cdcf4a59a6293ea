"""Bulk job store: background work over all rows of a filter, at a rate; the row of each bulk job holds its progress.

A scheduler holds a bulk job and runs it (app.queue.bulk.bulk_job_runner). One transaction changes a batch of rows,
counts them and stores the cursor, so after a kill -9 the next scheduler starts behind the last processed row.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from sqlalchemy import Table, and_, false, func, not_, select
from sqlalchemy.dialects.postgresql import insert

from app.kernel.db import Database
from app.kernel.db.deletion import deletion
from app.kernel.db.paging import Page, PageRequest, Position, newest_first, page_of
from app.kernel.db.rows import RowValue
from app.kernel.errors import ConflictError, NotFoundError
from app.kernel.formats import EPOCH, rfc3339
from app.kernel.sql import statement
from schema.states import BulkJobStatus

BEGINNING = Position.behind(EPOCH)
HELD_SECONDS = 5  # a scheduler that died is replaced after this
_MAX_REFUSAL = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkJob(RowValue):
    """Row of a bulk job, with the columns that every kind has. A subclass adds its key and its count of processed rows.

    Attributes:
        status: RUNNING, PAUSED, STOPPED or DONE.
        waits_for_turn: Whether the bulk job is RUNNING but no scheduler holds it.
        wanted: Filter as stored; see `stored_filter` and `loaded_filter`.
        rate: Largest number of rows to process in a second.
        actor: Requester, such as the name of an API key; None if unknown.
        refused: Number of rows that could not be processed.
        last_refusal: Message of the last refused row; None without refused rows.
        reached_at: Time column of the last processed row; None before the first row.
        reached_id: Key of the last processed row; empty before the first row.
        created_at: Start; later rows are not touched.
        ended_at: Instant of STOPPED or DONE; None before.

    Example:
        @dataclass(frozen=True, slots=True, kw_only=True)
        class Redrive(BulkJob):
            redrive_id: str
            to_endpoint: str | None
            redriven: int
    """

    status: BulkJobStatus
    waits_for_turn: bool
    wanted: dict[str, Any]
    rate: int
    actor: str | None
    refused: int
    last_refusal: str | None
    reached_at: datetime | None
    reached_id: str
    created_at: datetime
    ended_at: datetime | None

    @property
    def reached(self) -> Position:
        """Return the cursor: the position of the last processed row."""
        return BEGINNING if self.reached_at is None else Position(self.reached_at, self.reached_id)


W = TypeVar("W", bound=BulkJob)


@dataclass(frozen=True, slots=True)
class BatchResult:
    """Result of one batch.

    Attributes:
        reached: New cursor, the position of the last row of the batch.
        done: Number of processed rows.
        refused: Number of refused rows.
        refusal: Message of the last refused row; None without refused rows.
        is_last: Whether no row is left, so that the bulk job is DONE.
    """

    reached: Position
    done: int
    refused: int = 0
    refusal: str | None = None
    is_last: bool = False


class BulkJobStore(Generic[W]):
    """Store of the bulk jobs of one kind. Threads may share a store.

    Args:
        table: Table with the columns of BulkJob except `waits_for_turn`, and with `holder` and `held_until`.
        make: Class of a row.
        key: Name of the key's column.
        done: Name of the column with the number of processed rows.
        noun: Name of the kind in messages.
        missing: Returns the error of an unknown id.

    Example:
        REDRIVES = BulkJobStore(
            tables.redrives,
            Redrive,
            key="redrive_id",
            done="redriven",
            noun="redrive",
            missing=RedriveNotFoundError.of,
        )
        redrive = REDRIVES.begin(database, ids.redrive_id(), wanted=stored_filter({"endpoint": "mail"}), rate=10)
    """

    def __init__(
        self, table: Table, make: type[W], *, key: str, done: str, noun: str, missing: Callable[[str], NotFoundError]
    ) -> None:
        self.key, self.done, self.noun = key, done, noun
        self._table, self._columns, self._make, self._missing = table, table.c, make, missing
        is_held = func.coalesce(table.c.held_until > func.now(), false())
        self._waits = and_(table.c.status == BulkJobStatus.RUNNING, not_(is_held)).label("waits_for_turn")
        name = table.name
        is_here = """status = 'RUNNING'
               AND COALESCE(reached_at, CAST(:epoch AS TIMESTAMPTZ)) = CAST(:before_at AS TIMESTAMPTZ)
               AND reached_id = CAST(:before_id AS TEXT)"""
        self._running = statement(
            f"{name}.running",
            f"""
            SELECT {key} AS id FROM {name} WHERE status = 'RUNNING' ORDER BY held_until NULLS FIRST, {key} LIMIT :limit
            """,  # noqa: S608 - constants
        )
        self._hold = statement(
            f"{name}.hold",
            f"""
            UPDATE {name} SET holder = :holder, held_until = now() + CAST(:seconds AS BIGINT) * INTERVAL '1 second'
             WHERE {key} = :id AND status = 'RUNNING'
               AND (holder = :holder OR held_until IS NULL OR held_until < now())
            RETURNING {key}
            """,  # noqa: S608 - constants
        )
        # The cursor is the fence: if two schedulers hold a bulk job because one stalled, only the first to move the
        # cursor changes rows. A repeated transaction whose first run was committed changes nothing either.
        self._lock = statement(
            f"{name}.lock",
            f"""
            SELECT {key} FROM {name}
             WHERE {key} = :id AND {is_here} FOR UPDATE
            """,  # noqa: S608 - constants
        )
        self._advance = statement(
            f"{name}.advance",
            f"""
            UPDATE {name}
               SET {done} = {done} + CAST(:done AS BIGINT), refused = refused + CAST(:refused AS BIGINT),
                   last_refusal = COALESCE(CAST(:refusal AS TEXT), last_refusal), reached_at = :reached_at,
                   reached_id = :reached_id, holder = :holder,
                   status = CASE WHEN CAST(:is_last AS BOOLEAN) THEN 'DONE' ELSE status END,
                   ended_at = CASE WHEN CAST(:is_last AS BOOLEAN) THEN now() END,
                   held_until = CASE WHEN CAST(:is_last AS BOOLEAN) THEN NULL
                                     ELSE now() + CAST(:seconds AS BIGINT) * INTERVAL '1 second' END
             WHERE {key} = :id AND {is_here}
            RETURNING {key}
            """,  # noqa: S608 - constants
        )
        # Ends the hold; `flask doctor` reads from held_until since when the bulk job waits.
        self._change = statement(
            f"{name}.change",
            f"""
            UPDATE {name}
               SET status = :status, held_until = now() - INTERVAL '1 millisecond',
                   ended_at = CASE WHEN CAST(:status AS TEXT) IN ('STOPPED', 'DONE') THEN now() END
             WHERE {key} = :id AND status IN ('RUNNING', 'PAUSED')
            RETURNING {key}
            """,  # noqa: S608 - constants
        )
        self.deletion = deletion(
            f"{name}.prune",
            name,
            [key],
            "ended_at < now() - CAST(:retention_ms AS BIGINT) * INTERVAL '1 millisecond'",
            time="created_at",
        )

    def begin(self, database: Database, bulk_job_id: str, **values: Any) -> W:
        """Store a new bulk job with the status RUNNING; a scheduler starts it within seconds.

        Args:
            database: Database of the service.
            bulk_job_id: New id. A second call with the same id changes nothing.
            **values: Further columns, such as `wanted`, `rate` and `actor`.

        Returns:
            The stored bulk job.
        """
        given = {self.key: bulk_job_id, "status": BulkJobStatus.RUNNING} | values
        database.fetch(insert(self._table).values(given).on_conflict_do_nothing(index_elements=[self.key]))
        return self.get(database, bulk_job_id)

    def get(self, database: Database, bulk_job_id: str) -> W:
        """Read a bulk job.

        Raises:
            NotFoundError: No bulk job has this id; the class is that of the kind.
        """
        rows = database.fetch(select(*self._columns, self._waits).where(self._columns[self.key] == bulk_job_id))
        if not rows:
            raise self._missing(bulk_job_id)
        return self._make.from_row(rows[0])

    def page(self, database: Database, wanted: PageRequest) -> Page[W]:
        at, key = self._columns.created_at, self._columns[self.key]
        rows = database.fetch(newest_first(select(*self._columns, self._waits), at, key, wanted))
        return page_of(rows, "created_at", self.key, wanted, self._make.from_row)

    def change(self, database: Database, bulk_job_id: str, status: BulkJobStatus) -> W:
        """Pause, resume or stop a bulk job, after the batch that is being processed.

        Args:
            database: Database of the service.
            bulk_job_id: Id of the bulk job.
            status: PAUSED, RUNNING or STOPPED.

        Returns:
            The bulk job in this state, also if it had the state before.

        Raises:
            NotFoundError: No bulk job has this id; the class is that of the kind.
            ConflictError: The bulk job has ended in another state.
        """
        changed = database.fetch(self._change, {"id": bulk_job_id, "status": status.value})
        found = self.get(database, bulk_job_id)
        if not changed and found.status is not status:
            raise ConflictError(f"The {self.noun} {bulk_job_id!r} is {found.status}. Create a new {self.noun}.")
        return found

    def running(self, database: Database, *, limit: int) -> list[str]:
        """Read the ids of running bulk jobs, least recently served first."""
        return [row.id for row in database.fetch(self._running, {"limit": limit})]

    def hold(self, database: Database, bulk_job_id: str, who: str) -> bool:
        """Hold a bulk job for HELD_SECONDS, or renew the hold.

        Args:
            database: Database of the service.
            bulk_job_id: Id of the bulk job.
            who: Id of the scheduler process.

        Returns:
            False if another scheduler holds the bulk job, or if it is not RUNNING.
        """
        params = {"id": bulk_job_id, "holder": who, "seconds": HELD_SECONDS}
        return bool(database.fetch_unless_locked(self._hold, params))

    def lock(self, database: Database, bulk_job_id: str, before: Position) -> bool:
        """Lock a bulk job in the ambient transaction, before its rows are processed.

        Args:
            database: Database with the transaction.
            bulk_job_id: Id of the bulk job.
            before: Cursor behind which the batch begins.

        Returns:
            False unless the bulk job is RUNNING and its cursor is `before`.
        """
        return bool(database.fetch(self._lock, {"id": bulk_job_id} | _cursor(before)))

    def advance(self, database: Database, bulk_job_id: str, who: str, before: Position, result: BatchResult) -> bool:
        """Store the counts and cursor of a batch in the ambient transaction, after its rows are processed.

        Args:
            database: Database with the transaction.
            bulk_job_id: Id of the bulk job.
            who: Id of the scheduler process.
            before: Cursor behind which the batch begins.
            result: Counts and new cursor.

        Returns:
            False as `lock` does; the transaction must then roll back.
        """
        params = _cursor(before) | {
            "id": bulk_job_id,
            "holder": who,
            "done": result.done,
            "refused": result.refused,
            "refusal": result.refusal and result.refusal[:_MAX_REFUSAL],
            "reached_at": result.reached.at if result.reached.key else None,
            "reached_id": result.reached.key,
            "is_last": result.is_last,
            "seconds": HELD_SECONDS,
        }
        return bool(database.fetch(self._advance, params))


def _cursor(before: Position) -> dict[str, Any]:
    return {"epoch": EPOCH, "before_at": before.at, "before_id": before.key}


def stored_filter(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a filter without its None values, ready for JSON.

    Args:
        values: Filter by name; instants are `datetime`.

    Returns:
        Values with RFC 3339 texts for instants.

    Example:
        stored_filter({"endpoint": "mail", "labels": None})  # {"endpoint": "mail"}
    """
    given = {name: value for name, value in values.items() if value is not None}
    return {name: rfc3339(value) if isinstance(value, datetime) else value for name, value in given.items()}


def loaded_filter(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a stored filter.

    Args:
        stored: Result of `stored_filter`.

    Returns:
        Values, with `datetime` for names that end with `_after` or `_before`.
    """
    return {
        name: datetime.fromisoformat(value) if name.endswith(("_after", "_before")) else value
        for name, value in stored.items()
    }
