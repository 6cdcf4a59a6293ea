"""/processes."""

from dataclasses import asdict
from typing import Any

from marshmallow import Schema, fields

from app.features.control import store
from app.features.control.store import LOST_SECONDS, Process, ProcessState
from app.kernel.described_fields import answered
from app.kernel.processes.process_heartbeat import ProcessKind
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.http.request_fields import Instant
from app.web.openapi.resource import Resource
from app.web.services import services

resource = Resource("processes", "Web processes, schedulers and workers, by their heartbeats.")

_STATE = {"description": f"`LOST`: silent for {LOST_SECONDS:g} s; `DEAD`: it was shut down", "example": "ALIVE"}
_AHEAD = {
    "description": "of the database's clock; negative if it is behind, `null` for a release without this field",
    "example": 0.0012,
}
_TZDATA = {
    "description": "version of the time zone rules (distribution `tzdata`); `null` for a release without this field",
    "example": "2026.6",
}
_BOUND = {"description": "`clock_ahead_seconds` is true to within this, either way", "example": 0.0004}


class HeartbeatSchema(Schema):
    """Fields of all processes."""

    state = fields.Enum(ProcessState, by_value=True, required=True, metadata=_STATE)
    region = fields.String(**answered(example="default"))
    host = fields.String(**answered(example="host-1"))
    pid = fields.Integer(**answered(example=4711))
    version = fields.String(**answered("of the program", example="1.0.0"))
    started_at = Instant(required=True)
    last_beat_at = Instant(required=True)


class ProcessSchema(HeartbeatSchema):
    """A process of the service."""

    process_id = fields.String(**answered("of a worker its id", example="prc_3c2b1a0f"))
    kind = fields.Enum(ProcessKind, by_value=True, **answered(example=ProcessKind.WEB.value))
    tzdata_version = fields.String(required=True, allow_none=True, metadata=_TZDATA)
    clock_ahead_seconds = fields.Float(required=True, allow_none=True, metadata=_AHEAD)
    clock_bound_seconds = fields.Float(required=True, allow_none=True, metadata=_BOUND)


class ProcessQuery(PageQuery):
    """Filters of a list of processes."""

    state = fields.Enum(ProcessState, by_value=True)


class AnyProcessQuery(ProcessQuery):
    """Filters of the list of all processes."""

    kind = fields.Enum(ProcessKind, by_value=True)


@resource.route("GET", "/processes", query=AnyProcessQuery, returns=page_schema(ProcessSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List processes, newest first; an ended process is shown for ten minutes."""
    return listed(query, query.get("kind"))


def listed(query: dict[str, Any], kind: ProcessKind | None) -> dict[str, Any]:
    """Return the page of processes of a kind that a query asks for; schedulers have their id by two names."""
    wanted = page_request(query)
    page = store.page_of_processes(services().database, kind, query.get("state"), wanted)
    return page_answer(page, query, _shape)


def _shape(process: Process) -> dict[str, Any]:
    return asdict(process) | {"scheduler_id": process.process_id}
