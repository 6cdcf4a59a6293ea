"""Schema of a job in answers, with the fields of each trigger."""

from datetime import datetime
from typing import Any

from marshmallow import Schema, fields

from app.kernel.described_fields import answered, described
from app.kernel.errors import TaskExecutorError
from app.kernel.formats import rfc3339, show_duration
from app.queue.jobs.job_model import Job
from app.schedule.timetable import Timetable
from app.web.executions.result_schemas import ResultSchema
from app.web.http.request_fields import OF_UNREADABLE, CallbacksSchema, Instant, LimitKey, Name
from schema.states import CatchUp, EndpointType, ExecutionStatus, JobStatus, Overlap, Trigger


class ExecutionSummarySchema(Schema):
    execution_id = fields.String(required=True)
    status = fields.Enum(ExecutionStatus, required=True)
    created_at = Instant(required=True)


class JobSchema(Schema):
    """A job; its fields depend on the trigger."""

    job_id = fields.String(required=True)
    endpoint = Name(required=True)
    endpoint_type = fields.Enum(EndpointType, required=True)
    endpoint_version = fields.Integer(required=True)
    trigger = fields.Enum(Trigger, required=True)
    status = fields.Enum(JobStatus, required=True)
    version = fields.Integer(required=True)
    previous_version_id = fields.String(allow_none=True, **described("CRON and INTERVAL only"))
    replaced_by_id = fields.String(allow_none=True, **described("CRON and INTERVAL only"))
    idempotency_key = fields.String(allow_none=True)
    name = fields.String(**answered(null=True, example="Daily report"))
    labels = fields.Dict(values=fields.String(), required=True)
    queue = fields.String(**answered("`null`: the endpoint's queue", null=True))
    priority = fields.Integer(**answered("`null`: the endpoint's priority", null=True))
    limit_key = LimitKey(
        **answered("key by which it shares `limits.per_key`; `null` if its endpoint had no key", null=True)
    )
    callbacks = fields.Nested(
        CallbacksSchema,
        **answered("override the callbacks of its endpoint; `null`: the endpoint's callbacks", null=True),
    )
    callback_of = fields.String(
        **answered("for a callback: the execution whose completion it reports", null=True, example=None)
    )
    run_at = Instant(**described("DELAYED only; updated by a rescheduling and by `POST /jobs/{job_id}/run`"))
    cron = fields.String(**described("CRON only"))
    timezone = fields.String(**described("CRON only"))
    every = fields.String(**described("INTERVAL only", example="5m"))
    fixed_delay = fields.Boolean(**described("INTERVAL only"))
    starts_at = Instant(**described("CRON and INTERVAL only"))
    ends_at = Instant(allow_none=True, **described("CRON and INTERVAL only"))
    catch_up = fields.Enum(CatchUp, by_value=True, **described("CRON and INTERVAL only"))
    max_catch_up = fields.Integer(allow_none=True, **described("CRON and INTERVAL only"))
    overlap = fields.Enum(Overlap, by_value=True, **described("CRON and INTERVAL only"))
    next_run_at = fields.String(
        allow_none=True, **described("CRON and INTERVAL only; in the job's time zone", format="date-time")
    )
    input = fields.Dict(**answered(OF_UNREADABLE))
    execution = fields.Nested(ExecutionSummarySchema, **described("IMMEDIATE and DELAYED only"))
    created_at = Instant(required=True)
    paused_at = Instant(required=True, allow_none=True)
    retired_at = Instant(required=True, allow_none=True)

    def dump(self, obj: Any, *, many: bool | None = None) -> Any:  # noqa: ARG002 - marshmallow's interface
        """Return the fields of a job of its trigger, in the order of the schema; dumping each field would be slow."""
        job: Job = obj
        table, execution = job.timetable, job.execution
        shaped: dict[str, Any] = {
            "job_id": job.job_id,
            "endpoint": job.endpoint,
            "endpoint_type": job.endpoint_type,
            "endpoint_version": job.endpoint_version,
            "trigger": job.trigger,
            "status": job.status,
            "version": job.version,
        }
        if table is not None:
            shaped |= {"previous_version_id": job.previous_version_id, "replaced_by_id": job.replaced_by_id}
        if table is None or job.idempotency_key is not None:
            shaped["idempotency_key"] = job.idempotency_key
        shaped |= {"name": job.name, "labels": job.labels, "queue": job.queue, "priority": job.priority}
        shaped["limit_key"] = job.limit_key[1:] if job.limit_key else None
        shaped["callbacks"], shaped["callback_of"] = job.callbacks, job.callback_of
        if table is not None:
            shaped |= _shape_timetable(table) | {"next_run_at": show_in_zone(table, job.next_run_at)}
        elif job.trigger is Trigger.DELAYED:
            shaped["run_at"] = job.planned_at and rfc3339(job.planned_at)
        shaped["input"] = job.input
        if execution is not None:
            created_at = rfc3339(execution.created_at)
            summary = {"execution_id": execution.execution_id, "status": execution.status, "created_at": created_at}
            shaped["execution"] = summary
        shaped["created_at"] = rfc3339(job.created_at)
        for name, instant in (("paused_at", job.paused_at), ("retired_at", job.retired_at)):
            shaped[name] = None if instant is None else rfc3339(instant)
        return shaped


class CreatedJobSchema(JobSchema):
    """A job created by this request, or earlier with the same key; with its result if the request waited for it."""

    result = fields.Nested(
        ResultSchema, **described("with `Prefer: wait` only, if the execution has ended and its result is kept")
    )


def _shape_timetable(table: Timetable) -> dict[str, Any]:
    if table.every_ms is not None:
        shaped: dict[str, Any] = {"every": show_duration(table.every_ms), "fixed_delay": table.fixed_delay}
    else:
        shaped = {"cron": table.cron, "timezone": table.timezone}
    return shaped | {
        "starts_at": rfc3339(table.starts_at),
        "ends_at": table.ends_at and rfc3339(table.ends_at),
        "catch_up": table.catch_up,
        "max_catch_up": table.max_catch_up,
        "overlap": table.overlap,
    }


def show_in_zone(table: Timetable, instant: datetime | None) -> str | None:
    """Format an instant in the time zone of a job, or in UTC if its timetable cannot be read."""
    if instant is None:
        return None
    try:
        return rfc3339(table.local(instant))
    except TaskExecutorError:
        return rfc3339(instant)
