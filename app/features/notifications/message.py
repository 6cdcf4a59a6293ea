"""Message: the input of the jobs that notify people, and what a payload spec of a channel has to accept. Pure."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from app.kernel.formats import rfc3339
from schema.states import NotificationEvent, Severity

MOST_SUBJECTS, MOST_EXAMPLES = 10, 5
MOST_TITLE, MOST_BODY = 250, 4_000  # characters; services that people read in take no more, or cut it themselves
_CUT = "…"

_TEXT, _COUNT = {"type": "string"}, {"type": "integer", "minimum": 0}


def _described(description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {**schema, "description": description}


_INSTANT = {"type": "string", "format": "date-time"}
_SUBJECT = {"type": "object", "properties": {"name": _TEXT, "count": _COUNT}, "required": ["name", "count"]}
_PROPERTIES: dict[str, Any] = {
    "rule": _described("the rule that it comes from; of a test, the endpoint", _TEXT),
    "event": {"type": "string", "enum": [event.value for event in NotificationEvent]},
    "severity": {"type": "string", "enum": [severity.value for severity in Severity]},
    "title": _described("one line", {**_TEXT, "maxLength": MOST_TITLE}),
    "body": _described("plain text", {**_TEXT, "maxLength": MOST_BODY}),
    "count": _described("how many events it tells of", _COUNT),
    "first_at": _INSTANT,
    "last_at": _INSTANT,
    "subjects": _described(
        "what they happened to, the most frequent first",
        {"type": "array", "items": _SUBJECT, "maxItems": MOST_SUBJECTS},
    ),
    "examples": _described("ids to look up", {"type": "array", "items": _TEXT, "maxItems": MOST_EXAMPLES}),
}
MESSAGE_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Message",
    "description": "What a notification tells.",
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
    """Return the document of a message, of which MESSAGE_SCHEMA holds.

    Subjects are names with how many events each had. They come out by that, and no more than MOST_SUBJECTS of them; of
    the examples the first ones are kept, and longer texts are cut. Instants need a time zone.
    """
    ordered = sorted(subjects, key=lambda subject: (-subject[1], subject[0]))[:MOST_SUBJECTS]
    return {
        "rule": rule,
        "event": event.value,
        "severity": severity.value,
        "title": _cut(" ".join(title.split()), MOST_TITLE),
        "body": _cut(body, MOST_BODY),
        "count": count,
        "first_at": rfc3339(first_at.astimezone(UTC)),
        "last_at": rfc3339(last_at.astimezone(UTC)),
        "subjects": [{"name": name, "count": number} for name, number in ordered],
        "examples": list(examples)[:MOST_EXAMPLES],
    }


def sample_message(endpoint: str, at: datetime) -> dict[str, Any]:
    """Return the message that tries out an endpoint."""
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
