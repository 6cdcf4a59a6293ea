"""Revisions of the catalogue, read with each claim.

Configs are resolved by the one of configs and secrets, and cached secrets end with it. What workers know of the flow of
endpoints ends with its own.
"""

from sqlalchemy import Connection

from app.kernel.sql import statement

CATALOG, FLOW, CALLBACKS = "catalog", "flow", "callbacks"

BUMP = statement(
    "catalog.bump", "UPDATE catalog_revision SET revision = revision + 1 WHERE id = :id RETURNING revision"
)


def bump(connection: Connection, of: str = CATALOG) -> int:
    """Count a change, in the transaction that makes it; returns the revision.

    Changes wait for each other here, so a revision that somebody has read stands for all changes up to it.
    """
    number: int = connection.execute(BUMP, {"id": of}).scalar_one()
    return number
