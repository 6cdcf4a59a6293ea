"""Column types that CockroachDB and PostgreSQL share, and the metadata of all tables."""

from datetime import datetime
from enum import StrEnum

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, DateTime, MetaData, Text, text

from schema.job_bounds import MAX_PRIORITY

metadata = MetaData()

NOW = text("now()")


def instant(name: str, *, default_now: bool = False, required: bool = False) -> Column[datetime]:
    """Make a TIMESTAMPTZ column."""
    return Column(
        name,
        DateTime(timezone=True),
        nullable=not (required or default_now),
        server_default=NOW if default_now else None,
    )


def word(name: str, *, default: str | None = None, required: bool = False) -> Column[str]:
    """Make a TEXT column."""
    server_default = None if default is None else text(f"'{default}'")
    return Column(name, Text, nullable=not (required or default is not None), server_default=server_default)


def count(name: str, *, default: int | None = None, required: bool = False) -> Column[int]:
    """Make a BIGINT column."""
    server_default = None if default is None else text(str(default))
    is_nullable = not (required or default is not None)
    return Column(name, BigInteger, nullable=is_nullable, server_default=server_default, autoincrement=False)


def one_of(column: str, name: str, values: type[StrEnum]) -> CheckConstraint:
    """Make the CHECK that holds a column to the values of an enumeration."""
    return CheckConstraint(f"{column} IN ({', '.join(repr(v.value) for v in values)})", name=name)


def priority_range(table: str) -> CheckConstraint:
    """Make the CHECK of a table's `priority`; NULL passes it."""
    return CheckConstraint(f"priority >= 0 AND priority <= {MAX_PRIORITY}", name=f"chk_{table}_priority")


def flag(name: str, *, default: bool) -> Column[bool]:
    """Make a BOOLEAN column."""
    return Column(name, Boolean, nullable=False, server_default=text(str(default).lower()))


def region() -> Column[str]:
    """Make the region column."""
    # TEXT with one value until the service spans several regions; CockroachDB then derives its own column from it.
    return word("crdb_region", default="default")
