"""Schemas of requests and responses of /notification-rules."""

from typing import Any

from marshmallow import Schema, ValidationError, fields, validate

from app.catalog.endpoints.live_settings_fields import FullMatch
from app.catalog.specs.spec_fields import Flag, TextInOrder, whole
from app.features.notifications.pacing import Wait
from app.features.notifications.rules import DAYS, EVENTS, TRAITS
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
    described = f"a pattern of {of}: `*` stands for any number of characters, `?` for one"
    return fields.String(
        allow_none=True,
        validate=FullMatch(NAME_PATTERN, error=_PATTERN),
        metadata={"description": described, "example": "billing-*"},
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
        "from": fields.String(required=True, validate=_TIME, metadata={"example": "22:00"}),
        "to": fields.String(
            required=True,
            validate=_TIME,
            metadata={"example": "07:00", "description": "on the next day unless later than `from`"},
        ),
        "days": fields.List(
            fields.String(validate=validate.OneOf(DAYS)),
            allow_none=True,
            validate=validate.Length(1, len(DAYS)),
            metadata={"example": ["mon", "tue"], "description": "days on which they begin; default: every day"},
        ),
        "timezone": TextInOrder(
            required=True, validate=[validate.Length(1, 64), check_zone], metadata={"example": "Europe/Berlin"}
        ),
    },
    name="QuietHoursSchema",
)


class ChangedNotificationRuleSchema(Body):
    """A notification rule; `name`, if given, must equal the name in the path."""

    name = Name(metadata={"example": "billing-fails"})
    events = fields.List(
        _RuleEvent(NotificationEvent, by_value=True),
        required=True,
        validate=validate.Length(1, len(EVENTS)),
        metadata={
            "description": "severities: " + ", ".join(f"`{event}` is {TRAITS[event].severity}" for event in EVENTS),
            "example": ["execution.failed", "job.recovered"],
        },
    )
    channels = fields.List(
        Name(),
        required=True,
        validate=validate.Length(1, MAX_CHANNELS),
        metadata={"description": "endpoints that each get a job per message", "example": ["send-welcome-email"]},
    )
    endpoint = _pattern("names of endpoints")
    label = LabelCondition(allow_none=True)
    queue = _pattern("queues, for `worker.lost` and `queue.late`")
    all = Flag(metadata={"description": "match everything; excludes endpoint, label and queue", "example": False})
    min_severity = fields.Enum(Severity, by_value=True, metadata={"example": Severity.WARNING.value})
    failing_after = whole(1, 100, metadata={"description": "`job.failing`: number of failures in a row"})
    late_seconds = whole(
        10,
        _DAY_SECONDS,
        metadata={
            "description": "`queue.late`, `schedule.overdue`: tolerated delay; `workflow.late`: time left",
            "example": 300,
        },
    )
    group_seconds = whole(
        0, 3600, metadata={"description": "events within this time of the first event are one message", "example": 60}
    )
    repeat_after_seconds = whole(
        0,
        7 * _DAY_SECONDS,
        metadata={"description": "time for which a reported subject is not reported again", "example": 3600},
    )
    max_per_hour = whole(
        1, 1000, metadata={"description": "messages; further events wait for the next message", "example": 20}
    )
    quiet_hours = fields.Nested(
        QuietHoursSchema, allow_none=True, metadata={"description": "events within them are reported at their end"}
    )


class NewNotificationRuleSchema(ChangedNotificationRuleSchema):
    """A notification rule to create."""

    name = Name(required=True, metadata={"example": "billing-fails"})


class NotificationQuestionSchema(ChangedNotificationRuleSchema):
    """A notification rule to preview; neither the rule nor its channels need to exist."""


class NotificationRuleSchema(Schema):
    """A notification rule."""

    name = Name(required=True, metadata={"example": "billing-fails"})
    events = fields.List(fields.String(), required=True, metadata={"example": ["execution.failed", "job.recovered"]})
    channels = fields.List(Name(), required=True, metadata={"example": ["send-welcome-email"]})
    endpoint = fields.String(required=True, allow_none=True, metadata={"example": "billing-*"})
    label = fields.String(required=True, allow_none=True, metadata={"example": None})
    queue = fields.String(required=True, allow_none=True, metadata={"example": None})
    all = fields.Boolean(required=True, metadata={"example": False})
    min_severity = fields.Enum(Severity, by_value=True, required=True, metadata={"example": Severity.INFO.value})
    failing_after = fields.Integer(required=True, metadata={"example": 3})
    late_seconds = fields.Integer(required=True, metadata={"example": 300})
    group_seconds = fields.Integer(required=True, metadata={"example": 60})
    repeat_after_seconds = fields.Integer(required=True, metadata={"example": 0})
    max_per_hour = fields.Integer(required=True, metadata={"example": 20})
    quiet_hours = fields.Nested(QuietHoursSchema, required=True, allow_none=True)
    created_at = Instant(required=True)
    updated_at = Instant(required=True)


class SubjectSchema(Schema):
    """Subject of events."""

    name = fields.String(required=True, metadata={"example": "billing-eu"})
    count = fields.Integer(required=True, metadata={"example": 42})


class WouldBeMessageSchema(Schema):
    """A message that a rule would have sent."""

    opened_at = Instant(required=True, metadata={"description": "time of the first event"})
    sent_at = Instant(required=True, allow_none=True, metadata={"description": "`null`: not sent yet"})
    waits_for = fields.Enum(
        Wait, by_value=True, required=True, allow_none=True, metadata={"description": "reason to wait", "example": None}
    )
    event = fields.Enum(NotificationEvent, by_value=True, required=True, metadata={"example": "execution.failed"})
    severity = fields.Enum(Severity, by_value=True, required=True, metadata={"example": Severity.WARNING.value})
    title = fields.String(required=True, metadata={"example": "42 executions failed: billing-eu"})
    count = fields.Integer(required=True, metadata={"description": "number of events", "example": 42})
    subjects = fields.List(fields.Nested(SubjectSchema), required=True)
    examples = fields.List(fields.String(), required=True, metadata={"example": ["exec_2b7c5d8e9f10"]})


class AtChannelSchema(Schema):
    """Job or fault of a message at a channel."""

    channel = Name(required=True, metadata={"example": "send-welcome-email"})
    job_id = fields.String(required=True, allow_none=True, metadata={"description": "`null`: see `fault`"})
    fault = fields.String(
        required=True, allow_none=True, metadata={"description": "reason why no job was created", "example": None}
    )


class SentMessageSchema(WouldBeMessageSchema):
    """A message of a rule, sent or waiting."""

    group_id = fields.String(required=True)
    waits_until = Instant(required=True, allow_none=True, metadata={"example": None})
    channels = fields.List(fields.Nested(AtChannelSchema), required=True)


class NotificationPreviewSchema(Schema):
    """Messages that a rule would have sent."""

    since = Instant(required=True)
    until = Instant(required=True)
    truncated = fields.Boolean(
        required=True,
        metadata={"description": "too many events to read; the preview covers less than a day", "example": False},
    )
    not_previewed = fields.List(
        fields.String(), required=True, metadata={"description": "events without stored history", "example": []}
    )
    events = fields.Integer(required=True, metadata={"description": "number of matching events", "example": 42})
    repeated = fields.Integer(
        required=True, metadata={"description": "events suppressed by `repeat_after_seconds`", "example": 0}
    )
    message_count = fields.Integer(required=True, metadata={"example": 1})
    messages = fields.List(
        fields.Nested(WouldBeMessageSchema), required=True, metadata={"description": f"the latest {MAX_SHOWN}"}
    )
