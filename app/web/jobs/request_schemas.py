"""Schemas of jobs in requests, and conversion of parsed bodies."""

from collections.abc import Mapping
from typing import Any

from marshmallow import ValidationError, fields, validate, validates_schema

from app.catalog.endpoints.live_settings_fields import priority_field, queue_field
from app.catalog.specs.spec_fields import Flag, TextInOrder
from app.kernel.audit import SYSTEM, Actor
from app.kernel.described_fields import described
from app.kernel.formats import EPOCH, show_duration
from app.kernel.tracing.context import TraceContext
from app.queue.jobs.job_model import NewJob
from app.schedule.cron import MAX_CRON
from app.schedule.interval import SHORTEST_MS
from app.schedule.timetable import DEFAULT_MAX_CATCH_UP, Timetable
from app.web.http.pagination import PageQuery
from app.web.http.request_fields import (
    Body,
    Delay,
    Every,
    Instant,
    QueryInstant,
    callbacks_field,
    check_key,
)
from app.web.http.workflow_filter import OF_WORKFLOW
from app.web.jobs.inline_fields import InlineFields, as_job, without_url
from app.web.jobs.labels import LabelSelector, labels_field
from app.web.jobs.plain_request import read_plain
from schema.job_bounds import (
    MAX_DELAY_MS,
    MAX_IDEMPOTENCY_KEY,
    MAX_JOB_NAME,
    MAX_NAME,
    OWN_KEY_PREFIX,
)
from schema.states import CatchUp, JobStatus, Overlap, Trigger

MAX_CATCH_UP = 1000

REPEATING_FIELDS = {"starts_at", "ends_at", "catch_up", "max_catch_up", "overlap"}
_ONLY = {
    Trigger.IMMEDIATE: set[str](),
    Trigger.DELAYED: {"run_at", "delay"},
    Trigger.CRON: {"cron", "timezone", *REPEATING_FIELDS},
    Trigger.INTERVAL: {"every", "fixed_delay", *REPEATING_FIELDS},
}
_NEEDED = {
    Trigger.IMMEDIATE: set[str](),
    Trigger.DELAYED: set[str](),  # one of two: checked apart
    Trigger.CRON: {"cron", "timezone"},
    Trigger.INTERVAL: {"every"},
}
_EVERY = f"for INTERVAL; `500ms`, `10s`, `5m`, `2h`, `1d`, or milliseconds; at least {SHORTEST_MS} ms"


def other_trigger(name: str, trigger: Trigger) -> str:
    """Return the fault of a field that only jobs of other triggers have."""
    owners = " and ".join(owner for owner, names in _ONLY.items() if name in names)
    return f"Only for {owners} jobs; `trigger` is {trigger}."


class ChangedJobSchema(Body):
    """Changes of a repeating job; absent fields are kept.

    `null` removes `name`, `labels`, `queue`, `priority`, `callbacks`, `ends_at` or `max_catch_up`; `labels` and
    `callbacks` replace all previous labels and callbacks.
    """

    ELSEWHERE = dict.fromkeys(
        ("run_at", "delay"), "`reschedule` of POST /bulk-operations moves the waiting execution of a job."
    )

    name = fields.String(
        allow_none=True,
        validate=validate.Length(1, MAX_JOB_NAME),
        **described("for display and filters; need not be unique", example="Daily report"),
    )
    labels = labels_field()
    queue = queue_field(
        allow_none=True, **described("queue of its executions; the endpoint's queue when absent", example="bulk")
    )
    priority = priority_field(
        allow_none=True, **described("0 to 255; higher starts first; the endpoint's priority when absent", example=200)
    )
    cron = fields.String(allow_none=True, validate=validate.Length(1, MAX_CRON), **described("for CRON; five fields"))
    timezone = fields.String(
        allow_none=True, validate=validate.Length(1, 64), **described("for CRON; an IANA time zone")
    )
    every = Every(allow_none=True, **described(_EVERY))
    fixed_delay = Flag(
        allow_none=True, **described("for INTERVAL; count from the end of the last execution, not from the last tick")
    )
    starts_at = Instant(allow_none=True, **described("for CRON and INTERVAL; now when absent"))
    ends_at = Instant(allow_none=True, **described("for CRON and INTERVAL; no tick at or after it"))
    catch_up = fields.Enum(
        CatchUp, by_value=True, allow_none=True, **described("ticks to run late after an outage; `all` when absent")
    )
    max_catch_up = fields.Integer(
        strict=True,
        allow_none=True,
        validate=validate.Range(1, MAX_CATCH_UP),
        **described(
            f"with `catch_up: all`: maximum number of late ticks to run, keeping the latest; "
            f"{DEFAULT_MAX_CATCH_UP} when absent, no limit when `null`"
        ),
    )
    overlap = fields.Enum(
        Overlap,
        by_value=True,
        allow_none=True,
        **described("`skip` drops a tick while an execution of the job is unfinished; `allow` when absent"),
    )
    input = fields.Dict(allow_none=True)
    callbacks = callbacks_field(
        **described("endpoints to call when its executions end; override the endpoint's callbacks; `null`: none")
    )

    @validates_schema
    def check_catch_up(self, data: dict[str, Any], **_: Any) -> None:
        if data.get("starts_at") and data.get("ends_at") and data["ends_at"] <= data["starts_at"]:
            raise ValidationError("Must be after starts_at.", "ends_at")
        if data.get("max_catch_up") is not None and data.get("catch_up") not in {None, CatchUp.ALL}:
            raise ValidationError("Only with catch_up: all.", "max_catch_up")


class NewJobSchema(ChangedJobSchema, InlineFields):
    """A job to create: `endpoint` and `trigger`, or `url`. Fields of another trigger must be absent or null."""

    NEEDED = (("endpoint", "trigger"), ("url",))

    endpoint = fields.String(required=True, validate=validate.Length(1, MAX_NAME))
    trigger = fields.Enum(Trigger, required=True)
    idempotency_key = TextInOrder(
        allow_none=True,
        validate=[validate.Length(1, MAX_IDEMPOTENCY_KEY), check_key],
        **described(
            "required for IMMEDIATE and DELAYED, here or in the Idempotency-Key header; must not begin "
            f"with `{OWN_KEY_PREFIX}`, which is reserved for jobs that the service itself creates"
        ),
    )
    run_at = Instant(allow_none=True, **described("for DELAYED, without `delay`; a time in the past means now"))
    delay = Delay(
        allow_none=True,
        **described(
            "for DELAYED, instead of `run_at`: time from now, by the clock of the database; `500ms`, "
            f"`10s`, `5m`, `2h`, `1d`, `PT10M` (ISO 8601), or milliseconds; at most {show_duration(MAX_DELAY_MS)}"
        ),
    )

    def load(self, data: Any, **options: Any) -> Any:
        """Load a body; raises ValidationError. Most bodies are plain, and the fast path saves 90 % of the time."""
        if isinstance(data, dict) and data.get("url") is not None:
            return self._load_inline(data, options)
        plain = read_plain(data)
        return plain if plain is not None else super().load(data, **options)

    def _load_inline(self, data: dict[str, Any], options: Mapping[str, Any]) -> Any:
        job, inline, faults = as_job(data)
        try:
            loaded = read_plain(job) or super().load(job, **options)
        except ValidationError as error:
            raise ValidationError(error.messages_dict | faults) from None
        if faults:
            raise ValidationError(faults)
        return loaded | {"inline": inline}

    @validates_schema
    def check_trigger(self, data: dict[str, Any], **_: Any) -> None:
        trigger = data["trigger"]
        given = {name for name in set[str]().union(*_ONLY.values()) if data.get(name) is not None}
        faults = {name: [other_trigger(name, trigger)] for name in sorted(given - _ONLY[trigger])}
        faults |= {name: [f"Required for {trigger} jobs."] for name in sorted(_NEEDED[trigger] - given)}
        faults |= without_url(data)
        if trigger is Trigger.DELAYED and len(given & _ONLY[trigger]) != 1:
            if "delay" in given:
                faults["delay"] = ["Not together with `run_at`. Give one of the two."]
            else:
                faults["run_at"] = [f"Required for {trigger} jobs, unless `delay` is given."]
        if faults:
            raise ValidationError(faults)


class PatchedJobSchema(ChangedJobSchema):
    """Either `status` alone, which pauses or resumes the job, or changes of a repeating job."""

    status = fields.Enum(JobStatus, validate=validate.OneOf([JobStatus.ACTIVE, JobStatus.PAUSED]))

    @validates_schema
    def check_alone(self, data: dict[str, Any], **_: Any) -> None:
        if "status" in data and len(data) > 1:
            raise ValidationError(
                "Must be alone: it changes this version, other fields create a new version.", "status"
            )


class JobQuery(PageQuery):
    status = fields.Enum(JobStatus)
    trigger = fields.Enum(Trigger)
    endpoint = fields.String(validate=validate.Length(1, MAX_NAME))
    name = fields.String(validate=validate.Length(1, MAX_JOB_NAME), **described(example="Daily report"))
    labels = LabelSelector()
    queue = queue_field(**described("jobs with a queue of their own that has this name", example="bulk"))
    workflow = OF_WORKFLOW
    created_after = QueryInstant()
    created_before = QueryInstant()


def new_job(body: Mapping[str, Any], trace: TraceContext | None = None, by: Actor = SYSTEM) -> NewJob:
    trigger, timetable = body["trigger"], None
    if trigger.repeats:
        given = {name: value for name, value in _timetable_fields(body).items() if value is not None}
        if given.get("catch_up", CatchUp.ALL) is CatchUp.ALL and "max_catch_up" not in body:
            given["max_catch_up"] = DEFAULT_MAX_CATCH_UP
        timetable = Timetable(**({"starts_at": EPOCH} | given))
    names = ("name", "queue", "priority", "idempotency_key", "run_at", "callbacks")
    return NewJob(
        endpoint=body["endpoint"],
        trigger=trigger,
        input=body.get("input") or {},
        labels=body.get("labels") or {},
        delay_ms=body.get("delay"),
        timetable=timetable,
        starts_now=body.get("starts_at") is None,
        trace=trace,
        inline=body.get("inline"),
        by=by,
        **{name: body.get(name) for name in names},
    )


def changed_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes of a parsed body by their internal names."""
    own = {name: body[name] for name in ("name", "queue", "priority", "callbacks") if name in body}
    own |= {name: body[name] or {} for name in ("input", "labels") if name in body}
    return _timetable_fields(body) | own


def _timetable_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    names = {name: name for name in ("cron", "timezone", "fixed_delay", *REPEATING_FIELDS)} | {"every": "every_ms"}
    return {inside: body[name] for name, inside in names.items() if name in body}
