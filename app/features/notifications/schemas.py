"""Schemas of requests and responses of /notification-rules."""

from typing import Any

from marshmallow import Schema, ValidationError, fields, validate

from app.catalog.endpoints.live_settings_fields import FullMatch
from app.catalog.specs.spec_fields import Flag, TextInOrder, whole
from app.features.notifications.pacing import Wait
from app.features.notifications.rules import DAYS, EVENTS, TRAITS
from app.kernel.described_fields import answered, described
from app.kernel.suggestions import did_you_mean
from app.web.http.request_fields import Body, Instant, Name, check_zone
from app.web.jobs.labels import LabelCondition
from schema.job_bounds import NAME_PATTERN
from schema.states import NotificationEvent, Severity

MAX_CHANNELS = 5
MAX_SHOWN = 100

_PATTERN = "Must be 1 to 128 lower-case letters, digits, hyphens, underscores, * and ?."
_TIME = FullMatch(r"^([01][0-9]|2[0-3]):[0-5][0-9]$", error="Must be a time of the day, such as 22:00.")
_DAY_SECONDS = 86_400


def _pattern(of: str) -> fields.String:
    meaning = f"a pattern of {of}: `*` stands for any number of characters, `?` for one"
    return fields.String(
        allow_none=True, validate=FullMatch(NAME_PATTERN, error=_PATTERN), **described(meaning, example="billing-*")
    )


class _RuleEvent(fields.Enum[NotificationEvent]):
    """Event of a rule; test messages are sent without rules."""

    def _deserialize(self, value: Any, *args: Any, **kwargs: Any) -> Any:
        if value not in EVENTS:
            near = did_you_mean(value, EVENTS)
            raise ValidationError(f"Unknown event.{near}" if near else f"Must be one of: {', '.join(EVENTS)}.")
        return super()._deserialize(value, *args, **kwargs)


# `from` is a keyword of Python.
QuietHoursSchema = Body.from_dict(
    {
        "from": fields.String(required=True, validate=_TIME, **described(example="22:00")),
        "to": fields.String(
            required=True, validate=_TIME, **described("on the next day unless later than `from`", example="07:00")
        ),
        "days": fields.List(
            fields.String(validate=validate.OneOf(DAYS)),
            allow_none=True,
            validate=validate.Length(1, len(DAYS)),
            **described("days on which they begin; default: every day", example=["mon", "tue"]),
        ),
        "timezone": TextInOrder(
            required=True, validate=[validate.Length(1, 64), check_zone], **described(example="Europe/Berlin")
        ),
    },
    name="QuietHoursSchema",
)


class ChangedNotificationRuleSchema(Body):
    """A notification rule; `name`, if given, must equal the name in the path."""

    name = Name(**described(example="billing-fails"))
    events = fields.List(
        _RuleEvent(NotificationEvent, by_value=True),
        required=True,
        validate=validate.Length(1, len(EVENTS)),
        **described(
            "severities: " + ", ".join(f"`{event}` is {TRAITS[event].severity}" for event in EVENTS),
            example=["execution.failed", "job.recovered"],
        ),
    )
    channels = fields.List(
        Name(),
        required=True,
        validate=validate.Length(1, MAX_CHANNELS),
        **described("endpoints that each get a job per message", example=["send-welcome-email"]),
    )
    endpoint = _pattern("names of endpoints")
    label = LabelCondition(allow_none=True)
    queue = _pattern("queues, for `worker.lost` and `queue.late`")
    all = Flag(**described("match everything; excludes endpoint, label and queue", example=False))
    min_severity = fields.Enum(Severity, by_value=True, **described(example=Severity.WARNING.value))
    failing_after = whole(1, 100, **described("`job.failing`: number of failures in a row"))
    late_seconds = whole(
        10,
        _DAY_SECONDS,
        **described("`queue.late`, `schedule.overdue`: tolerated delay; `workflow.late`: time left", example=300),
    )
    group_seconds = whole(
        0, 3600, **described("events within this time of the first event are one message", example=60)
    )
    repeat_after_seconds = whole(
        0, 7 * _DAY_SECONDS, **described("time for which a reported subject is not reported again", example=3600)
    )
    max_per_hour = whole(1, 1000, **described("messages; further events wait for the next message", example=20))
    quiet_hours = fields.Nested(
        QuietHoursSchema, allow_none=True, **described("events within them are reported at their end")
    )


class NewNotificationRuleSchema(ChangedNotificationRuleSchema):
    """A notification rule to create."""

    name = Name(required=True, **described(example="billing-fails"))


class NotificationQuestionSchema(ChangedNotificationRuleSchema):
    """A notification rule to preview; neither the rule nor its channels need to exist."""


class NotificationRuleSchema(Schema):
    """A notification rule."""

    name = Name(**answered(example="billing-fails"))
    events = fields.List(fields.String(), **answered(example=["execution.failed", "job.recovered"]))
    channels = fields.List(Name(), **answered(example=["send-welcome-email"]))
    endpoint = fields.String(**answered(null=True, example="billing-*"))
    label = fields.String(**answered(null=True, example=None))
    queue = fields.String(**answered(null=True, example=None))
    all = fields.Boolean(**answered(example=False))
    min_severity = fields.Enum(Severity, by_value=True, **answered(example=Severity.INFO.value))
    failing_after = fields.Integer(**answered(example=3))
    late_seconds = fields.Integer(**answered(example=300))
    group_seconds = fields.Integer(**answered(example=60))
    repeat_after_seconds = fields.Integer(**answered(example=0))
    max_per_hour = fields.Integer(**answered(example=20))
    quiet_hours = fields.Nested(QuietHoursSchema, required=True, allow_none=True)
    created_at = Instant(required=True)
    updated_at = Instant(required=True)


class SubjectSchema(Schema):
    """Subject of events."""

    name = fields.String(**answered(example="billing-eu"))
    count = fields.Integer(**answered(example=42))


class WouldBeMessageSchema(Schema):
    """A message that a rule would have sent."""

    opened_at = Instant(**answered("time of the first event"))
    sent_at = Instant(**answered("`null`: not sent yet", null=True))
    waits_for = fields.Enum(Wait, by_value=True, **answered("reason to wait", null=True, example=None))
    event = fields.Enum(NotificationEvent, by_value=True, **answered(example="execution.failed"))
    severity = fields.Enum(Severity, by_value=True, **answered(example=Severity.WARNING.value))
    title = fields.String(**answered(example="42 executions failed: billing-eu"))
    count = fields.Integer(**answered("number of events", example=42))
    subjects = fields.List(fields.Nested(SubjectSchema), required=True)
    examples = fields.List(fields.String(), **answered(example=["exec_2b7c5d8e9f10"]))


class AtChannelSchema(Schema):
    """Job or fault of a message at a channel."""

    channel = Name(**answered(example="send-welcome-email"))
    job_id = fields.String(**answered("`null`: see `fault`", null=True))
    fault = fields.String(**answered("reason why no job was created", null=True, example=None))


class SentMessageSchema(WouldBeMessageSchema):
    """A message of a rule, sent or waiting."""

    group_id = fields.String(required=True)
    waits_until = Instant(**answered(null=True, example=None))
    channels = fields.List(fields.Nested(AtChannelSchema), required=True)


class NotificationPreviewSchema(Schema):
    """Messages that a rule would have sent."""

    since = Instant(required=True)
    until = Instant(required=True)
    truncated = fields.Boolean(**answered("too many events to read; the preview covers less than a day", example=False))
    not_previewed = fields.List(fields.String(), **answered("events without stored history", example=[]))
    events = fields.Integer(**answered("number of matching events", example=42))
    repeated = fields.Integer(**answered("events suppressed by `repeat_after_seconds`", example=0))
    message_count = fields.Integer(**answered(example=1))
    messages = fields.List(fields.Nested(WouldBeMessageSchema), **answered(f"the latest {MAX_SHOWN}"))
