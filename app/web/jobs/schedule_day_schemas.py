"""Schemas of the day of all schedules."""

from datetime import date

from marshmallow import Schema, fields, validate

from app.kernel.described_fields import answered, described
from app.queue.jobs.schedule_day import MAX_BUSIEST
from app.web.http.request_fields import Body, Count, Instant, Zone
from app.web.jobs.labels import LabelSelector
from schema.job_bounds import MAX_JOB_NAME, MAX_NAME

MAX_LISTED = 1000  # schedules
FIRST_DAY, LAST_DAY = date(2000, 1, 1), date(2199, 12, 31)


class DayQuery(Body):
    date = fields.Date(
        validate=validate.Range(FIRST_DAY, LAST_DAY), **described("today in the zone when absent", example="2026-03-29")
    )
    zone = Zone(load_default="UTC")
    endpoint = fields.String(validate=validate.Length(1, MAX_NAME))
    name = fields.String(validate=validate.Length(1, MAX_JOB_NAME), **described(example="Daily report"))
    labels = LabelSelector()
    limit = Count(
        load_default=100,
        validate=validate.Range(1, MAX_LISTED),
        **described("of `schedules`; the sums count all", example=100),
    )


class BusyScheduleSchema(Schema):
    job_id = fields.String(required=True)
    name = fields.String(**answered(null=True, example="Daily report"))
    endpoint = fields.String(required=True)


class DayScheduleSchema(BusyScheduleSchema):
    starts = fields.Integer(required=True)
    first_at = Instant(required=True, allow_none=True)
    last_at = Instant(required=True, allow_none=True)
    runs = fields.List(
        fields.List(fields.Integer()),
        **answered("minutes of the day with a start, as `[first, last, step]`", example=[[540, 1020, 60]]),
    )
    is_estimate = fields.Boolean(**answered("fixed delay: as if executions took no time", example=False))


class BusyMinuteSchema(Schema):
    at = Instant(required=True)
    starts = fields.Integer(**answered(example=88))
    schedules = fields.List(
        fields.Nested(BusyScheduleSchema),
        **answered(f"up to {MAX_BUSIEST}, first those with the fewest starts on the day"),
    )
    more = fields.Integer(**answered("further schedules", example=78))


class ClockChangeSchema(Schema):
    """A clock change of the day, and its effect on the schedules of its zone."""

    at = Instant(required=True)
    zone = fields.String(**answered(example="Europe/Berlin"))
    note = fields.String(
        **answered(example="Local times from 2026-03-29 02:00 to 2026-03-29 03:00 do not exist in Europe/Berlin.")
    )
    once = fields.Integer(**answered("schedules that run once for all these times"))
    skipped = fields.Integer(**answered("schedules of every hour, which pass over these times", example=0))
    twice = fields.Integer(**answered("schedules that run both times", example=0))


class ScheduleDaySchema(Schema):
    """Starts of all active schedules on one day, by the timetables as they are now."""

    date = fields.Date(**answered(example="2026-03-29"))
    zone = fields.String(**answered(example="Europe/Berlin"))
    start = Instant(required=True)
    end = Instant(required=True)
    counted = fields.Integer(**answered("schedules in the sums", example=142))
    starts = fields.Integer(**answered(example=31204))
    is_complete = fields.Boolean(**answered("`false` if schedules were left out because of their number"))
    by_minute = fields.List(
        fields.Integer(), **answered("starts of each minute, from `start` on", example=[3, 0, 0, 1])
    )
    busiest = fields.List(
        fields.Nested(BusyMinuteSchema),
        **answered(f"up to {MAX_BUSIEST} minutes with more than one start, most starts first"),
    )
    clock_changes = fields.List(fields.Nested(ClockChangeSchema), required=True)
    schedules = fields.List(
        fields.Nested(DayScheduleSchema), **answered("schedules with a start on the day, by their first start")
    )
