"""Grants of te_enqueue: the endpoints, by patterns, for which roles of the database create jobs.

While there is a grant, te_enqueue refuses roles without one; without any, EXECUTE on the function is enough.
"""

from dataclasses import dataclass

from sqlalchemy import Connection

from app.kernel.audit import Actor, AuditAction, ResourceType
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from app.kernel.sql import statement

LIST = statement("te_grants.list", "SELECT role_name, pattern FROM te_grants ORDER BY role_name, pattern")
LOCK = statement("te_grants.lock", "SELECT role_name, pattern FROM te_grants ORDER BY role_name, pattern FOR UPDATE")
ADD = statement(
    "te_grants.add",
    """
    INSERT INTO te_grants (role_name, pattern) VALUES (:role_name, :pattern)
    ON CONFLICT (role_name, pattern) DO NOTHING RETURNING pattern
    """,
)
REMOVE = statement(
    "te_grants.remove",
    "DELETE FROM te_grants WHERE role_name = :role_name AND pattern = :pattern RETURNING pattern",
)
ROLES = statement("te_grants.roles", "SELECT rolname AS role_name FROM pg_roles ORDER BY rolname")


@dataclass(frozen=True, slots=True, order=True)
class EnqueueGrant:
    role_name: str
    pattern: str


class LastGrantError(Exception):
    """The removal would leave no grant, and so open te_enqueue."""


def list_grants(database: Database) -> list[EnqueueGrant]:
    """Read all grants, by role."""
    return [EnqueueGrant(row.role_name, row.pattern) for row in database.fetch(LIST)]


def role_names(database: Database) -> list[str]:
    """Read the names of the roles of the database server."""
    return [row.role_name for row in database.fetch(ROLES)]


def add(database: Database, grant: EnqueueGrant, *, by: Actor) -> bool:
    """Add a grant; returns false if it was there."""
    return _change(database, grant, by, is_added=True)


def remove(database: Database, grant: EnqueueGrant, *, by: Actor, may_be_last: bool) -> bool:
    """Remove a grant; returns false if there was none. Raises LastGrantError unless the last one may be removed."""
    return _change(database, grant, by, is_added=False, may_be_last=may_be_last)


def _change(database: Database, grant: EnqueueGrant, by: Actor, *, is_added: bool, may_be_last: bool = True) -> bool:
    change, values = AuditedChange(by), {"role_name": grant.role_name, "pattern": grant.pattern}

    def body(connection: Connection) -> bool:
        if not may_be_last and _locked(connection) == [grant]:
            raise LastGrantError("This is the last grant now, because another one was removed.")
        if connection.execute(ADD if is_added else REMOVE, values).first() is None:
            return False
        action = AuditAction.CREATE if is_added else AuditAction.DELETE
        states = {"after" if is_added else "before": values}
        change.record(connection, action, ResourceType.GRANT, f"{grant.role_name} {grant.pattern}", **states)
        return True

    return change.make(database, body, default=True)


def _locked(connection: Connection) -> list[EnqueueGrant]:
    """Lock and read all grants, so that a second removal waits and reads the grants that the first has left."""
    return [EnqueueGrant(row.role_name, row.pattern) for row in connection.execute(LOCK)]
