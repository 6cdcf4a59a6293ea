"""Rows of endpoints: read, lock and audit them, and convert them to endpoints."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zlib import crc32

from sqlalchemy import Connection, Row, func, select, update

from app.catalog import revision
from app.kernel.audit import AuditAction, ResourceType
from app.kernel.audit.change import AuditedChange, tag_of
from app.kernel.errors import EndpointNotFoundError, UnavailableError
from app.kernel.formats import show_duration
from schema import tables
from schema.states import EndpointType, KeepResponse

E = tables.endpoints.c

_DEFINITION = ("endpoint_type", "payload_spec_ref", "config_ref", "spec", "retry_policy", "keep_response", "callbacks")
# Columns that are attributes of an endpoint, too.
_SAME = (
    *("name", "version", "spec", "retry_policy", "callbacks", "queue", "routed_queue", "priority", "limits", "breaker"),
    *("paused_at", "flow_revision", "created_at", "updated_at"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointDefinition:
    """Definition of an endpoint, as given by a client."""

    type: EndpointType
    payload_spec: str | None
    config: str | None
    spec: Mapping[str, Any]
    retry_policy: Mapping[str, Any] | None
    keep_response: KeepResponse = KeepResponse.ALWAYS
    callbacks: Mapping[str, str | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint(EndpointDefinition):
    """A live endpoint; only `versions.get` reads `paused_by`, the author of its pause."""

    name: str
    version: int
    queue: str | None
    routed_queue: str | None
    queue_in_effect: str
    priority: int
    limits: Mapping[str, Any] | None
    breaker: Mapping[str, Any] | str | None
    result_retention: str | None
    paused_at: datetime | None
    flow_revision: int
    created_at: datetime
    updated_at: datetime
    paused_by: str | None = None

    @property
    def tag(self) -> str:
        return _tag(self)


def lock(connection: Connection, name: str, change: AuditedChange, *, keeps_version: bool = False) -> Row[Any]:
    """Lock a live endpoint and check the client's condition on its state; raises EndpointNotFoundError.

    A change that `keeps_version` and the creation of a job do not wait for each other. Any other change waits until
    every job that is being created for the old version is committed.
    """
    query = select(*E).where(E.name == name, E.deleted_at.is_(None)).with_for_update(key_share=keeps_version)
    row = found(connection.execute(query).first(), name)
    change.condition.check(_tag(row))
    return row


def read(connection: Connection, name: str) -> Endpoint:
    """Read a live endpoint; raises EndpointNotFoundError."""
    row = connection.execute(select(*E).where(E.name == name, E.deleted_at.is_(None))).first()
    return endpoint_of(found(row, name))


def found(row: Row[Any] | None, name: str) -> Row[Any]:
    if row is None:
        raise EndpointNotFoundError.of(name)
    return row


def change_row(connection: Connection, before: Row[Any], values: Mapping[str, Any]) -> Row[Any]:
    """Update a locked endpoint; raises UnavailableError after a concurrent change."""
    row = connection.execute(
        update(tables.endpoints)
        .where(E.name == before.name, E.version == before.version, E.deleted_at.is_(None))
        .where(E.flow_revision == before.flow_revision)
        .values(**values, updated_at=func.now())
        .returning(*E)
    ).first()
    if row is None:
        raise UnavailableError("The endpoint is being changed concurrently. Retry later.")
    return row


def note(
    connection: Connection,
    change: AuditedChange,
    action: AuditAction,
    before: Row[Any] | None,
    after: Row[Any] | None,
    *,
    bump_flow: bool,
) -> None:
    """Audit a change; with `bump_flow`, workers reload the live settings of endpoints."""
    old, new = (None if row is None else _content(row) for row in (before, after))
    row: Any = after if after is not None else before
    change.record(connection, action, ResourceType.ENDPOINT, row.name, before=old, after=new)
    if bump_flow:
        revision.bump(connection, revision.FLOW)


def endpoint_of(row: Row[Any]) -> Endpoint:
    type_, retention_ms = EndpointType(row.endpoint_type), row.result_retention_ms
    return Endpoint(
        type=type_,
        payload_spec=row.payload_spec_ref,
        config=row.config_ref,
        keep_response=KeepResponse(row.keep_response),
        queue_in_effect=row.queue or row.routed_queue or type_.queue,
        result_retention=None if retention_ms is None else show_duration(retention_ms),
        **{column: getattr(row, column) for column in _SAME},
    )


def _tag(row: Any) -> str:
    # Without changes of live settings and without a route, the tag equals the tag that earlier versions computed.
    numbers = (row.version, row.flow_revision) if row.flow_revision else (row.version,)
    if row.routed_queue is not None:
        numbers += (crc32(row.routed_queue.encode()),)  # a change of the routes changes the shown endpoint
    return tag_of(row.created_at, *numbers)


def _content(row: Row[Any]) -> dict[str, Any]:
    kept = {} if row.result_retention_ms is None else {"result_retention_ms": row.result_retention_ms}
    columns = (*_DEFINITION, "queue", "priority", "limits", "breaker")
    return {column: getattr(row, column) for column in columns} | {"is_paused": row.paused_at is not None} | kept
