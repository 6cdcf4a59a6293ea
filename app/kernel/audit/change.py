"""Audited changes of the catalogue: who makes them, and on which condition."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, overload

from sqlalchemy import Connection

from app.kernel import audit, ids
from app.kernel.audit import Actor
from app.kernel.db import Database
from app.kernel.errors import PreconditionFailedError
from app.kernel.formats import EPOCH, MICROSECOND
from app.kernel.function_types import Work

if TYPE_CHECKING:
    from werkzeug.datastructures import ETags  # not there where workers are installed alone

T = TypeVar("T")


def tag_of(created_at: datetime, *numbers: int) -> str:
    """Return the entity tag of a state: its numbers, and when the row was created, since names can be reused."""
    return f'"{(created_at - EPOCH) // MICROSECOND:x}-{"-".join(map(str, numbers))}"'


@dataclass(frozen=True, slots=True)
class Condition:
    """Tags as in If-Match and If-None-Match (RFC 9110, 13.1): none where the header is absent."""

    match: "ETags | None" = None
    none_match: "ETags | None" = None

    def check(self, tag: str) -> None:
        """Raise PreconditionFailedError unless the resource is in a state that the client asked for."""
        # If-Match compares strongly: a weak tag is equal to none. If-None-Match compares weakly.
        if self.match and not self.match.contains_raw(tag):
            raise PreconditionFailedError("The resource has changed since: If-Match does not list its current ETag.")
        if self.has(tag):
            raise PreconditionFailedError("The resource is in a state that If-None-Match excludes.")

    def has(self, tag: str) -> bool:
        """Return whether If-None-Match lists this state."""
        return self.none_match is not None and self.none_match.contains_raw(f"W/{tag}")


@dataclass(frozen=True, slots=True)
class AuditedChange:
    """One change. Its id is that of its audit entry, the witness by which a repeated transaction finds it made."""

    by: Actor
    condition: Condition = Condition()
    audit_id: str = field(default_factory=ids.audit_id)

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

        After a commit whose answer was lost a second run would find its own row: a name taken, a tag out of date. So
        it reads the result with `again`, or returns `default` without it.
        """
        runs = 0

        def once(connection: Connection) -> Any:
            nonlocal runs
            runs += 1
            if runs > 1 and audit.is_recorded(connection, self.audit_id):
                return default if again is None else again(connection)
            return body(connection)

        return database.transact(once)
