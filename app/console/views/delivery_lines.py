"""Deliveries in words: the outcome of an attempt, and what followed. Pure."""

from datetime import datetime
from typing import NamedTuple

from app.features.events.event import Event, EventKind

_OUTCOMES = {
    EventKind.EXECUTION_SUCCEEDED: ("delivered", "good"),
    EventKind.ATTEMPT_FAILED: ("failed, to be tried again", "warn"),
    EventKind.EXECUTION_FAILED: ("failed for good", "bad"),
    EventKind.EXECUTION_CANCELLED: ("cancelled", "off"),
}


class DeliveryLine(NamedTuple):
    """An attempt that has ended."""

    id: str
    at: datetime
    outcome: str
    tone: str
    execution_id: str
    endpoint: str
    attempt: int
    took_ms: int | None
    error: str
    worker_id: str


def delivery_line(event: Event) -> DeliveryLine:
    """Return the line of the event of an attempt."""
    outcome, tone = _OUTCOMES[event.kind]
    return DeliveryLine(
        id=str(event.position),
        at=event.at,
        outcome=outcome,
        tone=tone,
        execution_id=event.execution_id or "",
        endpoint=event.endpoint or "",
        attempt=event.details["attempt"],
        took_ms=event.details.get("duration_ms"),
        error=event.details.get("error") or "",
        worker_id=event.details.get("worker_id") or "",
    )
