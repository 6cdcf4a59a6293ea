"""/queues."""

from dataclasses import asdict, replace
from typing import Any

from marshmallow import Schema, fields

from app.features.control import queue_statistics
from app.features.control.queue_statistics import Queue
from app.features.queues import store as queues_store
from app.kernel.audit.change import AuditedChange
from app.kernel.errors import QueueNotFoundError
from app.web.http.conditions import actor
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.http.request_fields import Instant
from app.web.openapi.resource import Resource
from app.web.services import services, wake

resource = Resource("queues", "Where executions wait for workers that serve them.")

_OLDEST = {"description": "since when the oldest of them is due"}


class QueueSchema(Schema):
    """A queue."""

    queue = fields.String(required=True, metadata={"example": "http"})
    workers = fields.Integer(
        required=True, metadata={"description": "live worker processes that serve it", "example": 2}
    )
    due = fields.Integer(
        required=True,
        metadata={"description": f"executions; up to {queue_statistics.MOST_DUE:,} are counted", "example": 412},
    )
    oldest_due_at = Instant(required=True, allow_none=True, metadata=_OLDEST)
    oldest_due_seconds = fields.Float(required=True, allow_none=True, metadata={"example": 12.5})
    paused_at = Instant(
        required=True, allow_none=True, metadata={"description": "since then nothing of it is claimed", "example": None}
    )


@resource.route("GET", "/queues", query=PageQuery, returns=page_schema(QueueSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List the queues that workers serve, that endpoints or routes name, that are paused, or that hold executions."""
    page = queue_statistics.page(services().database, services().shards, page_request(query))
    return page_answer(page, asdict, query)


@resource.route("POST", "/queues/<queue>/pause", returns=QueueSchema, errors=[QueueNotFoundError])
def pause(queue: str) -> Queue:
    """Let nothing of a queue be claimed, from now on until it is resumed; what runs goes on.

    Jobs are accepted meanwhile, and what waits keeps its place. Pausing it again changes nothing.
    """
    database = services().database
    queue_statistics.get(database, queue, services().shards)
    queues_store.pause(database, queue, AuditedChange(actor()))
    return queue_statistics.get(database, queue, services().shards)


@resource.route("POST", "/queues/<queue>/resume", returns=QueueSchema, errors=[QueueNotFoundError])
def resume(queue: str) -> Queue:
    """Let workers claim from a queue again; of one that is not paused nothing changes."""
    database = services().database
    found = queue_statistics.get(database, queue, services().shards)
    queues_store.resume(database, queue, AuditedChange(actor()))
    wake(queue)
    return replace(found, paused_at=None)
