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
    """Fields of every kind of bulk job; `waits_for_turn` is true if it is RUNNING but no scheduler holds it."""

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
    """Result of one batch: rows processed and refused up to the cursor `reached`, and the last refusal."""

    reached: Position
    done: int
    refused: int = 0
    refusal: str | None = None
    is_last: bool = False


class BulkJobStore(Generic[W]):
    """Bulk jobs of one kind; `done` is the table's column of processed rows, `noun` the kind's name in messages."""

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
        self._prune = statement(
            f"{name}.prune",
            f"""
            WITH page AS MATERIALIZED (
              SELECT {key} FROM {name}
               WHERE ended_at < now() - CAST(:retention_ms AS BIGINT) * INTERVAL '1 millisecond'
               ORDER BY created_at, {key} LIMIT :limit)
            DELETE FROM {name} WHERE {key} IN (SELECT {key} FROM page) RETURNING {key}
            """,  # noqa: S608 - constants
        )

    def begin(self, database: Database, bulk_job_id: str, **values: Any) -> W:
        """Store a new bulk job; the statement may be repeated."""
        given = {self.key: bulk_job_id, "status": BulkJobStatus.RUNNING} | values
        database.fetch(insert(self._table).values(given).on_conflict_do_nothing(index_elements=[self.key]))
        return self.get(database, bulk_job_id)

    def get(self, database: Database, bulk_job_id: str) -> W:
        """Read a bulk job; raises the NotFoundError of its kind."""
        rows = database.fetch(select(*self._columns, self._waits).where(self._columns[self.key] == bulk_job_id))
        if not rows:
            raise self._missing(bulk_job_id)
        return self._make.from_row(rows[0])

    def page(self, database: Database, wanted: PageRequest) -> Page[W]:
        at, key = self._columns.created_at, self._columns[self.key]
        rows = database.fetch(newest_first(select(*self._columns, self._waits), at, key, wanted))
        return page_of(rows, "created_at", self.key, wanted, self._make.from_row)

    def change(self, database: Database, bulk_job_id: str, status: BulkJobStatus) -> W:
        """Pause, resume or stop a bulk job; raises the NotFoundError of its kind, or ConflictError if it has ended."""
        changed = database.fetch(self._change, {"id": bulk_job_id, "status": status.value})
        found = self.get(database, bulk_job_id)
        if not changed and found.status is not status:
            raise ConflictError(f"The {self.noun} {bulk_job_id!r} is {found.status}. Create a new {self.noun}.")
        return found

    def prune(self, database: Database, *, retention_ms: int, limit: int) -> int:
        """Delete bulk jobs that ended before the retention; returns the number deleted."""
        return len(database.fetch(self._prune, {"retention_ms": retention_ms, "limit": limit}))

    def running(self, database: Database, *, limit: int) -> list[str]:
        """Read the ids of running bulk jobs, least recently served first."""
        return [row.id for row in database.fetch(self._running, {"limit": limit})]

    def hold(self, database: Database, bulk_job_id: str, who: str) -> bool:
        """Hold a bulk job for HELD_SECONDS, or renew the hold; returns false if another scheduler holds it."""
        return bool(database.fetch(self._hold, {"id": bulk_job_id, "holder": who, "seconds": HELD_SECONDS}))

    def lock(self, database: Database, bulk_job_id: str, before: Position) -> bool:
        """Lock a bulk job in this transaction; returns false unless it is RUNNING and its cursor is `before`."""
        return bool(database.fetch(self._lock, {"id": bulk_job_id} | _cursor(before)))

    def advance(self, database: Database, bulk_job_id: str, who: str, before: Position, result: BatchResult) -> bool:
        """Store the counts and cursor of a batch; returns false as `lock` does, and the transaction must roll back."""
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
    """Return the values that are given, ready for JSON."""
    given = {name: value for name, value in values.items() if value is not None}
    return {name: rfc3339(value) if isinstance(value, datetime) else value for name, value in given.items()}


def loaded_filter(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a stored filter; names that end with `_after` or `_before` are instants."""
    return {
        name: datetime.fromisoformat(value) if name.endswith(("_after", "_before")) else value
        for name, value in stored.items()
    }
