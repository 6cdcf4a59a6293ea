"""Events in words, with the address of their subject. Pure."""

from datetime import datetime
from typing import NamedTuple

from app.console.views.places import place_of
from app.console.views.words import duration
from app.features.events.event import Event

MAX_DETAILS = 4
_TONES = {
    "failed": "bad",
    "lost": "bad",
    "open": "bad",
    "compensation_failed": "bad",
    "succeeded": "good",
    "recovered": "good",
    "closed": "good",
    "resumed": "good",
    "compensated": "good",
    "cancelled": "warn",
    "paused": "warn",
    "half_open": "warn",
    "stopping": "warn",
    "compensating": "warn",
}
_DONE = {
    "create": "created",
    "replace": "changed",
    "delete": "deleted",
    "flow": "limits, queue or pause changed",
    "drain": "drain requested",
}
_CODES = frozenset({"error", "from", "to", "reason", "trigger"})  # details with a code, which is shown in words
_HIDDEN = frozenset({"node", "item", "run", "resource_type", "worker_id", "action"})


class EventLine(NamedTuple):
    """An event; `what` is its kind in words, `of` its subject, with its address or an empty one."""

    id: str
    at: datetime
    kind: str
    what: str
    tone: str
    of: str
    place: str
    endpoint: str
    details: str


def event_line(event: Event) -> EventLine:
    """Return the line of an event."""
    group, _, change = event.kind.value.partition(".")
    kind, name = _subject(event, group)
    return EventLine(
        id=str(event.position),
        at=event.at,
        kind=event.kind.value,
        what=_what(event, group, change).replace("_", " "),
        tone=_TONES.get(change, "wait"),
        of=name,
        place=place_of(kind, name) if name else "",
        endpoint=event.endpoint or "",
        details=_details(event),
    )


def _what(event: Event, group: str, change: str) -> str:
    if group != "catalogue":
        return f"{group} {change}"
    action = str(event.details.get("action", "changed"))
    return f"{event.details.get('resource_type', 'definition')} {_DONE.get(action, action)}"


def _subject(event: Event, group: str) -> tuple[str, str]:
    """Return the kind and the id of the thing that changed."""
    if group == "catalogue":
        return str(event.details.get("resource_type", "")), event.subject or ""
    if group in {"worker", "breaker"}:
        return group, event.subject or ""
    if group == "workflow":
        return group, event.workflow_id or ""
    if event.execution_id is not None:
        return "execution", event.execution_id
    return "job", event.job_id or ""


def _details(event: Event) -> str:
    named = [event.subject] if event.kind.group == "workflow" and event.subject else []
    shown = named + [
        _detail(name, value)
        for name, value in event.details.items()
        if name not in _HIDDEN and isinstance(value, str | int | float) and not isinstance(value, bool)
    ]
    return ", ".join(shown[:MAX_DETAILS])


def _detail(name: str, value: str | float) -> str:
    if name == "duration_ms" and not isinstance(value, str):
        return f"took {duration(value)}"
    text = str(value).replace("_", " ").lower() if name in _CODES else str(value)
    return f"{name.replace('_', ' ')} {text}"
