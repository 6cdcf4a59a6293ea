"""Revisions of the catalog, read with each claim.

CATALOG counts changes of configs and secrets: it selects config values and invalidates cached secrets. FLOW counts
changes of live settings and invalidates the workers' copies.
"""

from sqlalchemy import Connection

from app.kernel.sql import statement

CATALOG, FLOW, CALLBACKS = "catalog", "flow", "callbacks"

BUMP = statement(
    "catalog.bump", "UPDATE catalog_revision SET revision = revision + 1 WHERE id = :id RETURNING revision"
)


def bump(connection: Connection, of: str = CATALOG) -> int:
    """Count a change, in the transaction of the change; return the new revision.

    Changes are serialised by this row, so a visible revision implies that all earlier changes are visible.
    """
    number: int = connection.execute(BUMP, {"id": of}).scalar_one()
    return number
