"""Events on the wire: as JSON, and as Server-Sent Events."""

from typing import Any

from app.features.events.event import Event
from app.features.events.event_cursor import EventPosition
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
    # The JSON contains no line feed, so it fits into one line of the stream.
    return f"id: {event.event_id}\nevent: {event.kind}\ndata: {compact_json(shape_event(event))}\n\n".encode()


def beginning(place: EventPosition) -> bytes:
    """Write the start of a stream, with an id: a client that loses the connection early continues from there."""
    return f"retry: {RETRY_MS}\nid: {place}\n\n".encode()


def heartbeat(place: EventPosition) -> bytes:
    """Write a heartbeat of a stream with its position; clients see no event in it."""
    return f"id: {place}\n\n".encode()
