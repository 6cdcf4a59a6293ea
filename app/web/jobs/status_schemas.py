"""Schemas of the status of a job and of its next runs."""

from typing import Any

from marshmallow import Schema, fields

from app.kernel.described_fields import answered, described
from app.kernel.formats import show_duration
from app.queue.jobs.job_status import LATEST, NEWEST, OPEN, Health, JobStatusReport
from app.web.cron_api import RunSchema
from app.web.http.request_fields import Instant, Name
from app.web.jobs.answer_schemas import show_in_zone
from schema.states import EndpointType, ExecutionStatus, JobStatus, Trigger

_LOCAL = {"format": "date-time", "description": "in the job's time zone", "example": "2026-03-16T09:00:00+05:30"}
_LAST_24H = (
    "executions that succeeded or failed within 24 hours; durations are `null` if there are none. "
    f"For a repeating job, only its newest {NEWEST:,} count, and only if created within 48 hours"
)

_ACTIVE = (
    f"open executions: `pending` wait, `running` run; at most {OPEN:,} are counted, so a job with more may have "
    "further running executions"
)
_LAST_EXECUTION = (
    f"the newest execution that has begun; only the newest {LATEST} of each final status are searched, so an older "
    "execution may be shown if more were cancelled before they began"
)


class LastExecutionSchema(Schema):
    execution_id = fields.String(required=True)
    status = fields.Enum(ExecutionStatus, required=True)
    started_at = Instant(required=True)
    completed_at = Instant(required=True, allow_none=True)
    attempt_number = fields.Integer(required=True)


class ActiveExecutionsSchema(Schema):
    pending = fields.Integer(required=True)
    running = fields.Integer(required=True)
    total = fields.Integer(required=True)


class SkippedTicksSchema(Schema):
    """Number of ticks skipped, by the policy that skipped them."""

    catch_up = fields.Integer(required=True)
    overlap = fields.Integer(required=True)


class TicksSchema(Schema):
    next_run_at = fields.String(required=True, allow_none=True, metadata=_LOCAL)
    last_tick_at = fields.String(required=True, allow_none=True, metadata=_LOCAL)
    skipped_ticks = fields.Nested(SkippedTicksSchema, required=True)


class CronBlockSchema(TicksSchema):
    expression = fields.String(**answered(example="0 9 * * MON"))
    timezone = fields.String(required=True)


class IntervalBlockSchema(TicksSchema):
    every = fields.String(**answered(example="5m"))
    fixed_delay = fields.Boolean(required=True)


class DaySchema(Schema):
    total = fields.Integer(required=True)
    succeeded = fields.Integer(required=True)
    failed = fields.Integer(required=True)
    avg_duration_ms = fields.Integer(required=True, allow_none=True)
    p99_duration_ms = fields.Integer(required=True, allow_none=True)


class StatsSchema(Schema):
    last_24h = fields.Nested(DaySchema, **answered(_LAST_24H))


class StatusSchema(Schema):
    job_id = fields.String(required=True)
    endpoint = Name(required=True)
    endpoint_type = fields.Enum(EndpointType, required=True)
    trigger = fields.Enum(Trigger, required=True)
    status = fields.Enum(JobStatus, required=True)
    health = fields.Enum(Health, required=True)
    version = fields.Integer(required=True)
    last_execution = fields.Nested(LastExecutionSchema, **answered(_LAST_EXECUTION, null=True))
    active_executions = fields.Nested(ActiveExecutionsSchema, **answered(_ACTIVE))
    cron = fields.Nested(CronBlockSchema, **described("CRON only"))
    interval = fields.Nested(IntervalBlockSchema, **described("INTERVAL only"))
    stats = fields.Nested(StatsSchema, required=True)


class NextRunsSchema(Schema):
    timezone = fields.String(**answered("UTC for all but CRON jobs"))
    runs = fields.List(fields.Nested(RunSchema), required=True)


def shape_status(report: JobStatusReport) -> dict[str, Any]:
    job, stats = report.job, report.stats
    shaped = {name: getattr(job, name) for name in ("job_id", "endpoint", "endpoint_type", "trigger", "status")}
    shaped |= {"health": stats.health, "version": job.version, "last_execution": report.last_execution}
    active = {"pending": report.pending, "running": report.running, "total": report.pending + report.running}
    shaped |= {"active_executions": active, "stats": {"last_24h": stats}}
    table = job.timetable
    if table is None:
        return shaped
    block: dict[str, Any] = {
        "next_run_at": show_in_zone(table, job.next_run_at),
        "last_tick_at": show_in_zone(table, job.last_tick_at),
        "skipped_ticks": {"catch_up": job.skipped_catch_up, "overlap": job.skipped_overlap},
    }
    if table.every_ms is not None:
        every = show_duration(table.every_ms)
        return shaped | {"interval": block | {"every": every, "fixed_delay": table.fixed_delay}}
    return shaped | {"cron": block | {"expression": table.cron, "timezone": table.timezone}}
