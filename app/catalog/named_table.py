"""Named tables: rows with a name and a value: such as payload specs, configs and secrets."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import Column, ColumnElement, Connection, Row, Table, delete, func, null, select, update
from sqlalchemy.dialects.postgresql import insert

from app.catalog import dependents, revision, superseded_configs
from app.catalog.specs.spec_fields import CheckValue
from app.kernel.audit import AuditAction, ResourceType
from app.kernel.audit.change import AuditedChange, tag_of
from app.kernel.db import Database
from app.kernel.db.paging import Page, PageRequest, newest_first, page_of
from app.kernel.errors import (
    ConfigNotFoundError,
    ConflictError,
    NotFoundError,
    PayloadSpecNotFoundError,
    SecretNotFoundError,
    UnavailableError,
)
from schema import tables

Check = Callable[[Connection, str, Any, bool], None]
"""Refuses a value by an error, and locks the rows to which it refers; takes the name, the value and if it is new."""


@dataclass(frozen=True, slots=True)
class NamedRow:
    """Named row; `value` is None if the table hides values."""

    name: str
    value: Any
    tag: str
    created_at: datetime
    updated_at: datetime


class NamedTable(NamedTuple):
    """Table of named values. Hidden values are never read; changes that workers must see increment the revision.

    With `is_kept`, replaced and deleted values stay available to executions that have begun. `check_value` may refuse a
    value before the transaction that stores the value, `check` in it; `forget` runs in the transaction of a deletion.
    """

    table: Table
    value: Column[Any]
    noun: str
    resource_type: ResourceType
    not_found: type[NotFoundError]
    is_hidden: bool = False
    is_cached: bool = True
    is_kept: bool = False
    check_value: CheckValue | None = None
    check: Check | None = None
    forget: Callable[[Connection, str], None] | None = None

    @property
    def path(self) -> str:
        """Path of the API."""
        return f"/{self.noun.replace(' ', '-')}s"

    def create(self, database: Database, name: str, value: Any, change: AuditedChange) -> NamedRow:
        """Add a row; raises ConflictError when the name is taken, and the errors of the checks."""
        if self.check_value is not None:
            self.check_value(value)

        def body(connection: Connection) -> NamedRow:
            if self.check is not None:
                self.check(connection, name, value, True)
            statement = insert(self.table).values({"name": name, self.value.name: value})
            row = connection.execute(
                statement.on_conflict_do_nothing(index_elements=["name"]).returning(*self._columns())
            ).first()
            if row is None:
                raise ConflictError(f"A {self.noun} named {name!r} already exists. PUT {self.path}/{name} replaces it.")
            self._note(connection, change, AuditAction.CREATE, None, row)
            return self._named(row)

        return change.make(database, body, again=partial(self._read, name=name))

    def replace(self, database: Database, name: str, value: Any, change: AuditedChange) -> NamedRow:
        """Change the value of a row; raises `not_found`, PreconditionFailedError, and the errors of the checks."""
        if self.check_value is not None:
            self.check_value(value)

        def body(connection: Connection) -> NamedRow:
            if self.check is not None:
                # Lock the references before the row, as in `create`, to avoid deadlocks.
                self.check(connection, name, value, False)
            before = self._lock(connection, name, change)
            columns = self.table.c
            row = connection.execute(
                update(self.table)
                .where(columns.name == name, columns.revision == before.revision)
                .values({self.value.name: value, "revision": before.revision + 1, "updated_at": func.now()})
                .returning(*self._columns())
            ).first()
            if row is None:
                raise UnavailableError(f"The {self.noun} is being changed concurrently. Retry later.")
            self._note(connection, change, AuditAction.REPLACE, before, row)
            return self._named(row)

        return change.make(database, body, again=partial(self._read, name=name))

    def delete(self, database: Database, name: str, change: AuditedChange) -> None:
        """Delete a row; raises `not_found`, PreconditionFailedError, or ConflictError while dependents exist.

        A transaction that adds a reference waits for the lock, and then finds no row.
        """

        def body(connection: Connection) -> None:
            before = self._lock(connection, name, change)
            if self.noun in dependents.OF_VALUE:
                dependents.refuse(connection, [dependents.OF_VALUE[self.noun]], self.noun, name)
            connection.execute(delete(self.table).where(self.table.c.name == name))
            if self.forget is not None:
                self.forget(connection, name)
            self._note(connection, change, AuditAction.DELETE, before, None)

        change.make(database, body)

    def get(self, database: Database, name: str) -> NamedRow:
        rows = database.fetch(select(*self._shown()).where(self.table.c.name == name))
        return self._named(self._found(rows[0] if rows else None, name))

    def page(self, database: Database, wanted: PageRequest) -> Page[NamedRow]:
        query = newest_first(select(*self._shown()), self.table.c.created_at, self.table.c.name, wanted)
        return page_of(database.fetch(query), "created_at", "name", wanted, self._named)

    def share(self, connection: Connection, names: Sequence[str]) -> Mapping[str, Any]:
        """Read the values of these names, and lock them against changes until the transaction ends."""
        if not names:
            return {}
        query = select(*self._shown()).where(self.table.c.name.in_(names))
        rows = connection.execute(query.order_by(self.table.c.name).with_for_update(read=True))
        return {row.name: row.value for row in rows}

    def _lock(self, connection: Connection, name: str, change: AuditedChange) -> Row[Any]:
        """Lock a row and check the client's condition on its state."""
        query = select(*self._columns()).where(self.table.c.name == name).with_for_update()
        row = self._found(connection.execute(query).first(), name)
        change.condition.check(tag_of(row.created_at, row.revision))
        return row

    def _note(
        self,
        connection: Connection,
        change: AuditedChange,
        action: AuditAction,
        before: Row[Any] | None,
        after: Row[Any] | None,
    ) -> None:
        row: Any = after if after is not None else before
        old, new = (None if state is None else state.value for state in (before, after))
        change.record(connection, action, self.resource_type, row.name, before=old, after=new)
        if self.is_cached:
            number = revision.bump(connection)
            if self.is_kept and before is not None:
                superseded_configs.keep(connection, before.name, number, before.value)

    def _read(self, connection: Connection, name: str) -> NamedRow:
        row = connection.execute(select(*self._columns()).where(self.table.c.name == name)).first()
        return self._named(self._found(row, name))

    def _columns(self) -> list[ColumnElement[Any]]:
        columns = self.table.c
        return [columns.name, self.value.label("value"), columns.revision, columns.created_at, columns.updated_at]

    def _shown(self) -> list[ColumnElement[Any]]:
        """Return the columns that reads select; never a hidden value."""
        name, value, *rest = self._columns()
        return [name, null().label("value") if self.is_hidden else value, *rest]

    def _found(self, row: Row[Any] | None, name: str) -> Row[Any]:
        if row is None:
            raise self.not_found(f"There is no {self.noun} named {name!r}. GET {self.path} lists the {self.noun}s.")
        return row

    def _named(self, row: Row[Any]) -> NamedRow:
        value = None if self.is_hidden else row.value
        return NamedRow(row.name, value, tag_of(row.created_at, row.revision), row.created_at, row.updated_at)


def _check_schema(schema: Any) -> None:
    from app.catalog.json_schema import check_schema  # noqa: PLC0415 - 30 modules that few processes need

    check_schema(schema)


# A change of a payload spec affects jobs created from then on.
PAYLOAD_SPECS = NamedTable(
    table=tables.payload_specs,
    value=tables.payload_specs.c.schema_json,
    noun="payload spec",
    resource_type=ResourceType.PAYLOAD_SPEC,
    not_found=PayloadSpecNotFoundError,
    is_cached=False,
    check_value=_check_schema,
)
# A change of a config affects executions that have not begun: all attempts use the values as of the first claim.
CONFIGS = NamedTable(
    table=tables.configs,
    value=tables.configs.c.values_json,
    noun="config",
    resource_type=ResourceType.CONFIG,
    not_found=ConfigNotFoundError,
    is_kept=True,
)
# The value is the ciphertext. The next claim of any worker uses a changed secret.
SECRETS = NamedTable(
    table=tables.secrets,
    value=tables.secrets.c.encrypted_value,
    noun="secret",
    resource_type=ResourceType.SECRET,
    not_found=SecretNotFoundError,
    is_hidden=True,
)
