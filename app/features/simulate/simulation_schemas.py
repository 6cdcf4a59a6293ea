"""Schemas of simulations."""

from datetime import UTC, datetime, timedelta
from typing import Any

from marshmallow import Schema, ValidationError, fields, validate, validates_schema

from app.kernel.described_fields import answered, described
from app.schedule.cron import MAX_CRON
from app.web.http.request_fields import Body, Delay, Every, Instant, Zone
from app.web.jobs.labels import labels_field
from schema.job_bounds import MAX_JOB_NAME, MAX_NAME
from schema.states import CatchUp, Overlap

MAX_SIMULATED = 500  # schedules
LONGEST = timedelta(days=7)


class OutageSchema(Body):
    start = Instant(required=True, **described(example="2026-03-15T12:00:00Z"))
    end = Instant(required=True, **described(example="2026-03-15T14:00:00Z"))


class SimulationQuestionSchema(Body):
    """Schedules and period of a simulation. Without `jobs`, `cron` and `every`: the active schedules of a filter."""

    jobs = fields.List(
        fields.String(validate=validate.Length(1, 128)),
        allow_none=True,
        validate=validate.Length(1, MAX_SIMULATED),
        **described("ids of active CRON and INTERVAL jobs", example=["job_c72f90ab13de"]),
    )
    endpoint = fields.String(allow_none=True, validate=validate.Length(1, MAX_NAME), **described(example=None))
    name = fields.String(allow_none=True, validate=validate.Length(1, MAX_JOB_NAME), **described(example=None))
    labels = labels_field(example=None)
    cron = fields.String(
        allow_none=True,
        validate=validate.Length(1, MAX_CRON),
        **described("a rule of five fields instead of stored jobs", example=None),
    )
    timezone = Zone(allow_none=True, **described("of `cron`", example=None))
    every = Every(allow_none=True, **described("an interval instead of stored jobs", example=None))
    start = Instant(allow_none=True, **described("now when absent; at a given start, earlier ticks count as started"))
    length = Delay(load_default=86_400_000, **described(f"up to {LONGEST.days}d", example="1d", default="1d"))
    takes = Delay(load_default=0, **described("duration of an execution", example="30s", default="0s"))
    outage = fields.Nested(OutageSchema, allow_none=True, **described("of all schedulers, within the period"))
    catch_up = fields.Enum(CatchUp, by_value=True, allow_none=True, **described("for all schedules", example="latest"))
    max_catch_up = fields.Integer(
        strict=True,
        allow_none=True,
        validate=validate.Range(1, 1000),
        **described("with `catch_up: all`", example=None),
    )
    overlap = fields.Enum(Overlap, by_value=True, allow_none=True, **described("for all schedules", example="skip"))

    @validates_schema(skip_on_field_errors=True)
    def check(self, data: dict[str, Any], **_: Any) -> None:
        """Check that the fields fit each other."""
        sources = [name for name in ("jobs", "cron", "every") if data.get(name) is not None]
        if len(sources) > 1:
            raise ValidationError(f"Not together with `{sources[0]}`.", sources[1])
        filters = [name for name in ("endpoint", "name", "labels") if data.get(name) is not None]
        if sources and filters:
            raise ValidationError(f"Not together with `{sources[0]}`.", filters[0])
        if data.get("timezone") is not None and data.get("cron") is None:
            raise ValidationError("Only with `cron`.", "timezone")
        if data.get("max_catch_up") is not None and data.get("catch_up") is not CatchUp.ALL:
            raise ValidationError("Only with `catch_up: all`.", "max_catch_up")
        _check_period(data)


def _check_period(data: dict[str, Any]) -> None:
    length = timedelta(milliseconds=data["length"])
    if not timedelta(0) < length <= LONGEST:
        raise ValidationError(f"Must be more than 0 and at most {LONGEST.days}d.", "length")
    start, outage = (data.get("start") or datetime.now(UTC)).replace(microsecond=0), data.get("outage")
    if outage is None:
        return
    if not start <= outage["start"] < outage["end"]:
        raise ValidationError({"outage": {"start": ["Must not be before `start` of the period, and before `end`."]}})
    if outage["end"] > start + length:
        raise ValidationError({"outage": {"end": ["Must be within the period: `start` and `length`."]}})


_COUNTS: dict[str, fields.Field[Any]] = {
    "starts": fields.Integer(required=True, **described(example=1440)),
    "made_up": fields.Integer(required=True, **described("caught up at the end of the outage", example=1)),
    "skipped_catch_up": fields.Integer(required=True, **described(example=119)),
    "skipped_overlap": fields.Integer(required=True, **described(example=0)),
}
SimulatedCountsSchema = Schema.from_dict(_COUNTS, name="SimulatedCountsSchema")
_NAMED: dict[str, fields.Field[Any]] = {
    "job_id": fields.String(required=True, allow_none=True, **described("`null` for `cron` and `every`")),
    "name": fields.String(required=True, **described(example="Daily report")),
}
SimulatedScheduleSchema = Schema.from_dict(_NAMED | _COUNTS, name="SimulatedScheduleSchema")
LeftOutSchema = Schema.from_dict(
    _NAMED | {"reason": fields.String(required=True, **described(example="The simulation ended after 2 seconds."))},
    name="LeftOutSchema",
)


class HourSchema(Schema):
    hour = Instant(required=True)
    starts = fields.Integer(**answered(example=60))


class CollisionSchema(Schema):
    at = Instant(required=True)
    starts = fields.Integer(**answered(example=88))


class SimulationSchema(Schema):
    """Starts that repeating jobs would cause, by the rules of the scheduler."""

    start = Instant(required=True)
    end = Instant(required=True)
    total = fields.Nested(SimulatedCountsSchema, required=True)
    schedules = fields.List(fields.Nested(SimulatedScheduleSchema), required=True)
    hours = fields.List(fields.Nested(HourSchema), required=True)
    collisions = fields.List(
        fields.Nested(CollisionSchema), **answered("the seconds with most starts; intervals below 10 s are not counted")
    )
    left_out = fields.List(fields.Nested(LeftOutSchema), **answered("schedules that are not in the counts"))
    is_complete = fields.Boolean(**answered(f"`false` if schedules are left out, or more than {MAX_SIMULATED} match"))
