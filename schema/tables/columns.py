"""Parts of tables in types that CockroachDB and PostgreSQL share, and the metadata of all tables."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, DateTime, Index, MetaData, Table, Text, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.schema import SchemaItem

from schema.job_bounds import MAX_PRIORITY

metadata = MetaData(naming_convention={"pk": "pk_%(table_name)s"})


def table(name: str, *items: SchemaItem) -> Table:
    return Table(name, metadata, *items)


def word(name: str, *, key: bool = False, required: bool = False, default: str | None = None) -> Column[str]:
    """Make a TEXT column; `key` makes it part of the primary key."""
    server_default = None if default is None else text(f"'{default}'")
    is_nullable = not (key or required or default is not None)
    return Column(name, Text, primary_key=key, nullable=is_nullable, server_default=server_default)


def count(name: str, *, key: bool = False, required: bool = False, default: int | None = None) -> Column[int]:
    """Make a BIGINT column; `key` makes it part of the primary key."""
    server_default = None if default is None else text(str(default))
    is_nullable = not (key or required or default is not None)
    return Column(
        name, BigInteger, primary_key=key, nullable=is_nullable, server_default=server_default, autoincrement=False
    )


def instant(name: str, *, key: bool = False, required: bool = False, default_now: bool = False) -> Column[datetime]:
    """Make a TIMESTAMPTZ column; `key` makes it part of the primary key."""
    server_default = text("now()") if default_now else None
    is_nullable = not (key or required or default_now)
    return Column(name, DateTime(timezone=True), primary_key=key, nullable=is_nullable, server_default=server_default)


def flag(name: str, *, default: bool) -> Column[bool]:
    """Make a BOOLEAN column."""
    return Column(name, Boolean, nullable=False, server_default=text(str(default).lower()))


def json(name: str, *, required: bool = False, default: str | None = None) -> Column[Any]:
    """Make a JSONB column."""
    server_default = None if default is None else text(f"'{default}'")
    return Column(name, JSONB, nullable=not (required or default is not None), server_default=server_default)


def region() -> Column[str]:
    # TEXT with one value until the service spans several regions; CockroachDB then derives its own column from it.
    return word("crdb_region", default="default")


def check(name: str, condition: str) -> CheckConstraint:
    return CheckConstraint(condition, name=name)


def one_of(column: str, name: str, values: type[StrEnum]) -> CheckConstraint:
    """Make the CHECK that holds a column to the values of an enumeration."""
    return CheckConstraint(f"{column} IN ({', '.join(repr(v.value) for v in values)})", name=name)


def priority_range(table: str) -> CheckConstraint:
    """Make the CHECK of a table's `priority`; NULL passes it."""
    return CheckConstraint(f"priority >= 0 AND priority <= {MAX_PRIORITY}", name=f"chk_{table}_priority")


def index(
    name: str, columns: str, *, where: str | None = None, unique: bool = False, using: str | None = None
) -> Index:
    """Make an index of the declared table; `columns` is a list as in SQL."""
    condition = None if where is None else text(where)
    return Index(name, *columns.split(", "), unique=unique, postgresql_where=condition, postgresql_using=using)
