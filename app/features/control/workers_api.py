"""/workers."""

from dataclasses import asdict
from typing import Any

from marshmallow import Schema, fields

from app.features.control import store
from app.features.control.reclaimed import MAX_READ, reclaimed_from
from app.features.control.store import WorkerState
from app.kernel.audit.change import AuditedChange
from app.kernel.described_fields import answered
from app.kernel.errors import WorkerNotAliveError, WorkerNotFoundError
from app.kernel.processes import worker_commands as commands
from app.kernel.processes.worker_commands import EXPIRES_SECONDS, MAX_SHOWN, Command, CommandKind, CommandState
from app.web.http.conditions import actor
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.http.request_fields import Instant
from app.web.openapi.resource import Resource
from app.web.services import services

resource = Resource("workers", "Worker processes, by their heartbeats.")

_STATE = {
    "description": "`DRAINING`: asked to drain, claims nothing; `DRAINED`: ended after a drain; `LOST`: its "
    "lease has expired without a regular end; `DEAD`: it was shut down",
    "example": "ALIVE",
}
_COMMAND_STATE = {
    "description": "`PENDING`: not yet read by the worker; `ACKNOWLEDGED`: the worker executes it; "
    f"`EXPIRED`: the worker has ended, or did not read it within {EXPIRES_SECONDS} s",
    "example": "PENDING",
}


_RECLAIMED = (
    "`null` unless the worker is `LOST`; without losses that a retry policy ignores, and among the first "
    f"{MAX_READ:,} uncertain attempts after its lease; "
    "`GET /attempts?uncertain=true&error_type=WORKER_LOST&worker_id=…` lists them"
)
_ERRORS = [WorkerNotFoundError, WorkerNotAliveError]


class WorkerQuery(PageQuery):
    """Filters of the list."""

    state = fields.Enum(WorkerState, by_value=True)


class WorkerSchema(Schema):
    """A worker process."""

    worker_id = fields.String(required=True)
    state = fields.Enum(WorkerState, by_value=True, required=True, metadata=_STATE)
    host = fields.String(**answered(example="worker-1"))
    pid = fields.Integer(**answered(example=4711))
    queues = fields.List(fields.String(), **answered(example=["http", "kafka", "redis_stream"]))
    capacity = fields.Integer(**answered("its slots, without the reserve", example=200))
    in_flight = fields.Integer(**answered("executions held at its last heartbeat", example=17))
    started_at = Instant(required=True)
    last_beat_at = Instant(required=True)
    lease_expires_at = Instant(required=True)


class CommandSchema(Schema):
    """A command to a worker process."""

    command_id = fields.String(**answered(example="cmd_5e4d3c2b1a09"))
    worker_id = fields.String(required=True)
    command = fields.String(**answered(example=CommandKind.DRAIN.value))
    state = fields.Enum(CommandState, by_value=True, required=True, metadata=_COMMAND_STATE)
    asked_by = fields.String(**answered("name of the API key, or cli:USER", example="deploy-bot"))
    asked_at = Instant(required=True)
    expires_at = Instant(required=True)
    acknowledged_at = Instant(required=True, allow_none=True)


class ReclaimedSchema(Schema):
    """Executions that schedulers took back from a lost worker."""

    executions = fields.Integer(**answered(example=41))
    last_at = Instant(required=True, allow_none=True)


class WorkerDetailSchema(WorkerSchema):
    """A worker process, its latest commands, and what was taken back from it."""

    commands = fields.List(fields.Nested(CommandSchema), **answered(f"the last {MAX_SHOWN}, newest first"))
    reclaimed = fields.Nested(ReclaimedSchema, **answered(_RECLAIMED, null=True))


@resource.route("GET", "/workers", query=WorkerQuery, returns=page_schema(WorkerSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List worker processes, newest first; an ended worker is shown for at least a day."""
    wanted = page_request(query)
    return page_answer(store.page_of_workers(services().database, query.get("state"), wanted), query)


@resource.route("GET", "/workers/<worker_id>", returns=WorkerDetailSchema, errors=[WorkerNotFoundError])
def get(worker_id: str) -> dict[str, Any]:
    """Get a worker process, its latest commands, and the executions that were taken back from it."""
    database = services().database
    worker = store.get_worker(database, worker_id)
    reclaimed = reclaimed_from(database, [worker]).get(worker_id)
    return asdict(worker) | {"commands": commands.latest(database, worker_id), "reclaimed": reclaimed}


@resource.route("POST", "/workers/<worker_id>/drain", status=202, returns=CommandSchema, errors=_ERRORS)
def drain(worker_id: str) -> Command:
    """Drain a worker process: it stops claiming, finishes its running deliveries, and ends.

    It reads the command with its next heartbeat, within five seconds. A second request while it drains changes nothing.
    """
    return commands.ask(services().database, worker_id, CommandKind.DRAIN, AuditedChange(actor()))
