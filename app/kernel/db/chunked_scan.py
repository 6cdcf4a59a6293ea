"""Chunked scans of an index in the order of a list: each chunk reads a bounded number of entries."""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    Executable,
    Row,
    Select,
    case,
    func,
    literal,
    select,
    tuple_,
    union_all,
)

from app.kernel.db import Database
from app.kernel.db.paging import Part, Position
from app.kernel.sql import statement

# Entries of the first chunk of a page, whose rows may lie far apart on a disk, and of the largest one.
CHUNK_SIZE, MAX_CHUNK_SIZE = 250, 1_000

# Until the transaction ends, PostgreSQL plans an ordered read only by an index in this order. With bad statistics it
# would read all rows by another index and sort them.
_IN_ORDER = statement(
    "lists.read_in_order",
    "SELECT set_config('enable_sort', 'off', true), set_config('enable_incremental_sort', 'off', true)",
)


@dataclass(frozen=True, slots=True)
class ListIndex:
    """An index on (at, key), or the entries with given values of the columns that lead in an index on (…, at, key).

    These values are not compared by `=`: the planner would infer that other indexes on (at, key) have the same order,
    and might read one of them to its end.
    """

    at: ColumnElement[datetime]
    key: ColumnElement[str]
    where: Sequence[ColumnElement[bool]] = ()
    leading: Mapping[ColumnElement[str], str] = field(default_factory=dict)

    def read(self, part: Part, *columns: ColumnElement[Any]) -> Select[Any]:
        """Select a part in the order of the list: its instants and keys as `at` and `key`, and further columns."""
        order = self._order()
        within = tuple_(*order) < self._bound(part.start), tuple_(*order) >= self._bound(part.end)
        chosen = select(self.at.label("at"), self.key.label("key"), *columns)
        return chosen.where(*self.where, *within).order_by(*(column.desc() for column in order))

    def read_up(self, part: Part, *columns: ColumnElement[Any]) -> Select[Any]:
        """Select columns of the rows after `part.start` and before `part.end`, oldest first."""
        order = self._order()
        within = tuple_(*order) > self._bound(part.start), tuple_(*order) < self._bound(part.end)
        return select(*columns).where(*self.where, *within).order_by(*order)

    def _order(self) -> list[ColumnElement[Any]]:
        return [*self.leading, self.at, self.key]

    def _bound(self, position: Position) -> ColumnElement[Any]:
        return tuple_(*map(literal, [*self.leading.values(), position.at, position.key]))


def in_order(database: Database, query: Executable, params: Mapping[str, Any] | None = None) -> Sequence[Row[Any]]:
    """Run a query; its ordered reads use indexes in their order, whatever the statistics."""

    def body(connection: Connection) -> Sequence[Row[Any]]:
        _demand_order(database, connection)
        return connection.execute(query, params).all()

    return database.transact(body)


class RowCount(NamedTuple):
    """Number of rows of a read, and of its matching rows."""

    read: int
    matching: int


def count_rows(database: Database, query: Select[Any]) -> RowCount:
    """Count the rows of a query, and its rows with a true `is_wanted`, as `in_order` reads them."""
    seen = query.subquery("seen")
    counts = select(func.count().label("read"), func.count(case((seen.c.is_wanted, 1))).label("matching"))
    (row,) = in_order(database, counts.select_from(seen))
    return RowCount(row.read, row.matching)


def newest(
    database: Database, indexes: Sequence[ListIndex], part: Part, column: ColumnElement[str], limit: int
) -> tuple[set[str], Position | None]:
    """Read a column of the `limit` newest rows of each index; returns its values, and the end of the complete part.

    All rows of the last instant are read, because another list may order them differently. They are few: one
    transaction created them. One statement reads all indexes, so a row that moves between them is not missed.
    """
    if part.start != Position.behind(part.start.at):
        part = part._replace(start=Position.in_front_of(part.start.at))

    def body(connection: Connection) -> tuple[set[str], Position | None]:
        _demand_order(database, connection)
        rows = connection.execute(_together(indexes, part, column, limit)).all()
        instants = ([row.at for row in rows if row.number == number] for number in range(len(indexes)))
        last = max((min(of_index) for of_index in instants if len(of_index) == limit), default=None)
        reached = None if last is None else Position.behind(last)
        if last is not None and reached is not None:
            instant = Part(Position.in_front_of(last), reached)
            rows = [*rows, *connection.execute(_together(indexes, instant, column, None))]
        return {row.wanted for row in rows}, reached

    return database.transact(body)


def _together(
    indexes: Sequence[ListIndex], part: Part, column: ColumnElement[str], limit: int | None
) -> CompoundSelect[Any]:
    reads = (index.read(part, column.label("wanted"), literal(n).label("number")) for n, index in enumerate(indexes))
    return union_all(*(read.limit(limit) for read in reads))


def pass_through(
    database: Database,
    index: ListIndex,
    part: Part,
    *,
    columns: Sequence[ColumnElement[Any]],
    conditions: Sequence[ColumnElement[bool]],
    limit: int | None,
    size: int = CHUNK_SIZE,
) -> tuple[Sequence[Row[Any]], Position | None]:
    """Read up to `limit` matching rows of a chunk of `size` entries.

    Returns the rows, and the position of its end if the part continues. The end is read first, so concurrent inserts
    and deletes do not move it past unread rows.
    """

    def body(connection: Connection) -> tuple[Sequence[Row[Any]], Position | None]:
        _demand_order(database, connection)
        end = connection.execute(index.read(part).offset(size - 1).limit(1)).first()
        reached = None if end is None else Position(end.at, end.key)
        seen = part if reached is None else part._replace(end=reached)
        query = index.read(seen, *columns).where(*conditions).limit(limit)
        return connection.execute(query).all(), reached

    return database.transact(body)


def next_size(size: int) -> int:
    """Return the size of the chunk behind one without enough matches: twice as many, so that statements stay few."""
    return max(size, min(2 * size, MAX_CHUNK_SIZE))


class ChunkedRead(NamedTuple):
    """Pages of an index: chunks from `size` entries on; a page is returned short after `seconds`, or after `chunks`.

    Without `chunks` only the time bounds the statements of a page.
    """

    seconds: float = 0.02
    size: int = CHUNK_SIZE
    chunks: int | None = None

    def page(
        self,
        database: Database,
        index: ListIndex,
        part: Part,
        *,
        columns: Sequence[ColumnElement[Any]],
        conditions: Sequence[ColumnElement[bool]],
        limit: int,
        matches: Callable[[Row[Any]], bool] | None = None,
    ) -> tuple[Sequence[Row[Any]], Position | None]:
        """Read up to `limit` matching rows; returns them, and the position after which the next page starts.

        With `matches`, a condition that no statement can check, a chunk is read without a limit of rows.
        """
        found, until, size = list[Row[Any]](), time.monotonic() + self.seconds, self.size
        for number in itertools.count(1):
            left = limit + 1 - len(found) if matches is None else None
            rows, reached = pass_through(
                database, index, part, columns=columns, conditions=conditions, limit=left, size=size
            )
            found += rows if matches is None else filter(matches, rows)
            if reached is None or len(found) > limit or number == self.chunks or time.monotonic() >= until:
                break
            part, size = part._replace(start=reached), next_size(size)
        shown = found[:limit]
        return shown, Position(shown[-1].at, shown[-1].key) if len(shown) < len(found) else reached


QUICK = ChunkedRead()


def _demand_order(database: Database, connection: Connection) -> None:
    if not database.is_cockroach:
        connection.execute(_IN_ORDER)
