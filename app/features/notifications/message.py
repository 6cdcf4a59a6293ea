"""Message: the input of notification jobs, which payload specs of channels must accept. Pure."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from app.features.notifications.grouping import MAX_EXAMPLES, EventGroup
from app.features.notifications.rules import SEVERITY
from app.kernel.formats import rfc3339
from schema.states import NotificationEvent, Severity

MAX_SUBJECTS = 10
MAX_TITLE, MAX_BODY = 250, 4_000  # characters; common chat services cut or reject longer texts
_CUT = "…"
_WORDS = {
    NotificationEvent.EXECUTION_FAILED: ("execution failed", "executions failed"),
    NotificationEvent.JOB_FAILING: ("job keeps failing", "jobs keep failing"),
    NotificationEvent.JOB_RECOVERED: ("job works again", "jobs work again"),
    NotificationEvent.SCHEDULE_OVERDUE: ("schedule is overdue", "schedules are overdue"),
    NotificationEvent.WORKER_LOST: ("worker was lost", "workers were lost"),
    NotificationEvent.BREAKER_OPENED: ("breaker opened", "breakers opened"),
    NotificationEvent.QUEUE_LATE: ("queue is late", "queues are late"),
}

_TEXT, _COUNT = {"type": "string"}, {"type": "integer", "minimum": 0}


def _described(description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {**schema, "description": description}


_INSTANT = {"type": "string", "format": "date-time"}
_SUBJECT = {"type": "object", "properties": {"name": _TEXT, "count": _COUNT}, "required": ["name", "count"]}
_PROPERTIES: dict[str, Any] = {
    "rule": _described("name of the rule; of a test message, the endpoint", _TEXT),
    "event": {"type": "string", "enum": [event.value for event in NotificationEvent]},
    "severity": {"type": "string", "enum": [severity.value for severity in Severity]},
    "title": _described("one line", {**_TEXT, "maxLength": MAX_TITLE}),
    "body": _described("plain text", {**_TEXT, "maxLength": MAX_BODY}),
    "count": _described("number of events", _COUNT),
    "first_at": _INSTANT,
    "last_at": _INSTANT,
    "subjects": _described(
        "subjects of the events, most frequent first",
        {"type": "array", "items": _SUBJECT, "maxItems": MAX_SUBJECTS},
    ),
    "examples": _described("ids to look up", {"type": "array", "items": _TEXT, "maxItems": MAX_EXAMPLES}),
}
MESSAGE_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Message",
    "description": "Notification of events that match a rule.",
    "type": "object",
    "properties": _PROPERTIES,
    "required": list(_PROPERTIES),
}


def build_message(
    *,
    rule: str,
    event: NotificationEvent,
    severity: Severity,
    title: str,
    body: str,
    first_at: datetime,
    last_at: datetime,
    count: int = 1,
    subjects: Iterable[tuple[str, int]] = (),
    examples: Iterable[str] = (),
) -> dict[str, Any]:
    """Return a message that is valid by MESSAGE_SCHEMA.

    `subjects` are names with their number of events; the MAX_SUBJECTS most frequent are kept, as are the first
    MAX_EXAMPLES examples. Longer texts are cut. Instants need a time zone.
    """
    ordered = sorted(subjects, key=lambda subject: (-subject[1], subject[0]))[:MAX_SUBJECTS]
    return {
        "rule": rule,
        "event": event.value,
        "severity": severity.value,
        "title": _cut(" ".join(title.split()), MAX_TITLE),
        "body": _cut(body, MAX_BODY),
        "count": count,
        "first_at": rfc3339(first_at.astimezone(UTC)),
        "last_at": rfc3339(last_at.astimezone(UTC)),
        "subjects": [{"name": name, "count": number} for name, number in ordered],
        "examples": list(examples)[:MAX_EXAMPLES],
    }


def sample_message(endpoint: str, at: datetime) -> dict[str, Any]:
    """Return the message of a test of an endpoint."""
    return build_message(
        rule=endpoint,
        event=NotificationEvent.TEST,
        severity=Severity.INFO,
        title="Test of Task Executor",
        body=f"The endpoint {endpoint} works: this message came through it. Nothing has happened.",
        first_at=at,
        last_at=at,
        subjects=[(endpoint, 1)],
    )


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - len(_CUT)] + _CUT


def message_of(rule: str, group: EventGroup) -> dict[str, Any]:
    """Return the message of a group."""
    if group.first_at is None or group.last_at is None:
        raise ValueError("an empty group is no message")
    subjects = group.subjects
    return build_message(
        rule=rule,
        event=group.event,
        severity=SEVERITY[group.event],
        title=title_of(group),
        body=_body(rule, group),
        first_at=group.first_at,
        last_at=group.last_at,
        count=group.count,
        subjects=subjects.items(),
        examples=group.examples,
    )


def title_of(group: EventGroup) -> str:
    """Return the counts of the events in one line, the highest severity first."""
    order = sorted(group.counts, key=lambda event: (event is not group.event, -group.counts[event], event))
    events = ", ".join(f"{group.counts[event]:,} {_WORDS[event][group.counts[event] > 1]}" for event in order)
    names = list(group.subjects)
    return f"{events}: {names[0]}" if len(names) == 1 else events


def _body(rule: str, group: EventGroup) -> str:
    subjects = group.subjects.most_common(MAX_SUBJECTS)
    lines = [f"{title_of(group)}.", ""]
    lines += [f"  {count:>7,}  {name}" for name, count in subjects]
    others = group.count - sum(count for _, count in subjects)
    if others:
        lines.append(f"  {others:>7,}  others")
    first, last = (rfc3339(at, "seconds") for at in (group.first_at, group.last_at) if at is not None)
    lines += ["", f"first: {first}", f"last:  {last}"]
    if group.examples:
        lines += ["", f"look at: {', '.join(group.examples)}"]
    return "\n".join([*lines, "", f"rule: {rule}"])
