"""Audited changes: the actor of a change, its condition, and its audit entry."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, overload

from sqlalchemy import Connection

from app.kernel import audit, ids
from app.kernel.audit import Actor, AuditAction, ResourceType
from app.kernel.db import Database
from app.kernel.errors import PreconditionFailedError
from app.kernel.formats import EPOCH, MICROSECOND
from app.kernel.function_types import Work

if TYPE_CHECKING:
    from werkzeug.datastructures import ETags  # not installed with a worker alone

T = TypeVar("T")


def tag_of(created_at: datetime, *numbers: int) -> str:
    """Return the entity tag of a state: creation time of the row, since names can be reused, and `numbers`."""
    return f'"{(created_at - EPOCH) // MICROSECOND:x}-{"-".join(map(str, numbers))}"'


class StateTag(str):
    """Entity tag of the only state in which a change is made, where no header names tags."""

    __slots__ = ()

    def contains_raw(self, tag: str) -> bool:
        """Return whether a state has this tag; named as in werkzeug's ETags."""
        return self == tag


@dataclass(frozen=True, slots=True)
class Condition:
    """Tags of If-Match and If-None-Match (RFC 9110, 13.1); None if the header is absent."""

    match: "ETags | StateTag | None" = None
    none_match: "ETags | None" = None

    def check(self, tag: str) -> None:
        """Raise PreconditionFailedError unless the current tag meets both conditions."""
        # If-Match compares strongly: a weak tag equals no other tag. If-None-Match compares weakly.
        if self.match and not self.match.contains_raw(tag):
            raise PreconditionFailedError(
                "The resource has changed: If-Match does not list its current ETag. Read it, and repeat the change."
            )
        if self.has(tag):
            raise PreconditionFailedError("The resource is in a state that If-None-Match excludes.")

    def has(self, tag: str) -> bool:
        """Return whether If-None-Match lists this state."""
        return self.none_match is not None and self.none_match.contains_raw(f"W/{tag}")


@dataclass(frozen=True, slots=True)
class AuditedChange:
    """Change of a resource; a repeated transaction finds the id of the audit entry, and so its earlier commit."""

    by: Actor
    condition: Condition = Condition()
    audit_id: str = field(default_factory=ids.audit_id)

    def record(
        self,
        connection: Connection,
        action: AuditAction,
        resource_type: ResourceType,
        resource: str,
        *,
        before: Any = None,
        after: Any = None,
    ) -> None:
        """Log the change in its transaction; `before` and `after` are hashed, None means absent."""
        values = {
            "audit_id": self.audit_id,
            "actor_id": self.by.actor_id,
            "actor_name": self.by.name,
            "action": action.value,
            "resource_type": resource_type.value,
            "resource": resource,
            "before_hash": audit.digest(before),
            "after_hash": audit.digest(after),
            "request_id": self.by.request_id,
        }
        connection.execute(audit.RECORD, values)

    @overload
    def make(self, database: Database, body: Work[T], again: Work[T]) -> T: ...

    @overload
    def make(self, database: Database, body: Work[None]) -> None: ...

    @overload
    def make(self, database: Database, body: Work[T], *, default: T) -> T: ...

    def make(
        self, database: Database, body: Work[Any], again: Work[Any] | None = None, *, default: object = None
    ) -> Any:
        """Run `body`, which records this change, in a transaction.

        If the answer to a commit was lost, `body` would fail on its own row in the second run: the name is taken, the
        tag is outdated. The second run then returns the result of `again`, or `default` without `again`.
        """
        runs = 0

        def once(connection: Connection) -> Any:
            nonlocal runs
            runs += 1
            if runs > 1 and audit.is_recorded(connection, self.audit_id):
                return default if again is None else again(connection)
            return body(connection)

        return database.transact(once)
