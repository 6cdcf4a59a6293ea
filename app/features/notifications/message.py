"""Message: the input of notification jobs, which payload specs of channels must accept. Pure."""

from datetime import UTC, datetime
from typing import Any

from app.features.notifications.grouping import MAX_EXAMPLES, EventGroup, count_by_subject
from app.features.notifications.rules import TRAITS, Occurrence
from app.kernel.formats import rfc3339
from schema.states import NotificationEvent, Severity

MAX_SUBJECTS = 10
MAX_TITLE, MAX_BODY = 250, 4_000  # characters; common chat services cut or reject longer texts
_CUT = "…"

_TEXT, _COUNT = {"type": "string"}, {"type": "integer", "minimum": 0}
_INSTANT = {"type": "string", "format": "date-time"}
_SUBJECT = {"type": "object", "properties": {"name": _TEXT, "count": _COUNT}, "required": ["name", "count"]}
_PROPERTIES: dict[str, dict[str, Any]] = {
    "rule": {**_TEXT, "description": "name of the rule; of a test message, the endpoint"},
    "event": {"type": "string", "enum": [event.value for event in NotificationEvent]},
    "severity": {"type": "string", "enum": [severity.value for severity in Severity]},
    "title": {**_TEXT, "maxLength": MAX_TITLE, "description": "one line"},
    "body": {**_TEXT, "maxLength": MAX_BODY, "description": "plain text"},
    "count": {**_COUNT, "description": "number of events"},
    "first_at": _INSTANT,
    "last_at": _INSTANT,
    "subjects": {
        "type": "array",
        "items": _SUBJECT,
        "maxItems": MAX_SUBJECTS,
        "description": "subjects of the events, most frequent first",
    },
    "examples": {"type": "array", "items": _TEXT, "maxItems": MAX_EXAMPLES, "description": "ids to look up"},
}
MESSAGE_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Message",
    "description": "Notification of events that match a rule.",
    "type": "object",
    "properties": _PROPERTIES,
    "required": list(_PROPERTIES),
}


def build_message(rule: str, group: EventGroup, title: str, body: str) -> dict[str, Any]:
    """Return a message that is valid by MESSAGE_SCHEMA; longer texts are cut. Instants need a time zone."""
    ordered = sorted(group.subjects.items(), key=lambda subject: (-subject[1], subject[0]))[:MAX_SUBJECTS]
    return {
        "rule": rule,
        "event": group.event.value,
        "severity": TRAITS[group.event].severity.value,
        "title": _cut(" ".join(title.split()), MAX_TITLE),
        "body": _cut(body, MAX_BODY),
        "count": group.count,
        "first_at": rfc3339(group.first_at.astimezone(UTC)),
        "last_at": rfc3339(group.last_at.astimezone(UTC)),
        "subjects": [{"name": name, "count": number} for name, number in ordered],
        "examples": group.examples,
    }


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - len(_CUT)] + _CUT


def rejection(endpoint: str, pointer: str, fault: str) -> str:
    """Return the sentences about an endpoint whose payload spec rejects messages; `pointer` leads into a message."""
    schema = "See GET /notifications/schema for their schema."
    return f"The payload spec of {endpoint!r} rejects messages: {pointer or '/'}: {fault} {schema}"


def sample_message(endpoint: str, at: datetime) -> dict[str, Any]:
    """Return the message of a test of an endpoint."""
    group = EventGroup()
    group.add(count_by_subject([Occurrence(event=NotificationEvent.TEST, subject=endpoint, at=at)]))
    body = f"The endpoint {endpoint} works: this message came through it. Nothing has happened."
    return build_message(endpoint, group, "Test of Task Executor", body)


def message_of(rule: str, group: EventGroup) -> dict[str, Any]:
    """Return the message of a group."""
    subjects = group.subjects.most_common(MAX_SUBJECTS)
    lines = [f"{title_of(group)}.", "", *(f"  {count:>7,}  {name}" for name, count in subjects)]
    others = group.count - sum(count for _, count in subjects)
    if others:
        lines.append(f"  {others:>7,}  others")
    lines += ["", f"first: {rfc3339(group.first_at, 'seconds')}", f"last:  {rfc3339(group.last_at, 'seconds')}"]
    if group.examples:
        lines += ["", f"examples: {', '.join(group.examples)}"]
    return build_message(rule, group, title_of(group), "\n".join([*lines, "", f"rule: {rule}"]))


def title_of(group: EventGroup) -> str:
    """Return the counts of the events in one line, the highest severity first."""
    order = sorted(group.counts, key=lambda event: (event is not group.event, -group.counts[event], event))
    words = {event: TRAITS[event].several if group.counts[event] > 1 else TRAITS[event].one for event in order}
    events = ", ".join(f"{group.counts[event]:,} {words[event]}" for event in order)
    names = list(group.subjects)
    return f"{events}: {names[0]}" if len(names) == 1 else events
