"""Revision of the catalogue: workers read it with each claim, and drop their caches when it has moved."""

from sqlalchemy import Connection

from app.sql import statement

BUMP = statement("catalog.bump", "UPDATE catalog_revision SET revision = revision + 1 WHERE id = 'catalog'")


def bump(connection: Connection) -> None:
    """Count a change of a config or secret, in the transaction that makes it."""
    connection.execute(BUMP)
