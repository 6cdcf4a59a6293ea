"""Changes in the time of charts: definitions, limits and pauses, breakers, started and lost workers."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from app.console.http.page_rendering import now
from app.console.http.request_values import once_a_request
from app.console.views.event_lines import EventLine, event_line
from app.features.breakers.endpoint_targets import targets_of
from app.features.events import store as events_store
from app.features.events.event import Event, EventKind, EventPosition
from app.features.rollups.delivery_history import ALL, Range
from app.kernel.audit import ResourceType
from app.web.services import services
from schema.states import BreakerState

MAX_READ = 500
PARTS = (1, 12, 144)  # of a time with more changes, only the last of so many parts is read
_GROUPS = frozenset({"breaker", "worker", "catalogue"})
_KINDS = frozenset(
    {
        *(EventKind.BREAKER_OPEN, EventKind.BREAKER_CLOSED, EventKind.CATALOGUE_CHANGED),
        *(EventKind.WORKER_STARTED, EventKind.WORKER_LOST),
    }
)
_WITHOUT_EFFECT = frozenset({ResourceType.NOTIFICATION_RULE, ResourceType.GRANT})  # on deliveries


class Changes(NamedTuple):
    """Changes since an instant, newest first; None if there are too many to name, also in the last part."""

    lines: Sequence[EventLine]
    since: datetime | None


def changes_in(wanted: Range, endpoint: str = ALL) -> Changes:
    """Read the changes in a time; for an endpoint without those of other endpoints and their targets."""
    database = services().database
    until = max(wanted.since, min(wanted.until, now()))  # beyond now, each lease of a worker has expired
    for parts in PARTS:
        since = until - (until - wanted.since) / parts
        read = events_store.read_whole(database, EventPosition(since), until, _GROUPS, most=MAX_READ)
        if read is not None:
            targets = {each["target"] for each in watched_targets(endpoint)} if endpoint != ALL else set()
            lines = [event_line(event) for event in read if _concerns(event, endpoint, targets)]
            return Changes(lines[::-1], since)
    return Changes([], None)


def watched_targets(endpoint: str) -> Sequence[dict[str, Any]]:
    """Read the targets of an endpoint once for all parts of a page."""
    return once_a_request("targets", targets_of, services().database, endpoint)


def _concerns(event: Event, endpoint: str, targets: Collection[str]) -> bool:
    if event.kind is EventKind.BREAKER_OPEN and event.details.get("from") == BreakerState.HALF_OPEN:
        return False  # a failed probe: it was open before
    if event.kind not in _KINDS or event.details.get("resource_type") in _WITHOUT_EFFECT:
        return False
    if endpoint == ALL:
        return True
    if event.kind.group == "breaker":
        return event.subject in targets
    return event.endpoint in {None, endpoint}
