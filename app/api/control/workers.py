"""/workers."""

from dataclasses import asdict
from typing import Any

from marshmallow import Schema, fields

from app.api.control.process_query import ProcessQuery
from app.api.http.fields import Instant
from app.api.http.pagination import page_answer, page_request, page_schema
from app.api.openapi.resource import Resource
from app.api.services import services
from app.stats import workers
from app.stats.workers import ProcessState

resource = Resource("workers", "Worker processes, as their heartbeats tell.")

_STATE = {"description": "`LOST`: its lease has run out without a word; `DEAD`: it was shut down", "example": "ALIVE"}


class WorkerSchema(Schema):
    """A worker process."""

    worker_id = fields.String(required=True)
    state = fields.Enum(ProcessState, by_value=True, required=True, metadata=_STATE)
    host = fields.String(required=True, metadata={"example": "worker-1"})
    pid = fields.Integer(required=True, metadata={"example": 4711})
    queues = fields.List(fields.String(), required=True, metadata={"example": ["http", "kafka", "redis_stream"]})
    capacity = fields.Integer(required=True, metadata={"description": "its slots, without the reserve", "example": 200})
    in_flight = fields.Integer(
        required=True, metadata={"description": "executions that it held at its last heartbeat", "example": 17}
    )
    started_at = Instant(required=True)
    last_beat_at = Instant(required=True)
    lease_expires_at = Instant(required=True)


@resource.route("GET", "/workers", query=ProcessQuery, returns=page_schema(WorkerSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List worker processes, those that started last first; one that has ended is shown for a day at least."""
    wanted = page_request(query)
    return page_answer(workers.page(services().database, query.get("state"), wanted), asdict, query)
