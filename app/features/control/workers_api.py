"""/workers."""

from dataclasses import asdict
from typing import Any

from marshmallow import Schema, fields

from app.features.control import worker_list
from app.features.control.worker_list import WorkerState
from app.kernel.audit.change import AuditedChange
from app.kernel.errors import WorkerNotAliveError, WorkerNotFoundError
from app.kernel.processes import worker_commands as commands
from app.kernel.processes.worker_commands import EXPIRES_SECONDS, MOST_SHOWN, Command, CommandKind, CommandState
from app.web.http.conditions import actor
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.http.request_fields import Instant
from app.web.openapi.resource import Resource
from app.web.services import services

resource = Resource("workers", "Worker processes, as their heartbeats tell.")

_STATE = {
    "description": "`DRAINING`: asked to drain, it claims nothing more; `DRAINED`: it has ended then; `LOST`: its "
    "lease has run out without a word; `DEAD`: it was shut down",
    "example": "ALIVE",
}
_COMMAND_STATE = {
    "description": "`PENDING`: on its way, for a heartbeat or two; `ACKNOWLEDGED`: the worker carries it out; "
    f"`EXPIRED`: the worker has ended, or has not taken it up within {EXPIRES_SECONDS} s",
    "example": "PENDING",
}


class WorkerQuery(PageQuery):
    """Filters of the list."""

    state = fields.Enum(WorkerState, by_value=True)


class WorkerSchema(Schema):
    """A worker process."""

    worker_id = fields.String(required=True)
    state = fields.Enum(WorkerState, by_value=True, required=True, metadata=_STATE)
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


class CommandSchema(Schema):
    """A command to a worker process."""

    command_id = fields.String(required=True, metadata={"example": "cmd_5e4d3c2b1a09"})
    worker_id = fields.String(required=True)
    command = fields.String(required=True, metadata={"example": CommandKind.DRAIN.value})
    state = fields.Enum(CommandState, by_value=True, required=True, metadata=_COMMAND_STATE)
    asked_by = fields.String(
        required=True, metadata={"description": "name of the API key, or cli:USER", "example": "deploy-bot"}
    )
    asked_at = Instant(required=True)
    expires_at = Instant(required=True)
    acknowledged_at = Instant(required=True, allow_none=True)


class WorkerDetailSchema(WorkerSchema):
    """A worker process, and what was asked of it."""

    commands = fields.List(
        fields.Nested(CommandSchema),
        required=True,
        metadata={"description": f"the last {MOST_SHOWN}, newest first"},
    )


@resource.route("GET", "/workers", query=WorkerQuery, returns=page_schema(WorkerSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List worker processes, those that started last first; one that has ended is shown for a day at least."""
    wanted = page_request(query)
    return page_answer(worker_list.page(services().database, query.get("state"), wanted), asdict, query)


@resource.route("GET", "/workers/<worker_id>", returns=WorkerDetailSchema, errors=[WorkerNotFoundError])
def get(worker_id: str) -> dict[str, Any]:
    """Get a worker process, and what became of the commands to it."""
    database = services().database
    found = worker_list.get(database, worker_id)
    return asdict(found) | {"commands": commands.latest(database, worker_id)}


@resource.route(
    "POST",
    "/workers/<worker_id>/drain",
    status=202,
    returns=CommandSchema,
    errors=[WorkerNotFoundError, WorkerNotAliveError],
)
def drain(worker_id: str) -> Command:
    """Ask a worker process to claim nothing more, finish what it has begun, and end.

    It learns of it with its next heartbeat, within five seconds. Asking again changes nothing while it drains.
    """
    return commands.ask(services().database, worker_id, CommandKind.DRAIN, AuditedChange(actor()))
