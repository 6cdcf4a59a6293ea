"""Rows that are found by a name and hold one value: payload specs, configs and secrets alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Row, Select, Table, delete, func, null, select, update
from sqlalchemy.dialects.postgresql import insert

from app.db import Database
from app.errors import ConflictError, NotFoundError
from app.paging import Page, PageRequest, newest_first, page_of


@dataclass(frozen=True, slots=True)
class NamedRows:
    """One such table: `value` is its column, `noun` its name in messages; a hidden value is never read back."""

    table: Table
    value: Column[Any]
    noun: str
    not_found: type[NotFoundError]
    is_hidden: bool = False

    def insert(self, connection: Connection, name: str, value: Any) -> "Named":
        """Add a row; raises ConflictError when the name is taken."""
        statement = (
            insert(self.table)
            .values({"name": name, self.value.name: value})
            .on_conflict_do_nothing(index_elements=["name"])
            .returning(*self._columns())
        )
        row = connection.execute(statement).first()
        if row is None:
            raise ConflictError(f"A {self.noun} named {name!r} exists already.")
        return _named(row)

    def replace(self, connection: Connection, name: str, value: Any) -> "Named":
        """Give a row another value; raises its *_NOT_FOUND error when there is none."""
        statement = (
            update(self.table)
            .where(self.table.c.name == name)
            .values({self.value.name: value, "updated_at": func.now()})
            .returning(*self._columns())
        )
        return self._found(connection.execute(statement).first(), name)

    def lock(self, connection: Connection, name: str) -> None:
        """Lock a row that is to be deleted: who wants to refer to it waits, and then finds it gone."""
        row = connection.execute(select(self.table.c.name).where(self.table.c.name == name).with_for_update()).first()
        if row is None:
            raise self._missing(name)

    def delete(self, connection: Connection, name: str) -> None:
        """Delete a locked row."""
        connection.execute(delete(self.table).where(self.table.c.name == name))

    def get(self, database: Database, name: str) -> "Named":
        """Read a row; raises its *_NOT_FOUND error when there is none."""
        rows = database.fetch(self._select().where(self.table.c.name == name))
        return self._found(rows[0] if rows else None, name)

    def page(self, database: Database, wanted: PageRequest) -> "Page[Named]":
        """Read a page of rows, newest first."""
        rows = database.fetch(newest_first(self._select(), self.table.c.created_at, self.table.c.name, wanted))
        page = page_of(rows, "created_at", "name", wanted)
        return Page([_named(row) for row in page.items], page.next)

    def share(self, connection: Connection, names: Sequence[str]) -> Mapping[str, Any]:
        """Read the values under those names, and keep them from being changed until the transaction ends."""
        if not names:
            return {}
        query = self._select().where(self.table.c.name.in_(names))
        rows = connection.execute(query.order_by(self.table.c.name).with_for_update(read=True))
        return {row[0]: row[1] for row in rows}

    def _select(self) -> Select[Any]:
        return select(*self._columns())

    def _columns(self) -> list[ColumnElement[Any]]:
        shown = null() if self.is_hidden else self.value
        return [self.table.c.name, shown, self.table.c.created_at, self.table.c.updated_at]

    def _found(self, row: Row[Any] | None, name: str) -> "Named":
        if row is None:
            raise self._missing(name)
        return _named(row)

    def _missing(self, name: str) -> NotFoundError:
        return self.not_found(f"There is no {self.noun} named {name!r}.")


@dataclass(frozen=True, slots=True)
class Named:
    """One such row."""

    name: str
    value: Any
    created_at: datetime
    updated_at: datetime


def _named(row: Row[Any]) -> Named:
    return Named(row[0], row[1], row[2], row[3])
