"""/queues."""

from dataclasses import asdict
from typing import Any

from marshmallow import Schema, fields

from app.api.http.fields import Instant
from app.api.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.api.openapi.resource import Resource
from app.api.services import services
from app.stats import queues

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


@resource.route("GET", "/queues", query=PageQuery, returns=page_schema(QueueSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List the queues that workers serve, that endpoints or routes name, or in which executions wait, by name."""
    page = queues.page(services().database, services().shards, page_request(query))
    return page_answer(page, asdict, query)
