"""Schema of a job in answers, and the fields that a job of each trigger has."""

from datetime import datetime
from typing import Any

from marshmallow import Schema, fields

from app.api.http.fields import Instant, Name
from app.api.jobs.request_schemas import REPEATING_FIELDS
from app.formats import rfc3339
from app.jobs.model import Job
from app.schedule.interval import show_every
from app.schedule.timetable import Timetable
from schema.states import CatchUp, EndpointType, ExecutionStatus, JobStatus, Overlap, Trigger


class ExecutionSummarySchema(Schema):
    """The execution of a one-shot job, in short."""

    execution_id = fields.String(required=True)
    status = fields.Enum(ExecutionStatus, required=True)
    created_at = Instant(required=True)


class JobSchema(Schema):
    """A job. Which fields there are depends on the trigger."""

    job_id = fields.String(required=True)
    endpoint = Name(required=True)
    endpoint_type = fields.Enum(EndpointType, required=True)
    endpoint_version = fields.Integer(required=True)
    trigger = fields.Enum(Trigger, required=True)
    status = fields.Enum(JobStatus, required=True)
    version = fields.Integer(required=True)
    previous_version_id = fields.String(allow_none=True, metadata={"description": "CRON and INTERVAL only"})
    replaced_by_id = fields.String(allow_none=True, metadata={"description": "CRON and INTERVAL only"})
    idempotency_key = fields.String(allow_none=True)
    name = fields.String(required=True, allow_none=True, metadata={"example": "Daily report"})
    labels = fields.Dict(values=fields.String(), required=True)
    run_at = Instant(metadata={"description": "DELAYED only"})
    cron = fields.String(metadata={"description": "CRON only"})
    timezone = fields.String(metadata={"description": "CRON only"})
    every = fields.String(metadata={"description": "INTERVAL only", "example": "5m"})
    fixed_delay = fields.Boolean(metadata={"description": "INTERVAL only"})
    starts_at = Instant(metadata={"description": "CRON and INTERVAL only"})
    ends_at = Instant(allow_none=True, metadata={"description": "CRON and INTERVAL only"})
    catch_up = fields.Enum(CatchUp, by_value=True, metadata={"description": "CRON and INTERVAL only"})
    max_catch_up = fields.Integer(allow_none=True, metadata={"description": "CRON and INTERVAL only"})
    overlap = fields.Enum(Overlap, by_value=True, metadata={"description": "CRON and INTERVAL only"})
    next_run_at = fields.String(
        allow_none=True,
        metadata={"description": "CRON and INTERVAL only; in the job's time zone", "format": "date-time"},
    )
    input = fields.Dict(required=True)
    execution = fields.Nested(ExecutionSummarySchema, metadata={"description": "IMMEDIATE and DELAYED only"})
    created_at = Instant(required=True)
    paused_at = Instant(required=True, allow_none=True)
    retired_at = Instant(required=True, allow_none=True)


def shape_job(job: Job) -> dict[str, Any]:
    """Return the fields that a job of its trigger has."""
    shaped: dict[str, Any] = {name: getattr(job, name) for name in _ALWAYS}
    if job.timetable is not None:
        return shaped | _shape_repeating(job, job.timetable)
    shaped["idempotency_key"] = job.idempotency_key
    if job.trigger is Trigger.DELAYED:
        shaped["run_at"] = job.run_at
    if job.execution is not None:
        shaped["execution"] = job.execution
    return shaped


_ALWAYS = (
    *("job_id", "endpoint", "endpoint_type", "endpoint_version", "trigger", "status", "version"),
    *("name", "labels", "input", "created_at", "paused_at", "retired_at"),
)


def _shape_repeating(job: Job, table: Timetable) -> dict[str, Any]:
    shaped: dict[str, Any] = {name: getattr(table, name) for name in sorted(REPEATING_FIELDS)}
    shaped |= {"previous_version_id": job.previous_version_id, "replaced_by_id": job.replaced_by_id}
    shaped["next_run_at"] = show_in_zone(table, job.next_run_at)
    if job.idempotency_key is not None:
        shaped["idempotency_key"] = job.idempotency_key
    if table.every_ms is not None:
        return shaped | {"every": show_every(table.every_ms), "fixed_delay": table.fixed_delay}
    return shaped | {"cron": table.cron, "timezone": table.timezone}


def show_in_zone(table: Timetable, instant: datetime | None) -> str | None:
    """Return an instant in the time zone of a job, as text."""
    return None if instant is None else rfc3339(table.local(instant))
