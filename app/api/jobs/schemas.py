"""Schemas of jobs in requests and answers."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from marshmallow import Schema, ValidationError, fields, validate, validates_schema

from app.api.http.fields import Body, Every, Instant, Name, QueryInstant
from app.api.http.idempotency_keys import MAX_KEY
from app.api.http.pagination import PageQuery
from app.api.jobs.labels import LabelSelector, labels_field
from app.catalog.specs.fields import Flag
from app.formats import EPOCH, rfc3339
from app.jobs.model import Job, NewJob
from app.schedule.interval import SHORTEST_MS, show_every
from app.schedule.timetable import DEFAULT_MAX_CATCH_UP, Timetable
from schema.states import CatchUp, EndpointType, ExecutionStatus, JobStatus, Overlap, Trigger

MAX_NAME = 200
MOST_CATCH_UP = 1000

_REPEATING = {"starts_at", "ends_at", "catch_up", "max_catch_up", "overlap"}
_ONLY = {
    Trigger.IMMEDIATE: set[str](),
    Trigger.DELAYED: {"run_at"},
    Trigger.CRON: {"cron", "timezone", *_REPEATING},
    Trigger.INTERVAL: {"every", "fixed_delay", *_REPEATING},
}
_NEEDED = {
    Trigger.IMMEDIATE: set[str](),
    Trigger.DELAYED: {"run_at"},
    Trigger.CRON: {"cron", "timezone"},
    Trigger.INTERVAL: {"every"},
}


_EVERY = f"for INTERVAL; `500ms`, `10s`, `5m`, `2h`, `1d`, or milliseconds; at least {SHORTEST_MS} ms"


class ChangeableFields(Body):
    """The fields of a request that an update of a repeating job can change."""

    name = fields.String(
        allow_none=True,
        validate=validate.Length(1, MAX_NAME),
        metadata={"description": "for people and filters; need not be unique", "example": "Daily report"},
    )
    labels = labels_field()
    cron = fields.String(
        allow_none=True, validate=validate.Length(1, 256), metadata={"description": "for CRON; five fields"}
    )
    timezone = fields.String(
        allow_none=True, validate=validate.Length(1, 64), metadata={"description": "for CRON; an IANA time zone"}
    )
    every = Every(allow_none=True, metadata={"description": _EVERY})
    fixed_delay = Flag(
        allow_none=True,
        metadata={"description": "for INTERVAL; count from the end of the execution before, not from tick to tick"},
    )
    starts_at = Instant(allow_none=True, metadata={"description": "for CRON and INTERVAL; now when absent"})
    ends_at = Instant(allow_none=True, metadata={"description": "for CRON and INTERVAL; no tick at or after it"})
    catch_up = fields.Enum(
        CatchUp,
        by_value=True,
        allow_none=True,
        metadata={"description": "which ticks run late when nobody could start them in time; `all` when absent"},
    )
    max_catch_up = fields.Integer(
        strict=True,
        allow_none=True,
        validate=validate.Range(1, MOST_CATCH_UP),
        metadata={
            "description": f"with `catch_up: all`: at most so many late ticks run, the latest ones; "
            f"{DEFAULT_MAX_CATCH_UP} when absent, no limit when `null`"
        },
    )
    overlap = fields.Enum(
        Overlap,
        by_value=True,
        allow_none=True,
        metadata={
            "description": "`skip` drops a tick while an execution of the job is unfinished; `allow` when absent"
        },
    )
    input = fields.Dict(allow_none=True)

    @validates_schema
    def check_catch_up(self, data: dict[str, Any], **_: Any) -> None:
        """Check that the fields fit each other."""
        if data.get("starts_at") and data.get("ends_at") and data["ends_at"] <= data["starts_at"]:
            raise ValidationError("Must be after starts_at.", "ends_at")
        if data.get("max_catch_up") is not None and data.get("catch_up") not in {None, CatchUp.ALL}:
            raise ValidationError("Only with catch_up: all.", "max_catch_up")


class NewJobSchema(ChangeableFields):
    """A job to create. A field that belongs to another trigger is refused unless it is null."""

    endpoint = fields.String(required=True, validate=validate.Length(1, 128))
    trigger = fields.Enum(Trigger, required=True)
    idempotency_key = fields.String(
        allow_none=True,
        validate=validate.Length(1, MAX_KEY),
        metadata={"description": "needed for IMMEDIATE and DELAYED, here or in the Idempotency-Key header"},
    )
    run_at = Instant(allow_none=True, metadata={"description": "for DELAYED; a time in the past means now"})

    @validates_schema
    def check_trigger(self, data: dict[str, Any], **_: Any) -> None:
        """Check that the fields are those of the trigger."""
        trigger = data["trigger"]
        given = {name for name in set[str]().union(*_ONLY.values()) if data.get(name) is not None}
        faults = {name: [f"Not a field of {trigger} jobs."] for name in sorted(given - _ONLY[trigger])}
        faults |= {name: [f"Needed for {trigger} jobs."] for name in sorted(_NEEDED[trigger] - given)}
        if faults:
            raise ValidationError(faults)


class ChangedJobSchema(ChangeableFields):
    """What is to change in a repeating job; what is left out stays.

    `null` takes `name`, `labels`, `ends_at` or `max_catch_up` away; `labels` replace all that there were.
    """


class PatchedJobSchema(ChangeableFields):
    """Either `status` alone, which pauses or resumes, or what is to change in a repeating job."""

    status = fields.Enum(JobStatus, validate=validate.OneOf([JobStatus.ACTIVE, JobStatus.PAUSED]))

    @validates_schema
    def check_alone(self, data: dict[str, Any], **_: Any) -> None:
        """Check that only one kind of change is requested."""
        if "status" in data and len(data) > 1:
            raise ValidationError("Must be alone: it changes this version, all other fields make a new one.", "status")


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


class JobQuery(PageQuery):
    """Filters of the list of jobs."""

    status = fields.Enum(JobStatus)
    trigger = fields.Enum(Trigger)
    endpoint = fields.String(validate=validate.Length(1, 128))
    name = fields.String(validate=validate.Length(1, MAX_NAME), metadata={"example": "Daily report"})
    labels = LabelSelector()
    created_after = QueryInstant()
    created_before = QueryInstant()


def new_job(body: Mapping[str, Any]) -> NewJob:
    """Return the job that a parsed body requests."""
    trigger, starts_at = body["trigger"], body.get("starts_at")
    timetable = None
    if trigger.repeats:
        given = {name: value for name, value in _timetable_fields(body).items() if value is not None}
        if given.get("catch_up", CatchUp.ALL) is CatchUp.ALL and "max_catch_up" not in body:
            given["max_catch_up"] = DEFAULT_MAX_CATCH_UP
        timetable = Timetable(**({"starts_at": EPOCH} | given))
    return NewJob(
        endpoint=body["endpoint"],
        trigger=trigger,
        input=body.get("input") or {},
        name=body.get("name"),
        labels=body.get("labels") or {},
        idempotency_key=body.get("idempotency_key"),
        run_at=body.get("run_at"),
        timetable=timetable,
        starts_now=starts_at is None,
    )


def changed_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes that a parsed body requests, under their internal names."""
    own = {"name": body["name"]} if "name" in body else {}
    own |= {name: body[name] or {} for name in ("input", "labels") if name in body}
    return _timetable_fields(body) | own


def _timetable_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    names = {name: name for name in ("cron", "timezone", "fixed_delay", *_REPEATING)} | {"every": "every_ms"}
    return {inside: body[name] for name, inside in names.items() if name in body}


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
    shaped: dict[str, Any] = {name: getattr(table, name) for name in sorted(_REPEATING)}
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
