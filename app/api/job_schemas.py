"""What jobs look like in requests and answers."""

from typing import Any

from marshmallow import Schema, ValidationError, fields, validate, validates_schema

from app.api.fields import Body, Instant, Name, QueryInstant, show
from app.api.pagination import PageQuery
from app.jobs.cron import Schedule
from app.jobs.model import Job
from schema.states import EndpointType, ExecutionStatus, JobStatus, Trigger

MAX_KEY = 255

_ONLY = {
    Trigger.IMMEDIATE: set[str](),
    Trigger.DELAYED: {"run_at"},
    Trigger.CRON: {"cron", "timezone", "starts_at", "ends_at"},
}
_NEEDED = {Trigger.IMMEDIATE: set[str](), Trigger.DELAYED: {"run_at"}, Trigger.CRON: {"cron", "timezone"}}


class NewJobSchema(Body):
    """A job to create. A field that belongs to another trigger is refused unless it is null."""

    endpoint = fields.String(required=True, validate=validate.Length(1, 128))
    trigger = fields.Enum(Trigger, required=True)
    idempotency_key = fields.String(
        allow_none=True,
        validate=validate.Length(1, MAX_KEY),
        metadata={"description": "needed for IMMEDIATE and DELAYED, here or in the Idempotency-Key header"},
    )
    input = fields.Dict(allow_none=True)
    run_at = Instant(allow_none=True, metadata={"description": "for DELAYED; a time in the past means now"})
    cron = fields.String(
        allow_none=True, validate=validate.Length(1, 256), metadata={"description": "for CRON; five fields"}
    )
    timezone = fields.String(
        allow_none=True, validate=validate.Length(1, 64), metadata={"description": "for CRON; an IANA time zone"}
    )
    starts_at = Instant(allow_none=True, metadata={"description": "for CRON; now when absent"})
    ends_at = Instant(allow_none=True, metadata={"description": "for CRON; no tick at or after it"})

    @validates_schema
    def check_trigger(self, data: dict[str, Any], **_: Any) -> None:
        """Check that the fields are those of the trigger."""
        trigger = data["trigger"]
        given = {name for name in set[str]().union(*_ONLY.values()) if data.get(name) is not None}
        faults = {name: [f"Not a field of {trigger} jobs."] for name in sorted(given - _ONLY[trigger])}
        faults |= {name: [f"Needed for {trigger} jobs."] for name in sorted(_NEEDED[trigger] - given)}
        if data.get("starts_at") and data.get("ends_at") and data["ends_at"] <= data["starts_at"]:
            faults["ends_at"] = ["Must be after starts_at."]
        if faults:
            raise ValidationError(faults)


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
    idempotency_key = fields.String(allow_none=True)
    run_at = Instant(metadata={"description": "DELAYED only"})
    cron = fields.String(metadata={"description": "CRON only"})
    timezone = fields.String(metadata={"description": "CRON only"})
    starts_at = Instant(metadata={"description": "CRON only"})
    ends_at = Instant(allow_none=True, metadata={"description": "CRON only"})
    next_run_at = fields.String(
        allow_none=True, metadata={"description": "CRON only; in the job's time zone", "format": "date-time"}
    )
    input = fields.Dict(required=True)
    execution = fields.Nested(ExecutionSummarySchema, metadata={"description": "IMMEDIATE and DELAYED only"})
    created_at = Instant(required=True)
    retired_at = Instant(required=True, allow_none=True)


class JobQuery(PageQuery):
    """Filters of the list of jobs."""

    status = fields.Enum(JobStatus)
    trigger = fields.Enum(Trigger)
    endpoint = fields.String(validate=validate.Length(1, 128))
    created_after = QueryInstant()
    created_before = QueryInstant()


def shape(job: Job) -> dict[str, Any]:
    """Choose the fields that a job of its trigger has."""
    shaped: dict[str, Any] = {name: getattr(job, name) for name in _ALWAYS}
    if job.trigger is Trigger.CRON:
        shaped |= {name: getattr(job, name) for name in _ONLY[Trigger.CRON]}
        shaped["next_run_at"] = _in_zone(job)
        if job.idempotency_key is None:
            del shaped["idempotency_key"]
        return shaped
    if job.trigger is Trigger.DELAYED:
        shaped["run_at"] = job.run_at
    if job.execution is not None:
        shaped["execution"] = job.execution
    return shaped


_ALWAYS = (
    *("job_id", "endpoint", "endpoint_type", "endpoint_version", "trigger", "status", "version", "idempotency_key"),
    *("input", "created_at", "retired_at"),
)


def _in_zone(job: Job) -> str | None:
    if job.next_run_at is None:
        return None
    return show(Schedule.parse(job.cron or "", job.timezone or "").local(job.next_run_at))
