"""Live settings of an endpoint: queue, priority, limits, breaker, pause, retention; changes make no new version."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row, func, null, update

from app.catalog.endpoints import endpoint_rows, references
from app.catalog.endpoints.endpoint_rows import E, Endpoint
from app.catalog.endpoints.live_settings_fields import DEFAULT_PRIORITY
from app.kernel.audit import AuditAction
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from app.kernel.errors import UnavailableError
from app.kernel.formats import duration_ms
from app.kernel.sql import statement
from schema import tables

MAX_PAUSED = 100

# The first condition lets the planner use idx_endpoints_flow.
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
    """Live settings of an endpoint except its pause; None is the default."""

    queue: str | None = None
    priority: int = DEFAULT_PRIORITY
    limits: Mapping[str, Any] | None = None
    breaker: Mapping[str, Any] | str | None = None
    result_retention: str | None = None

    @classmethod
    def of(cls, row: Row[Any]) -> "Flow":
        """Read the settings from an endpoint's row."""
        kept = endpoint_rows.shown_retention(row)
        return cls(
            queue=row.queue, priority=row.priority, limits=row.limits, breaker=row.breaker, result_retention=kept
        )

    def changed(self, given: Mapping[str, Any]) -> "Flow":
        """Return the settings with the given fields replaced: null resets a field, absent fields stay."""
        names = ("queue", "limits", "breaker", "result_retention")
        ours = {name: given[name] for name in names if name in given}
        if "priority" in given:
            ours["priority"] = DEFAULT_PRIORITY if given["priority"] is None else given["priority"]
        return replace(self, **ours)

    def as_columns(self) -> dict[str, Any]:
        """Return the values of the endpoint's columns."""
        # SQL NULL: a JSON null would be a value.
        limits, breaker = (null() if value is None else value for value in (self.limits, self.breaker))
        own = {"queue": self.queue, "priority": self.priority, "limits": limits, "breaker": breaker}
        return own | {"result_retention_ms": duration_ms(self.result_retention)}

    def concerns_workers(self, before: "Flow") -> bool:
        """Return whether workers must reload: they read queue and priority from the rows that they claim."""
        return (self.limits, self.breaker) != (before.limits, before.breaker)


def change_flow(database: Database, name: str, given: Mapping[str, Any], change: AuditedChange) -> Endpoint:
    """Change the live settings of an endpoint, from the next claim on; `given` are fields of Flow.

    Raises EndpointNotFoundError, PreconditionFailedError, or TemplateError for a limit key that no input can fill.
    """

    def body(connection: Connection) -> Endpoint:
        before = endpoint_rows.lock(connection, name, change, keeps_version=True)
        old = Flow.of(before)
        new = old.changed(given)
        if new == old:
            return endpoint_rows.endpoint_of(before)
        references.check_limits(connection, before.payload_spec_ref, new.limits)
        return _write(connection, change, before, new.as_columns(), bump_flow=new.concerns_workers(old))

    return change.make(database, body, again=partial(endpoint_rows.read, name=name))


def pause(database: Database, name: str, change: AuditedChange) -> Endpoint:
    """Start no executions of an endpoint until it is resumed; raises as `resume`."""
    return _set_pause(database, name, change, paused=True)


def resume(database: Database, name: str, change: AuditedChange) -> Endpoint:
    """Start executions of an endpoint again; raises EndpointNotFoundError, PreconditionFailedError."""
    return _set_pause(database, name, change, paused=False)


def paused(database: Database) -> Sequence[Row[Any]]:
    """Read name and `paused_at` of the first MAX_PAUSED paused endpoints."""
    return database.fetch(PAUSED, {"most": MAX_PAUSED})


def _set_pause(database: Database, name: str, change: AuditedChange, *, paused: bool) -> Endpoint:
    def body(connection: Connection) -> Endpoint:
        before = endpoint_rows.lock(connection, name, change, keeps_version=True)
        if (before.paused_at is not None) == paused:
            return endpoint_rows.endpoint_of(before)
        return _write(connection, change, before, {"paused_at": func.now() if paused else None}, bump_flow=True)

    return change.make(database, body, again=partial(endpoint_rows.read, name=name))


def _write(
    connection: Connection, change: AuditedChange, before: Row[Any], values: Mapping[str, Any], *, bump_flow: bool
) -> Endpoint:
    counted = {"flow_revision": before.flow_revision + 1, "updated_at": func.now()}
    row = connection.execute(
        update(tables.endpoints)
        .where(E.name == before.name, E.flow_revision == before.flow_revision, E.deleted_at.is_(None))
        .values(**values, **counted)
        .returning(*E)
    ).first()
    if row is None:
        raise UnavailableError("The endpoint is being changed concurrently; retry the request.")
    endpoint_rows.note(connection, change, AuditAction.FLOW, before, row, bump_flow=bump_flow)
    return endpoint_rows.endpoint_of(row)
