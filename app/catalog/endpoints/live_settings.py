"""Flow of an endpoint: queue, priority, limits, breaker, pause and retention, which change without a new version."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Row, func, null, update

from app.catalog.endpoints import endpoint_rows, references
from app.catalog.endpoints.endpoint_rows import E, Endpoint
from app.catalog.endpoints.live_settings_fields import DEFAULT_PRIORITY
from app.kernel.audit import Action
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from app.kernel.errors import UnavailableError
from app.kernel.formats import duration_ms
from app.kernel.sql import statement
from schema import tables

MOST_PAUSED = 100

# By the index of the endpoints of which workers must know more than the versions say.
PAUSED = statement(
    "endpoints.paused",
    """
    SELECT name, paused_at FROM endpoints
     WHERE (limits IS NOT NULL OR breaker IS NOT NULL OR paused_at IS NOT NULL)
       AND paused_at IS NOT NULL AND deleted_at IS NULL ORDER BY name LIMIT :most
    """,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """What decides when executions of an endpoint start, and how long results are kept; None is the default."""

    queue: str | None = None
    priority: int = DEFAULT_PRIORITY
    limits: Mapping[str, Any] | None = None
    breaker: Mapping[str, Any] | str | None = None
    result_retention: str | None = None

    @classmethod
    def of(cls, row: Row[Any]) -> "Flow":
        """Take it out of an endpoint's row."""
        kept = endpoint_rows.shown_retention(row)
        return cls(
            queue=row.queue, priority=row.priority, limits=row.limits, breaker=row.breaker, result_retention=kept
        )

    def changed(self, given: Mapping[str, Any]) -> "Flow":
        """Return it with the fields that a request gives: null takes a value away, what is left out stays."""
        names = ("queue", "limits", "breaker", "result_retention")
        ours = {name: given[name] for name in names if name in given}
        if "priority" in given:
            ours["priority"] = DEFAULT_PRIORITY if given["priority"] is None else given["priority"]
        return replace(self, **ours)

    def as_columns(self) -> dict[str, Any]:
        """Return the values of an endpoint's columns."""
        # A JSON null would be a value of the column.
        limits, breaker = (null() if value is None else value for value in (self.limits, self.breaker))
        own = {"queue": self.queue, "priority": self.priority, "limits": limits, "breaker": breaker}
        return own | {"result_retention_ms": duration_ms(self.result_retention)}

    def concerns_workers(self, before: "Flow") -> bool:
        """Return whether workers must know of the change: queue and priority are those of the rows they claim."""
        return (self.limits, self.breaker) != (before.limits, before.breaker)


def change_flow(database: Database, name: str, given: Mapping[str, Any], change: AuditedChange) -> Endpoint:
    """Change the flow of an endpoint, from the next claim on; `given` are fields of Flow.

    Raises EndpointNotFoundError, PreconditionFailedError, or TemplateError for a key that no input can have.
    """

    def body(connection: Connection) -> Endpoint:
        before = endpoint_rows.lock(connection, name, change, keeps_version=True)
        old = Flow.of(before)
        new = old.changed(given)
        if new == old:
            return endpoint_rows.endpoint_of(before)
        references.check_limits(connection, before.payload_spec_ref, new.limits)
        return _write(connection, change, before, new.as_columns(), tell=new.concerns_workers(old))

    return change.make(database, body, again=lambda connection: endpoint_rows.read(connection, name))


def pause(database: Database, name: str, change: AuditedChange) -> Endpoint:
    """Let nothing of an endpoint start until it is resumed; raises EndpointNotFoundError, PreconditionFailedError."""
    return _set_pause(database, name, change, paused=True)


def resume(database: Database, name: str, change: AuditedChange) -> Endpoint:
    """Let executions of an endpoint start again; raises EndpointNotFoundError, PreconditionFailedError."""
    return _set_pause(database, name, change, paused=False)


def paused(database: Database) -> Sequence[Row[Any]]:
    """Read the names of the first MOST_PAUSED endpoints that are paused, and since when."""
    return database.fetch(PAUSED, {"most": MOST_PAUSED})


def _set_pause(database: Database, name: str, change: AuditedChange, *, paused: bool) -> Endpoint:
    def body(connection: Connection) -> Endpoint:
        before = endpoint_rows.lock(connection, name, change, keeps_version=True)
        if (before.paused_at is not None) == paused:
            return endpoint_rows.endpoint_of(before)
        return _write(connection, change, before, {"paused_at": func.now() if paused else None}, tell=True)

    return change.make(database, body, again=lambda connection: endpoint_rows.read(connection, name))


def _write(
    connection: Connection, change: AuditedChange, before: Row[Any], values: Mapping[str, Any], *, tell: bool
) -> Endpoint:
    counted = {"flow_revision": before.flow_revision + 1, "updated_at": func.now()}
    row = connection.execute(
        update(tables.endpoints)
        .where(E.name == before.name, E.flow_revision == before.flow_revision, E.deleted_at.is_(None))
        .values(**values, **counted)
        .returning(*E)
    ).first()
    if row is None:
        raise UnavailableError("The endpoint keeps changing; try again.")
    endpoint_rows.note(connection, change, Action.FLOW, before, row, tell=tell)
    return endpoint_rows.endpoint_of(row)
