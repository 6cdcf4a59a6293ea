"""Versions of endpoints: a change creates a new version; existing jobs keep the old version."""

from collections.abc import Mapping
from dataclasses import replace as replace_fields
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row, func, insert, null, select, update
from sqlalchemy.dialects import postgresql

from app.catalog import dependents, routing
from app.catalog.check_spec import NO_CHECKS, SpecCheck, check_retry_policy, check_spec
from app.catalog.endpoints import callback_targets, endpoint_rows
from app.catalog.endpoints.endpoint_rows import E, Endpoint, EndpointDefinition
from app.catalog.endpoints.inline_names import is_inline
from app.catalog.endpoints.live_settings import (
    DEFAULT_FLOW,
    PAUSED_BY,
    as_columns,
    changed,
    check_limits,
    concern_workers,
    flow_of,
)
from app.catalog.named_table import CONFIGS, PAYLOAD_SPECS, SECRETS, NamedTable
from app.catalog.specs.actor import endpoint_name
from app.kernel.audit import AuditAction
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from app.kernel.db.paging import Page, PageRequest, newest_first, page_of
from app.kernel.errors import (
    ConflictError,
    Detail,
    InvalidConfigRefError,
    InvalidPayloadSpecRefError,
    InvalidRequestError,
    UnprocessableError,
)
from schema import tables
from schema.inline_bounds import INLINE_NAME
from schema.states import EndpointType

_LEADING = ("endpoint_type", "config_ref", "spec")

MAX_COMPARED = 500  # names for the suggestion of a 404


def create(
    database: Database,
    name: str,
    definition: EndpointDefinition,
    change: AuditedChange,
    *,
    stuck_timeout_ms: int,
    flow: Mapping[str, Any] | None = None,
    spec_checks: Mapping[EndpointType, SpecCheck] = NO_CHECKS,
) -> Endpoint:
    """Register an endpoint with the live settings in `flow`; a deleted endpoint is restored with its next version.

    Raises ConflictError when the name is taken, and the errors of `_check`.
    """
    own = changed(DEFAULT_FLOW, flow or {})

    def body(connection: Connection) -> Endpoint:
        refs = _check(connection, name, definition, stuck_timeout_ms, spec_checks)
        check_limits(connection, definition.payload_spec, own["limits"])
        row = _insert(connection, name, _values(definition) | as_columns(own), routing.queue_of(connection, name))
        if row is None:
            raise ConflictError(f"An endpoint named {name!r} already exists. PUT /endpoints/{name} replaces it.")
        endpoint_rows.note(
            connection, change, AuditAction.CREATE, None, row, bump_flow=concern_workers(own, DEFAULT_FLOW)
        )
        return _with_version(connection, row, refs)

    return change.make(database, body, again=partial(endpoint_rows.read, name=name))


def replace(
    database: Database,
    name: str,
    definition: EndpointDefinition,
    change: AuditedChange,
    *,
    stuck_timeout_ms: int,
    flow: Mapping[str, Any] | None = None,
    spec_checks: Mapping[EndpointType, SpecCheck] = NO_CHECKS,
) -> Endpoint:
    """Change an endpoint for jobs created from now on, and the live settings in `flow`.

    Raises EndpointNotFoundError, PreconditionFailedError, ConflictError for an inline endpoint, and the errors of
    `_check`.
    """
    if is_inline(name):
        raise ConflictError("The definition of an inline endpoint cannot change, since its name is a digest of it.")

    def body(connection: Connection) -> Endpoint:
        # Lock the references before the endpoint, as in `create`, to avoid deadlocks.
        refs = _check(connection, name, definition, stuck_timeout_ms, spec_checks)
        before = endpoint_rows.lock(connection, name, change)
        old = flow_of(before)
        new = changed(old, flow or {})
        check_limits(connection, definition.payload_spec, new["limits"])
        counted = {"version": before.version + 1, "flow_revision": before.flow_revision + (new != old)}
        row = endpoint_rows.change_row(connection, before, _values(definition) | as_columns(new) | counted)
        # If the breaker of the old target is open, workers must resolve the target again.
        target_changes = any(getattr(row, column) != getattr(before, column) for column in _LEADING)
        bump_flow = target_changes or concern_workers(new, old)
        endpoint_rows.note(connection, change, AuditAction.REPLACE, before, row, bump_flow=bump_flow)
        return _with_version(connection, row, refs)

    return change.make(database, body, again=partial(endpoint_rows.read, name=name))


def check(
    database: Database,
    name: str,
    definition: EndpointDefinition,
    *,
    stuck_timeout_ms: int,
    spec_checks: Mapping[EndpointType, SpecCheck] = NO_CHECKS,
) -> None:
    """Raise the errors of `replace` about a definition; the caller undoes its locks, which are writes."""

    def body(connection: Connection) -> None:
        _check(connection, name, definition, stuck_timeout_ms, spec_checks)
        check_limits(connection, definition.payload_spec, endpoint_rows.read(connection, name).limits)

    database.transact(body)


def delete(database: Database, name: str, change: AuditedChange) -> None:
    """Mark an endpoint as deleted; its versions stay.

    Raises EndpointNotFoundError, PreconditionFailedError, or ConflictError while something depends on it.
    """

    def body(connection: Connection) -> None:
        before = endpoint_rows.lock(connection, name, change)
        dependents.refuse(connection, dependents.OF_ENDPOINT, "endpoint", name)
        # The references may be deleted from now on; the versions keep their names.
        gone = {
            "payload_spec_ref": None,
            "config_ref": None,
            "callbacks": null(),
            "paused_at": None,
            **as_columns(DEFAULT_FLOW),
        }
        connection.execute(update(tables.endpoints).where(E.name == name).values(deleted_at=func.now(), **gone))
        has_flow = concern_workers(flow_of(before), DEFAULT_FLOW) or before.paused_at is not None
        endpoint_rows.note(connection, change, AuditAction.DELETE, before, None, bump_flow=has_flow)

    change.make(database, body)


def get(database: Database, name: str) -> Endpoint:
    """Read a live endpoint; raises EndpointNotFoundError."""
    found = database.fetch(select(*E, PAUSED_BY).where(E.name == name, E.deleted_at.is_(None)))
    row = endpoint_rows.found(found[0] if found else None, name)
    return replace_fields(endpoint_rows.endpoint_of(row), paused_by=row.paused_by)


def page(database: Database, wanted: PageRequest, *, inline: bool = False) -> Page[Endpoint]:
    """Return a page of the live endpoints that clients have registered, or of the inline endpoints."""
    of_kind = E.name.regexp_match(INLINE_NAME.pattern) == inline
    query = newest_first(select(*E).where(E.deleted_at.is_(None), of_kind), E.created_at, E.name, wanted)
    return page_of(database.fetch(query), "created_at", "name", wanted, endpoint_rows.endpoint_of)


def similar_names(database: Database, name: str) -> list[str]:
    """Return up to MAX_COMPARED names of registered endpoints that begin with the first letter of `name`."""
    begins_alike = E.name.startswith(name[:1], autoescape=True)
    wanted = select(E.name).where(begins_alike, ~E.name.regexp_match(INLINE_NAME.pattern), E.deleted_at.is_(None))
    return [row.name for row in database.fetch(wanted.limit(MAX_COMPARED))]


def _insert(connection: Connection, name: str, values: Mapping[str, Any], routed_queue: str | None) -> Row[Any] | None:
    """Insert an endpoint, or restore a deleted endpoint; None when the name is taken."""
    fresh = {"created_at": func.now(), "updated_at": func.now(), "deleted_at": None, "version": E.version + 1}
    values = {**values, "routed_queue": routed_queue}
    return connection.execute(
        postgresql.insert(tables.endpoints)
        .values(name=name, **values)
        .on_conflict_do_update(index_elements=["name"], set_={**values, **fresh}, where=E.deleted_at.is_not(None))
        .returning(*E)
    ).first()


def _values(definition: EndpointDefinition) -> dict[str, Any]:
    return {
        "endpoint_type": definition.type.value,
        "payload_spec_ref": definition.payload_spec,
        "config_ref": definition.config,
        "spec": definition.spec,
        "retry_policy": definition.retry_policy if definition.retry_policy is not None else null(),
        "keep_response": definition.keep_response.value,
        "callbacks": callback_targets.stored(definition.callbacks),
    }


def _with_version(connection: Connection, row: Row[Any], secret_refs: list[str]) -> Endpoint:
    endpoint = endpoint_rows.endpoint_of(row)
    connection.execute(
        insert(tables.endpoint_versions).values(
            endpoint=row.name, version=row.version, secret_refs=secret_refs, **_values(endpoint)
        )
    )
    return endpoint


def _check(
    connection: Connection,
    name: str,
    definition: EndpointDefinition,
    stuck_timeout_ms: int,
    spec_checks: Mapping[EndpointType, SpecCheck],
) -> list[str]:
    """Check a definition and return the names of its secrets.

    Locks the referenced rows against deletion until the transaction ends.
    """
    callback_targets.check_of_endpoint(connection, name, definition.callbacks)
    check_retry_policy(definition.retry_policy)
    payload_schema = _value(
        connection, PAYLOAD_SPECS, definition.payload_spec, "payload_spec", InvalidPayloadSpecRefError
    )
    template = check_spec(
        definition.type,
        definition.spec,
        payload_schema=payload_schema,
        config=_value(connection, CONFIGS, definition.config, "config", InvalidConfigRefError),
        secret_names_exist=partial(SECRETS.share, connection),
        stuck_timeout_ms=stuck_timeout_ms,
    )
    if definition.type is EndpointType.ACTOR and (wanted := endpoint_name(definition.spec["actor"])) != name:
        # A worker finds the processes of an endpoint by the name of their actor.
        fault = f"Must be {wanted!r}, the endpoint of the actor {definition.spec['actor']!r}."
        raise InvalidRequestError.of_faults(Detail(pointer="/name", message=fault))
    if (check := spec_checks.get(definition.type)) is not None:
        check(connection, name, definition.spec, payload_schema)
    return sorted(template.secret_refs)


def _value(
    connection: Connection, rows: NamedTable, name: str | None, field: str, missing: type[UnprocessableError]
) -> Any:
    if name is None:
        return None
    found = rows.share(connection, [name])
    if name not in found:
        message = f"There is no {rows.noun} named {name!r}. Create it first: POST {rows.path}."
        raise missing(message, [{"pointer": f"/{field}", "message": message}])
    return found[name]
