"""Endpoints and their versions: a change makes a new version, and what was created before keeps the old one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, func, insert, null, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from app.catalog import check, configs, dependents, payload_specs, secrets
from app.db import Database
from app.errors import (
    ConflictError,
    EndpointNotFoundError,
    InvalidConfigRefError,
    InvalidPayloadSpecRefError,
    UnprocessableError,
)
from app.executions.backoff import RetryPolicy
from app.paging import Page, PageRequest, newest_first, page_of
from schema import tables
from schema.states import EndpointType

_E = tables.endpoints.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What a client says about an endpoint."""

    type: EndpointType
    payload_spec: str | None
    config: str | None
    spec: Mapping[str, Any]
    retry_policy: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A live endpoint."""

    name: str
    version: int
    definition: Definition
    retry_policy: RetryPolicy
    created_at: datetime
    updated_at: datetime


def create(database: Database, name: str, definition: Definition, stuck_timeout_ms: int) -> Endpoint:
    """Register an endpoint; one that was deleted comes back with its next version.

    Raises ConflictError when the name is taken, and what `check` finds wrong.
    """

    def body(connection: Connection) -> Endpoint:
        refs = _check(connection, definition, stuck_timeout_ms)
        fresh = {"created_at": func.now(), "deleted_at": None, "version": _E.version + 1}
        row = connection.execute(
            upsert(tables.endpoints)
            .values(name=name, **_values(definition))
            .on_conflict_do_update(
                index_elements=["name"],
                set_={**_values(definition), **fresh, "updated_at": func.now()},
                where=_E.deleted_at.is_not(None),
            )
            .returning(*_E)
        ).first()
        if row is None:
            raise ConflictError(f"An endpoint named {name!r} exists already.")
        return _with_version(connection, row, refs)

    return database.transact(body)


def replace(database: Database, name: str, definition: Definition, stuck_timeout_ms: int) -> Endpoint:
    """Change an endpoint for the jobs created from now on; raises EndpointNotFoundError."""

    def body(connection: Connection) -> Endpoint:
        refs = _check(connection, definition, stuck_timeout_ms)
        row = connection.execute(
            update(tables.endpoints)
            .where(_E.name == name, _E.deleted_at.is_(None))
            .values(**_values(definition), version=_E.version + 1, updated_at=func.now())
            .returning(*_E)
        ).first()
        return _with_version(connection, _found(row, name), refs)

    return database.transact(body)


def delete(database: Database, name: str) -> None:
    """Delete an endpoint softly: its history stays; raises ConflictError while it has something to do."""

    def body(connection: Connection) -> None:
        query = select(_E.name).where(_E.name == name, _E.deleted_at.is_(None)).with_for_update()
        _found(connection.execute(query).first(), name)
        dependents.refuse(connection, dependents.OF_ENDPOINT, "endpoint", name)
        # What it referred to may now be deleted too; the versions keep the names.
        connection.execute(
            update(tables.endpoints)
            .where(_E.name == name)
            .values(deleted_at=func.now(), payload_spec_ref=None, config_ref=None)
        )

    database.transact(body)


def get(database: Database, name: str) -> Endpoint:
    """Read a live endpoint; raises EndpointNotFoundError."""
    rows = database.fetch(select(*_E).where(_E.name == name, _E.deleted_at.is_(None)))
    return _endpoint(_found(rows[0] if rows else None, name))


def page(database: Database, wanted: PageRequest) -> Page[Endpoint]:
    """Read a page of live endpoints, newest first."""
    query = newest_first(select(*_E).where(_E.deleted_at.is_(None)), _E.created_at, _E.name, wanted)
    rows = page_of(database.fetch(query), "created_at", "name", wanted)
    return Page([_endpoint(row) for row in rows.items], rows.next)


def _check(connection: Connection, definition: Definition, stuck_timeout_ms: int) -> list[str]:
    """Check a definition and return the names of its secrets.

    What it refers to is locked against deletion until the transaction ends.
    """
    check.check_retry_policy(definition.retry_policy)
    schema = config = None
    if definition.payload_spec is not None:
        found = payload_specs.ROWS.share(connection, [definition.payload_spec])
        if not found:
            raise _bad_reference(InvalidPayloadSpecRefError, "payload_spec", "payload spec", definition.payload_spec)
        schema = found[definition.payload_spec]
    if definition.config is not None:
        found = configs.ROWS.share(connection, [definition.config])
        if not found:
            raise _bad_reference(InvalidConfigRefError, "config", "config", definition.config)
        config = found[definition.config]

    def existing_secrets(names: Iterable[str]) -> set[str]:
        return set(secrets.ROWS.share(connection, list(names)))

    template = check.check_spec(
        definition.type,
        definition.spec,
        config=config,
        secret_names_exist=existing_secrets,
        payload_schema=schema,
        stuck_timeout_ms=stuck_timeout_ms,
    )
    return sorted(template.secret_refs)


def _bad_reference(kind: type[UnprocessableError], field: str, noun: str, name: str) -> UnprocessableError:
    message = f"There is no {noun} named {name!r}."
    return kind(message, [{"pointer": f"/{field}", "message": message}])


def _values(definition: Definition) -> dict[str, Any]:
    return {
        "endpoint_type": definition.type.value,
        "payload_spec_ref": definition.payload_spec,
        "config_ref": definition.config,
        "spec": definition.spec,
        "retry_policy": definition.retry_policy if definition.retry_policy is not None else null(),
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
    )
    return Endpoint(
        name=row.name,
        version=row.version,
        definition=definition,
        retry_policy=RetryPolicy.from_json(row.retry_policy),
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
