"""/schedulers."""

from typing import Any

from marshmallow import fields

from app.features.control.processes_api import HeartbeatSchema, ProcessQuery, listed
from app.kernel.described_fields import answered
from app.kernel.processes.process_heartbeat import ProcessKind
from app.web.http.pagination import page_schema
from app.web.openapi.resource import Resource

resource = Resource("schedulers", "Scheduler processes, by their heartbeats.")


class SchedulerSchema(HeartbeatSchema):
    """A scheduler process."""

    scheduler_id = fields.String(**answered(example="prc_3c2b1a0f9e8d"))


@resource.route("GET", "/schedulers", query=ProcessQuery, returns=page_schema(SchedulerSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List scheduler processes, newest first; an ended process is shown for ten minutes."""
    return listed(query, ProcessKind.SCHEDULER)
