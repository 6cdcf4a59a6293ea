"""/health/operations: conditions that need an operator although the service itself is healthy."""

from itertools import islice
from typing import Any

from marshmallow import Schema, fields

from app.catalog.endpoints import live_settings
from app.features.breakers import store as breakers_store
from app.features.queues import queue_statistics
from app.features.queues import store as queues_store
from app.web.http.request_fields import Instant, Name
from app.web.openapi.resource import Resource
from app.web.services import services

resource = Resource("operations", "Conditions that need an operator.")


class UnservedQueueSchema(Schema):
    """A queue with due executions and without a live worker."""

    queue = fields.String(required=True, metadata={"example": "bulk"})
    oldest_due_at = Instant(required=True)
    oldest_due_seconds = fields.Float(required=True, metadata={"example": 12.5})
    due = fields.Integer(
        required=True, metadata={"description": f"up to {queue_statistics.MOST_UNSERVED:,} are counted", "example": 412}
    )


class PausedEndpointSchema(Schema):
    """A paused endpoint."""

    name = Name(required=True)
    paused_at = Instant(required=True)


class PausedQueueSchema(Schema):
    """A paused queue."""

    queue = fields.String(required=True, metadata={"example": "bulk"})
    paused_at = Instant(required=True)


class OperationsSchema(Schema):
    """Conditions that need an operator; empty lists and 0 if there are none."""

    unserved_queues = fields.List(fields.Nested(UnservedQueueSchema), required=True)
    open_breakers = fields.Integer(
        required=True, metadata={"description": "open or half open; `GET /breakers` lists them", "example": 1}
    )
    paused_endpoints = fields.List(
        fields.Nested(PausedEndpointSchema),
        required=True,
        metadata={"description": f"the first {live_settings.MAX_PAUSED} by name"},
    )
    paused_queues = fields.List(
        fields.Nested(PausedQueueSchema),
        required=True,
        metadata={"description": f"the first {live_settings.MAX_PAUSED} by name"},
    )


@resource.route("GET", "/health/operations", returns=OperationsSchema)
def operations() -> dict[str, Any]:
    """List conditions that stop deliveries: queues without workers, open breakers, pauses.

    The status is always 200. A key is needed, unlike for `/health/live` and `/health/ready`.
    """
    database = services().database
    paused = queues_store.paused(database)
    return {
        "unserved_queues": queue_statistics.unserved(database),
        "open_breakers": sum(breakers_store.count_by_state(database).values()),
        "paused_endpoints": live_settings.paused(database),
        "paused_queues": [
            {"queue": queue, "paused_at": at} for queue, at in islice(paused.items(), live_settings.MAX_PAUSED)
        ],
    }
