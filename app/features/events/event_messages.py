"""Events on the wire: as JSON, and as Server-Sent Events."""

from typing import Any

from app.features.events.event import Event
from app.features.events.event_cursor import Place
from app.kernel.formats import compact_json, rfc3339

RETRY_MS = 1000


def shape_event(event: Event) -> dict[str, Any]:
    """Write an event, ready for JSON."""
    return {
        "event_id": event.event_id,
        "kind": event.kind.value,
        "at": rfc3339(event.at),
        "endpoint": event.endpoint,
        "job_id": event.job_id,
        "execution_id": event.execution_id,
        "subject": event.subject,
        "details": event.details,
    }


def message(event: Event) -> bytes:
    """Write an event for a stream."""
    # JSON has no line feeds of its own, and what a line of the stream ends with is none inside of it.
    return f"id: {event.event_id}\nevent: {event.kind}\ndata: {compact_json(shape_event(event))}\n\n".encode()


def beginning(place: Place) -> bytes:
    """Write what a stream begins with: a client that is cut off before its first event goes on from there."""
    return f"retry: {RETRY_MS}\nid: {place}\n\n".encode()


def heartbeat(place: Place) -> bytes:
    """Write what shows that a stream is alive, and how far it is; clients see no event in it."""
    return f"id: {place}\n\n".encode()
