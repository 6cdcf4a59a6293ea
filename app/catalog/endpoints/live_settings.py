"""Live settings of an endpoint: queue, priority, limits, breaker, pause, retention; changes make no new version."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row, func, null, select

from app.catalog.endpoints import endpoint_rows
from app.catalog.endpoints.endpoint_rows import Endpoint
from app.catalog.endpoints.limits import check_key
from app.catalog.endpoints.live_settings_fields import DEFAULT_PRIORITY
from app.kernel.audit import AuditAction, ResourceType
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from app.kernel.formats import duration_ms
from app.kernel.sql import statement
from schema import tables

MAX_PAUSED = 100

# The first condition lets the planner use idx_endpoints_flow. The transaction of a pause also writes its audit entry:
# both have the instant of the transaction.
PAUSED = statement(
    "endpoints.paused",
    """
    SELECT e.name, e.paused_at, a.actor_name AS paused_by
      FROM endpoints AS e
      LEFT JOIN audit_log AS a
        ON a.occurred_at = e.paused_at AND a.resource_type = 'endpoint' AND a.resource = e.name AND a.action = 'flow'
     WHERE (e.limits IS NOT NULL OR e.breaker IS NOT NULL OR e.paused_at IS NOT NULL)
       AND e.paused_at IS NOT NULL AND e.deleted_at IS NULL
     ORDER BY e.name LIMIT :most
    """,
)

_A, _E = tables.audit_log.c, tables.endpoints.c
PAUSED_BY = (
    select(_A.actor_name)
    .where(_A.occurred_at == _E.paused_at, _A.resource_type == ResourceType.ENDPOINT.value, _A.resource == _E.name)
    .where(_A.action == AuditAction.FLOW.value)
    .order_by(_A.audit_id)
    .limit(1)
    .scalar_subquery()
    .label("paused_by")
)
"""Author of the pause of a selected endpoint; NULL without a pause, and once the audit entry was deleted."""


# Live settings except the pause, by column.
DEFAULT_FLOW: Mapping[str, Any] = {
    "queue": None,
    "priority": DEFAULT_PRIORITY,
    "limits": None,
    "breaker": None,
    "result_retention_ms": None,
}


def flow_of(row: Row[Any]) -> dict[str, Any]:
    return {column: getattr(row, column) for column in DEFAULT_FLOW}


def changed(flow: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the given fields of a request replaced: null resets a field, absent fields stay."""
    new = {column: given.get(column, value) for column, value in flow.items()}
    if "result_retention" in given:
        new["result_retention_ms"] = duration_ms(given["result_retention"])
    if new["priority"] is None:
        new["priority"] = DEFAULT_PRIORITY
    return new


def as_columns(flow: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with SQL NULL for None: a JSON null would be a value."""
    return {column: null() if value is None else value for column, value in flow.items()}


def concern_workers(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Return whether workers must reload: they read queue and priority from the rows that they claim."""
    return any(new[column] != old[column] for column in ("limits", "breaker"))


def check_limits(connection: Connection, payload_spec: str | None, limits: Mapping[str, Any] | None) -> None:
    """Raise TemplateError unless a valid input can fill the key of the limits; locks nothing."""
    specs = tables.payload_specs.c
    query = select(specs.schema_json).where(specs.name == payload_spec)
    check_key(limits, connection.execute(query).scalar_one_or_none() if limits and payload_spec else None)


def change_flow(database: Database, name: str, given: Mapping[str, Any], change: AuditedChange) -> Endpoint:
    """Change the live settings of an endpoint, from the next claim on; `given` are fields of the request.

    Raises EndpointNotFoundError, PreconditionFailedError, or TemplateError for a limit key that no input can fill.
    """

    def body(connection: Connection) -> Endpoint:
        before = endpoint_rows.lock(connection, name, change, keeps_version=True)
        old = flow_of(before)
        new = changed(old, given)
        if new == old:
            return endpoint_rows.endpoint_of(before)
        check_limits(connection, before.payload_spec_ref, new["limits"])
        return _write(connection, change, before, as_columns(new), bump_flow=concern_workers(new, old))

    return change.make(database, body, again=partial(endpoint_rows.read, name=name))


def set_pause(database: Database, name: str, change: AuditedChange, *, paused: bool) -> Endpoint:
    """Pause or resume the start of executions; raises EndpointNotFoundError, PreconditionFailedError."""

    def body(connection: Connection) -> Endpoint:
        before = endpoint_rows.lock(connection, name, change, keeps_version=True)
        if (before.paused_at is not None) == paused:
            return endpoint_rows.endpoint_of(before)
        return _write(connection, change, before, {"paused_at": func.now() if paused else None}, bump_flow=True)

    return change.make(database, body, again=partial(endpoint_rows.read, name=name))


def paused(database: Database) -> Sequence[Row[Any]]:
    """Read name, `paused_at` and `paused_by` of the first MAX_PAUSED paused endpoints.

    The author is None once the entry of the audit log was deleted.
    """
    return database.fetch(PAUSED, {"most": MAX_PAUSED})


def _write(
    connection: Connection, change: AuditedChange, before: Row[Any], values: Mapping[str, Any], *, bump_flow: bool
) -> Endpoint:
    row = endpoint_rows.change_row(connection, before, {**values, "flow_revision": before.flow_revision + 1})
    endpoint_rows.note(connection, change, AuditAction.FLOW, before, row, bump_flow=bump_flow)
    return endpoint_rows.endpoint_of(row)
