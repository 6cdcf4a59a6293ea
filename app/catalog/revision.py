"""Revision of the catalogue: read with each claim. Configs are resolved by it, and cached secrets end with it."""

from sqlalchemy import Connection

from app.sql import statement

BUMP = statement(
    "catalog.bump", "UPDATE catalog_revision SET revision = revision + 1 WHERE id = 'catalog' RETURNING revision"
)


def bump(connection: Connection) -> int:
    """Count a change of a config or secret, in the transaction that makes it; returns the new revision.

    Changes wait for each other here, so a revision that somebody has read stands for all changes up to it.
    """
    number: int = connection.execute(BUMP).scalar_one()
    return number
