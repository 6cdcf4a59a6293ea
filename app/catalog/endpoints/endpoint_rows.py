"""Rows of endpoints: read, lock and audit them, and convert them to endpoints."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zlib import crc32

from sqlalchemy import Connection, Row, select

from app.catalog import revision
from app.catalog.endpoints.references import EndpointDefinition
from app.catalog.retry_policy import RetryPolicy
from app.kernel import audit
from app.kernel.audit import AuditAction, ResourceType
from app.kernel.audit.change import AuditedChange, tag_of
from app.kernel.errors import EndpointNotFoundError
from app.kernel.formats import show_duration
from schema import tables
from schema.states import EndpointType, KeepResponse

E = tables.endpoints.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A live endpoint."""

    name: str
    version: int
    definition: EndpointDefinition
    retry_policy: RetryPolicy
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

    @property
    def tag(self) -> str:
        """Return the entity tag of this state."""
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
    """Return the row; raises EndpointNotFoundError for None."""
    if row is None:
        raise EndpointNotFoundError(f"There is no endpoint named {name!r}.")
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
    audit.record(
        connection,
        change.audit_id,
        by=change.by,
        action=action,
        resource_type=ResourceType.ENDPOINT,
        resource=row.name,
        before=old,
        after=new,
    )
    if bump_flow:
        revision.bump(connection, revision.FLOW)


def endpoint_of(row: Row[Any]) -> Endpoint:
    """Convert a row to an endpoint."""
    type_ = EndpointType(row.endpoint_type)
    definition = EndpointDefinition(
        type=type_,
        payload_spec=row.payload_spec_ref,
        config=row.config_ref,
        spec=row.spec,
        retry_policy=row.retry_policy,
        keep_response=KeepResponse(row.keep_response),
        callbacks=row.callbacks,
    )
    return Endpoint(
        name=row.name,
        version=row.version,
        definition=definition,
        retry_policy=RetryPolicy.from_json(row.retry_policy),
        queue=row.queue,
        routed_queue=row.routed_queue,
        queue_in_effect=row.queue or row.routed_queue or type_.queue,
        priority=row.priority,
        limits=row.limits,
        breaker=row.breaker,
        result_retention=shown_retention(row),
        paused_at=row.paused_at,
        flow_revision=row.flow_revision,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def shown_retention(row: Row[Any]) -> str | None:
    """Return the retention of an endpoint's results, from its row; None: as long as its executions."""
    return None if row.result_retention_ms is None else show_duration(row.result_retention_ms)


def _tag(row: Any) -> str:
    # Without changes of live settings and without a route, the tag equals the tag that earlier versions computed.
    numbers = (row.version, row.flow_revision) if row.flow_revision else (row.version,)
    if row.routed_queue is not None:
        numbers += (crc32(row.routed_queue.encode()),)  # a change of the routes changes the shown endpoint
    return tag_of(row.created_at, *numbers)


def _content(row: Row[Any]) -> dict[str, Any]:
    columns = ("endpoint_type", "payload_spec_ref", "config_ref", "spec", "retry_policy", "keep_response", "callbacks")
    flow = ("queue", "priority", "limits", "breaker")
    kept = {} if row.result_retention_ms is None else {"result_retention_ms": row.result_retention_ms}
    paused = {"is_paused": row.paused_at is not None}
    return {column: getattr(row, column) for column in columns + flow} | paused | kept
