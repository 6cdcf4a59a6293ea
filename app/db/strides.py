"""Strides through an index in the order of a list: each reads a bounded number of entries."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, literal, select, tuple_

from app.db import Database
from app.db.paging import Position
from app.sql import statement

STRIDE = 2_000  # entries

# For PostgreSQL's planner, until the transaction ends: no plan in the order of the list but by an index in this order.
# Where its statistics say too little it would sort what it finds in another way, all of it.
_IN_ORDER = statement(
    "lists.read_in_order",
    "SELECT set_config('enable_sort', 'off', true), set_config('enable_incremental_sort', 'off', true)",
)


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of a list, newest first, behind `start` and down to `end`; None is an end of the list."""

    start: Position | None
    end: Position | None


@dataclass(frozen=True, slots=True)
class ListIndex:
    """An index on (at, key), or behind one value of the column `leading` on (leading, at, key).

    That value is not compared by `=`: the planner would see that other indexes on (at, key) are in the same order, and
    might read one of them to its end.
    """

    at: ColumnElement[datetime]
    key: ColumnElement[str]
    where: Sequence[ColumnElement[bool]] = ()
    leading: ColumnElement[str] | None = None
    value: str = ""

    def read(self, part: Part, *columns: ColumnElement[Any]) -> Select[Any]:
        """Select a part in the order of the list: its instants and keys as `at` and `key`, and what else is wanted."""
        order: list[ColumnElement[Any]] = (
            [self.at, self.key] if self.leading is None else [self.leading, self.at, self.key]
        )
        conditions = list(self.where)
        if part.start is not None:
            conditions.append(tuple_(*order) < self._bound(part.start))
        elif self.leading is not None:
            conditions.append(self.leading <= self.value)
        if part.end is not None:
            conditions.append(tuple_(*order) >= self._bound(part.end))
        elif self.leading is not None:
            conditions.append(self.leading >= self.value)
        chosen = select(self.at.label("at"), self.key.label("key"), *columns)
        return chosen.where(*conditions).order_by(*(column.desc() for column in order))

    def _bound(self, position: Position) -> ColumnElement[Any]:
        value = [] if self.leading is None else [literal(self.value)]
        return tuple_(*value, literal(position.at), literal(position.key))


def entries(database: Database, index: ListIndex, part: Part, limit: int) -> Sequence[Row[Any]]:
    """Read the first entries of a part."""

    def body(connection: Connection) -> Sequence[Row[Any]]:
        _demand_order(database, connection)
        return connection.execute(index.read(part).limit(limit)).all()

    return database.transact(body)


def pass_through(
    database: Database, index: ListIndex, part: Part, narrow: Callable[[Part], Select[Any]]
) -> tuple[Sequence[Row[Any]], Position | None]:
    """Read a stride, of which `narrow` makes the query; returns its rows, and where it ended before the part did.

    The end is found first, so rows that come and go meanwhile move it past none.
    """

    def body(connection: Connection) -> tuple[Sequence[Row[Any]], Position | None]:
        _demand_order(database, connection)
        end = connection.execute(index.read(part).offset(STRIDE - 1).limit(1)).first()
        reached = None if end is None else Position(end.at, end.key)
        stride = part if reached is None else replace(part, end=reached)
        return connection.execute(narrow(stride)).all(), reached

    return database.transact(body)


def _demand_order(database: Database, connection: Connection) -> None:
    if not database.is_cockroach:
        connection.execute(_IN_ORDER)
