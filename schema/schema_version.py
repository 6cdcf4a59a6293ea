"""Newest revision of this package, and the revision of a database; without Alembic, which each start would load."""

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

VERSIONS = Path(__file__).parent / "migrations" / "versions"
_REVISION = text("SELECT version_num FROM alembic_version")
_UNDEFINED_TABLE = "42P01"


class UnreleasedSchemaError(RuntimeError):
    """The schema of the database comes from an unreleased version, which has no upgrade path."""


def head(folders: Sequence[Path] = (), *, versions: Path = VERSIONS) -> str:
    """Return the newest revision of this package and of further folders, by their file names: NUMBER_subject.py."""
    return max(file.stem.partition("_")[0] for folder in (versions, *folders) for file in folder.glob("[0-9]*_*.py"))


def current(connection: Connection) -> str | None:
    """Return the revision of the database; None when it was never migrated."""
    # Alembic would first look up the table, in a catalog view that CockroachDB builds from every table.
    try:
        revision: str | None = connection.execute(_REVISION).scalar()
    except DBAPIError as error:
        if getattr(error.orig, "pgcode", None) != _UNDEFINED_TABLE:
            raise
        return None
    return revision
