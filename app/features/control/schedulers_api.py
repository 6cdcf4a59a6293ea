"""/schedulers."""

from dataclasses import asdict
from typing import Any

from marshmallow import Schema, fields

from app.features.control import process_list
from app.features.control.process_list import LOST_SECONDS, Process, ProcessState
from app.features.control.process_query import ProcessQuery
from app.kernel.processes.process_heartbeat import ProcessKind
from app.web.http.pagination import page_answer, page_request, page_schema
from app.web.http.request_fields import Instant
from app.web.openapi.resource import Resource
from app.web.services import services

resource = Resource("schedulers", "Scheduler processes, by their heartbeats.")

_STATE = {
    "description": f"`LOST`: silent for {LOST_SECONDS:g} s; `DEAD`: it was shut down",
    "example": "ALIVE",
}


class SchedulerSchema(Schema):
    """A scheduler process."""

    scheduler_id = fields.String(required=True, metadata={"example": "prc_3c2b1a0f9e8d"})
    state = fields.Enum(ProcessState, by_value=True, required=True, metadata=_STATE)
    region = fields.String(required=True, metadata={"example": "default"})
    host = fields.String(required=True, metadata={"example": "scheduler-1"})
    pid = fields.Integer(required=True, metadata={"example": 4711})
    version = fields.String(required=True, metadata={"description": "of the program", "example": "0.1.0"})
    started_at = Instant(required=True)
    last_beat_at = Instant(required=True)


@resource.route("GET", "/schedulers", query=ProcessQuery, returns=page_schema(SchedulerSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List scheduler processes, newest first; an ended process is shown for ten minutes."""
    wanted = page_request(query)
    page = process_list.page(services().database, ProcessKind.SCHEDULER, query.get("state"), wanted)
    return page_answer(page, shape, query)


def shape(process: Process) -> dict[str, Any]:
    """Return a process with the field `scheduler_id`."""
    return asdict(process) | {"scheduler_id": process.process_id}
