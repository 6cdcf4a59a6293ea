"""/cron/preview."""

from datetime import UTC, datetime
from typing import Any

from marshmallow import Schema, fields, validate

from app.kernel.access.api_keys import Scope
from app.kernel.described_fields import answered, described
from app.kernel.errors import InvalidCronError
from app.schedule import preview
from app.schedule.cron import MAX_CRON, Schedule
from app.web.http.request_fields import Body, Instant
from app.web.openapi.resource import Resource

MAX_RUNS = 100

# It stores nothing, so the scope `read` is enough.
resource = Resource("cron", "Previews of schedules.", write_scope=Scope.READ)


class RunSchema(Schema):
    run_at = Instant(**answered(example="2026-03-16T03:30:00Z"))
    local_time = Instant(**answered("`run_at` in the schedule's time zone", example="2026-03-16T09:00:00+05:30"))
    note = fields.String(**answered("effect of a clock change on this run", null=True, example=None))


class CronPreviewQuestionSchema(Body):
    cron = fields.String(required=True, validate=validate.Length(1, MAX_CRON), **described("five fields"))
    timezone = fields.String(required=True, validate=validate.Length(1, 64), **described("an IANA time zone"))
    count = fields.Integer(strict=True, load_default=10, validate=validate.Range(1, MAX_RUNS), **described(example=1))
    after = Instant(allow_none=True, **described("list runs after this instant; now when absent"))


class CronPreviewSchema(Schema):
    cron = fields.String(required=True)
    timezone = fields.String(required=True)
    description = fields.String(**answered(example="At 09:00 on Monday"))
    after = Instant(required=True)
    runs = fields.List(fields.Nested(RunSchema), **answered("fewer than `count` at the end of the calendar"))


@resource.route(
    "POST", "/cron/preview", body=CronPreviewQuestionSchema, returns=CronPreviewSchema, errors=[InvalidCronError]
)
def preview_(body: dict[str, Any]) -> dict[str, Any]:
    """Preview a schedule: its rule in English and its next runs, with notes on clock changes."""
    after = body.get("after") or datetime.now(UTC)
    schedule = Schedule.parse(body["cron"], body["timezone"])
    return {
        "cron": body["cron"],
        "timezone": body["timezone"],
        "description": preview.describe(body["cron"]),
        "after": after,
        "runs": preview.runs(schedule, after, body["count"]),
    }
