"""Walks: what goes on in the background over all rows of a filter, at a rate; each is a row that tells how far it came.

A scheduler holds a walk and goes on with it (app.queue.bulk.walker). What it sees to, how much that was and the
place that it
reached are one transaction, so whoever goes on after a kill -9 begins behind the last row that was seen to.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Self, TypeVar

from sqlalchemy import Row, Table, and_, false, func, not_, select

from app.kernel.db import Database
from app.kernel.db.paging import Page, PageRequest, Position, newest_first, page_of
from app.kernel.db.rows import columns_of
from app.kernel.errors import ConflictError, NotFoundError
from app.kernel.formats import EPOCH
from app.kernel.sql import statement
from schema.states import WalkStatus

BEGINNING = Position.behind(EPOCH)
HELD_SECONDS = 5  # a scheduler that died is replaced after this
_MOST_REFUSAL = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """What each kind of walk has; `refused` is how many could not be seen to, and `last_refusal` why the last one.

    One `waits_for_turn` where it is RUNNING and no scheduler goes on with it just now.
    """

    status: WalkStatus
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

    @classmethod
    def from_row(cls, row: Row[Any]) -> Self:
        """Take the fields out of a row that has a column for each."""
        return cls(**columns_of(cls, row) | {"status": WalkStatus(row.status)})

    @property
    def reached(self) -> Position:
        """The place behind which it goes on."""
        return BEGINNING if self.reached_at is None else Position(self.reached_at, self.reached_id)


W = TypeVar("W", bound=Walk)


@dataclass(frozen=True, slots=True)
class Step:
    """What a transaction of a walk has done: how many rows it saw to, how many not and why, and whether it `is_last`.

    As far as `reached`.
    """

    reached: Position
    done: int
    refused: int = 0
    refusal: str | None = None
    is_last: bool = False


class Walks(Generic[W]):
    """The walks of one kind, in their table; `done` is its column for how many were seen to, `noun` what one is called.

    Built once, at import.
    """

    def __init__(
        self, table: Table, make: type[W], *, key: str, done: str, noun: str, missing: Callable[[str], NotFoundError]
    ) -> None:
        self.key, self.done, self.noun = key, done, noun
        self._columns, self._make, self._missing = table.c, make, missing
        is_held = func.coalesce(table.c.held_until > func.now(), false())
        self._waits = and_(table.c.status == WalkStatus.RUNNING, not_(is_held)).label("waits_for_turn")
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
        # The place alone says whose turn it is: of two that believe they hold the walk, since one was held up, the
        # first one moves it, and the other changes nothing. So does who is repeated although its first run counted.
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
        # Nobody holds it any more; since when it waits for somebody, `flask doctor` reads.
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

    def get(self, database: Database, walk_id: str) -> W:
        """Read a walk; raises the NotFoundError of its kind."""
        rows = database.fetch(select(*self._columns, self._waits).where(self._columns[self.key] == walk_id))
        if not rows:
            raise self._missing(walk_id)
        return self._make.from_row(rows[0])

    def page(self, database: Database, wanted: PageRequest) -> Page[W]:
        """Read a page of them, newest first."""
        at, key = self._columns.created_at, self._columns[self.key]
        rows = database.fetch(newest_first(select(*self._columns, self._waits), at, key, wanted))
        return page_of(rows, "created_at", self.key, wanted, self._make.from_row)

    def change(self, database: Database, walk_id: str, status: WalkStatus) -> W:
        """Pause, resume or stop one; raises the NotFoundError of its kind, or ConflictError for one that is over."""
        changed = database.fetch(self._change, {"id": walk_id, "status": status.value})
        found = self.get(database, walk_id)
        if not changed and found.status is not status:
            raise ConflictError(f"The {self.noun} {walk_id!r} is {found.status}; begin another one.")
        return found

    def prune(self, database: Database, *, retention_ms: int, limit: int) -> int:
        """Delete those that ended before the retention; returns how many."""
        return len(database.fetch(self._prune, {"retention_ms": retention_ms, "limit": limit}))

    def running(self, database: Database, *, limit: int) -> list[str]:
        """Read the ids of those that are under way, those first whose last turn was longest ago."""
        return [row.id for row in database.fetch(self._running, {"limit": limit})]

    def hold(self, database: Database, walk_id: str, who: str) -> bool:
        """Take a walk for a while, or for a while longer; returns false when another scheduler has it."""
        return bool(database.fetch(self._hold, {"id": walk_id, "holder": who, "seconds": HELD_SECONDS}))

    def lock(self, database: Database, walk_id: str, before: Position) -> bool:
        """Lock a walk in this transaction; returns false when it is no longer RUNNING, and at this place."""
        return bool(database.fetch(self._lock, {"id": walk_id} | _place(before)))

    def advance(self, database: Database, walk_id: str, who: str, before: Position, step: Step) -> bool:
        """Note in the same transaction what was done, and how far that was; returns false as `lock` does.

        Then nothing of the transaction may remain: locks may be lost.
        """
        params = _place(before) | {
            "id": walk_id,
            "holder": who,
            "done": step.done,
            "refused": step.refused,
            "refusal": step.refusal and step.refusal[:_MOST_REFUSAL],
            "reached_at": step.reached.at if step.reached.key else None,
            "reached_id": step.reached.key,
            "is_last": step.is_last,
            "seconds": HELD_SECONDS,
        }
        return bool(database.fetch(self._advance, params))


def _place(before: Position) -> dict[str, Any]:
    return {"epoch": EPOCH, "before_at": before.at, "before_id": before.key}
