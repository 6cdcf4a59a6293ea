"""/queues."""

from dataclasses import asdict, replace
from typing import Any

from marshmallow import Schema, fields

from app.api.http.conditions import actor
from app.api.http.fields import Instant
from app.api.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.api.openapi.resource import Resource
from app.api.services import services, wake
from app.audit.change import AuditedChange
from app.catalog import queue_pauses
from app.errors import QueueNotFoundError
from app.stats import queues
from app.stats.queues import Queue

resource = Resource("queues", "Where executions wait for workers that serve them.")

_OLDEST = {"description": "since when the oldest of them is due"}


class QueueSchema(Schema):
    """A queue."""

    queue = fields.String(required=True, metadata={"example": "http"})
    workers = fields.Integer(
        required=True, metadata={"description": "live worker processes that serve it", "example": 2}
    )
    due = fields.Integer(
        required=True, metadata={"description": f"executions; up to {queues.MOST_DUE:,} are counted", "example": 412}
    )
    oldest_due_at = Instant(required=True, allow_none=True, metadata=_OLDEST)
    oldest_due_seconds = fields.Float(required=True, allow_none=True, metadata={"example": 12.5})
    paused_at = Instant(
        required=True, allow_none=True, metadata={"description": "since then nothing of it is claimed", "example": None}
    )


@resource.route("GET", "/queues", query=PageQuery, returns=page_schema(QueueSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List the queues that workers serve, that endpoints or routes name, that are paused, or that hold executions."""
    page = queues.page(services().database, services().shards, page_request(query))
    return page_answer(page, asdict, query)


@resource.route("POST", "/queues/<queue>/pause", returns=QueueSchema, errors=[QueueNotFoundError])
def pause(queue: str) -> Queue:
    """Let nothing of a queue be claimed, from now on until it is resumed; what runs goes on.

    Jobs are accepted meanwhile, and what waits keeps its place. Pausing it again changes nothing.
    """
    database = services().database
    queues.get(database, queue, services().shards)
    queue_pauses.pause(database, queue, AuditedChange(actor()))
    return queues.get(database, queue, services().shards)


@resource.route("POST", "/queues/<queue>/resume", returns=QueueSchema, errors=[QueueNotFoundError])
def resume(queue: str) -> Queue:
    """Let workers claim from a queue again; of one that is not paused nothing changes."""
    database = services().database
    found = queues.get(database, queue, services().shards)
    queue_pauses.resume(database, queue, AuditedChange(actor()))
    wake(queue)
    return replace(found, paused_at=None)
