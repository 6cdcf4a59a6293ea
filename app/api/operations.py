"""/health/operations: what an operator should look at, although the service itself is well."""

from itertools import islice
from typing import Any

from marshmallow import Schema, fields

from app.api.http.fields import Instant, Name
from app.api.openapi.resource import Resource
from app.api.services import services
from app.catalog import queue_pauses
from app.catalog.endpoints import flow
from app.flow import breakers
from app.stats import queues

resource = Resource("operations", "What needs somebody's attention.")


class UnservedQueueSchema(Schema):
    """A queue in which something is due and that no live worker serves."""

    queue = fields.String(required=True, metadata={"example": "bulk"})
    oldest_due_at = Instant(required=True)
    oldest_due_seconds = fields.Float(required=True, metadata={"example": 12.5})
    due = fields.Integer(
        required=True, metadata={"description": f"up to {queues.MOST_UNSERVED:,} are counted", "example": 412}
    )


class PausedEndpointSchema(Schema):
    """An endpoint of which nothing starts."""

    name = Name(required=True)
    paused_at = Instant(required=True)


class PausedQueueSchema(Schema):
    """A queue of which nothing is claimed."""

    queue = fields.String(required=True, metadata={"example": "bulk"})
    paused_at = Instant(required=True)


class OperationsSchema(Schema):
    """What needs somebody's attention; nothing where all is well."""

    unserved_queues = fields.List(fields.Nested(UnservedQueueSchema), required=True)
    open_breakers = fields.Integer(
        required=True, metadata={"description": "open or half open; `GET /breakers` lists them", "example": 1}
    )
    paused_endpoints = fields.List(
        fields.Nested(PausedEndpointSchema),
        required=True,
        metadata={"description": f"the first {flow.MOST_PAUSED} by name"},
    )
    paused_queues = fields.List(
        fields.Nested(PausedQueueSchema),
        required=True,
        metadata={"description": f"the first {flow.MOST_PAUSED} by name"},
    )


@resource.route("GET", "/health/operations", returns=OperationsSchema)
def operations() -> dict[str, Any]:
    """Tell what works as it should, and yet delivers nothing: queues without workers, open breakers, pauses.

    The answer is 200 in any case, and needs a key, unlike those of `/health/live` and `/health/ready`.
    """
    database = services().database
    paused = queue_pauses.paused(database)
    return {
        "unserved_queues": queues.unserved(database),
        "open_breakers": breakers.count_open(database),
        "paused_endpoints": flow.paused(database),
        "paused_queues": [{"queue": queue, "paused_at": at} for queue, at in islice(paused.items(), flow.MOST_PAUSED)],
    }
