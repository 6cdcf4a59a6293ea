"""Endpoints and their versions: a change makes a new version, and existing jobs keep the old one."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, func, insert, null, select, update
from sqlalchemy.dialects import postgresql

from app import audit
from app.audit import Action, ResourceType
from app.audit.change import AuditedChange, tag_of
from app.catalog import dependents, references
from app.catalog.references import Definition
from app.catalog.retry_policy import RetryPolicy
from app.db import Database
from app.db.paging import Page, PageRequest, newest_first, page_of
from app.errors import ConflictError, EndpointNotFoundError, UnavailableError
from schema import tables
from schema.states import EndpointType, KeepResponse

_E = tables.endpoints.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A live endpoint."""

    name: str
    version: int
    definition: Definition
    retry_policy: RetryPolicy
    created_at: datetime
    updated_at: datetime

    @property
    def tag(self) -> str:
        """The entity tag of this state."""
        return tag_of(self.created_at, self.version)


def create(
    database: Database, name: str, definition: Definition, change: AuditedChange, *, stuck_timeout_ms: int
) -> Endpoint:
    """Register an endpoint; one that was deleted comes back with its next version.

    Raises ConflictError when the name is taken, and what `check` finds wrong.
    """

    def body(connection: Connection) -> Endpoint:
        refs = references.check_references(connection, definition, stuck_timeout_ms)
        row = _insert(connection, name, definition)
        if row is None:
            raise ConflictError(f"An endpoint named {name!r} exists already.")
        _note(connection, change, Action.CREATE, None, row)
        return _with_version(connection, row, refs)

    return change.make(database, body, again=lambda connection: _read(connection, name))


def replace(
    database: Database, name: str, definition: Definition, change: AuditedChange, *, stuck_timeout_ms: int
) -> Endpoint:
    """Change an endpoint for the jobs created from now on.

    Raises EndpointNotFoundError, PreconditionFailedError, and what `check` finds wrong.
    """

    def body(connection: Connection) -> Endpoint:
        # What is referred to is locked before the endpoint, as in `create`: in two orders they could deadlock.
        refs = references.check_references(connection, definition, stuck_timeout_ms)
        before = _lock(connection, name, change)
        row = connection.execute(
            update(tables.endpoints)
            .where(_E.name == name, _E.version == before.version, _E.deleted_at.is_(None))
            .values(**_values(definition), version=before.version + 1, updated_at=func.now())
            .returning(*_E)
        ).first()
        if row is None:
            raise UnavailableError("The endpoint keeps changing; try again.")
        _note(connection, change, Action.REPLACE, before, row)
        return _with_version(connection, row, refs)

    return change.make(database, body, again=lambda connection: _read(connection, name))


def delete(database: Database, name: str, change: AuditedChange) -> None:
    """Mark an endpoint as deleted; its history stays.

    Raises EndpointNotFoundError, PreconditionFailedError, or ConflictError while something depends on it.
    """

    def body(connection: Connection) -> None:
        before = _lock(connection, name, change)
        dependents.refuse(connection, dependents.OF_ENDPOINT, "endpoint", name)
        # What it referred to may be deleted from now on; its versions keep the names.
        connection.execute(
            update(tables.endpoints)
            .where(_E.name == name)
            .values(deleted_at=func.now(), payload_spec_ref=None, config_ref=None)
        )
        _note(connection, change, Action.DELETE, before, None)

    change.make(database, body, again=lambda _connection: None)


def get(database: Database, name: str) -> Endpoint:
    """Read a live endpoint; raises EndpointNotFoundError."""
    rows = database.fetch(select(*_E).where(_E.name == name, _E.deleted_at.is_(None)))
    return _endpoint(_found(rows[0] if rows else None, name))


def page(database: Database, wanted: PageRequest) -> Page[Endpoint]:
    """Read a page of live endpoints, newest first."""
    query = newest_first(select(*_E).where(_E.deleted_at.is_(None)), _E.created_at, _E.name, wanted)
    return page_of(database.fetch(query), "created_at", "name", wanted, _endpoint)


def _insert(connection: Connection, name: str, definition: Definition) -> Row[Any] | None:
    """Add an endpoint, or bring back a deleted one; None when the name is taken."""
    fresh = {"created_at": func.now(), "deleted_at": None, "version": _E.version + 1}
    return connection.execute(
        postgresql.insert(tables.endpoints)
        .values(name=name, **_values(definition))
        .on_conflict_do_update(
            index_elements=["name"],
            set_={**_values(definition), **fresh, "updated_at": func.now()},
            where=_E.deleted_at.is_not(None),
        )
        .returning(*_E)
    ).first()


def _lock(connection: Connection, name: str, change: AuditedChange) -> Row[Any]:
    """Lock a live endpoint and check the client's condition on its state."""
    query = select(*_E).where(_E.name == name, _E.deleted_at.is_(None)).with_for_update()
    row = _found(connection.execute(query).first(), name)
    change.condition.check(tag_of(row.created_at, row.version))
    return row


def _note(
    connection: Connection, change: AuditedChange, action: Action, before: Row[Any] | None, after: Row[Any] | None
) -> None:
    old, new = (None if row is None else _content(row) for row in (before, after))
    name = (after if after is not None else before).name  # type: ignore[union-attr]
    audit.record(
        connection,
        change.audit_id,
        by=change.by,
        action=action,
        resource_type=ResourceType.ENDPOINT,
        resource=name,
        before=old,
        after=new,
    )


def _content(row: Row[Any]) -> dict[str, Any]:
    columns = ("endpoint_type", "payload_spec_ref", "config_ref", "spec", "retry_policy", "keep_response")
    return {column: getattr(row, column) for column in columns}


def _read(connection: Connection, name: str) -> Endpoint:
    row = connection.execute(select(*_E).where(_E.name == name, _E.deleted_at.is_(None))).first()
    return _endpoint(_found(row, name))


def _values(definition: Definition) -> dict[str, Any]:
    return {
        "endpoint_type": definition.type.value,
        "payload_spec_ref": definition.payload_spec,
        "config_ref": definition.config,
        "spec": definition.spec,
        "retry_policy": definition.retry_policy if definition.retry_policy is not None else null(),
        "keep_response": definition.keep_response.value,
    }


def _with_version(connection: Connection, row: Row[Any], secret_refs: list[str]) -> Endpoint:
    endpoint = _endpoint(row)
    connection.execute(
        insert(tables.endpoint_versions).values(
            endpoint=row.name, version=row.version, secret_refs=secret_refs, **_values(endpoint.definition)
        )
    )
    return endpoint


def _found(row: Row[Any] | None, name: str) -> Row[Any]:
    if row is None:
        raise EndpointNotFoundError(f"There is no endpoint named {name!r}.")
    return row


def _endpoint(row: Row[Any]) -> Endpoint:
    definition = Definition(
        type=EndpointType(row.endpoint_type),
        payload_spec=row.payload_spec_ref,
        config=row.config_ref,
        spec=row.spec,
        retry_policy=row.retry_policy,
        keep_response=KeepResponse(row.keep_response),
    )
    return Endpoint(
        name=row.name,
        version=row.version,
        definition=definition,
        retry_policy=RetryPolicy.from_json(row.retry_policy),
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
