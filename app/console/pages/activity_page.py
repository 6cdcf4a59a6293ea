"""Activity: the latest events, and for administrators the audit log."""

from collections.abc import Collection
from datetime import datetime, timedelta
from functools import partial

from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import query
from app.console.http.list_pages import shown_page
from app.console.views.event_lines import event_line
from app.features.events import store as events_store
from app.features.events.event import GROUPS, Event, EventFilter, EventKind, EventPosition
from app.kernel import audit
from app.kernel.audit import AuditAction, AuditFilter, ResourceType
from app.kernel.db import Database
from app.queue.reading.horizon import horizon
from app.web.services import services

MAX_SHOWN = 100
MAX_PAGES = 4  # of events of one window
WINDOWS = tuple(timedelta(seconds=seconds) for seconds in (2, 20, 200, 2_000, 20_000, 200_000))
_ROUTINE = frozenset({EventKind.EXECUTION_SUCCEEDED, EventKind.JOB_CREATED, EventKind.JOB_ENDED})

page = ConsolePage("activity", "/activity", "Activity", reads="GET /events", nav="Activity", shortcut="a")
audit_page = ConsolePage("audit", "/activity/audit", "Audit log", reads="GET /audit", under="activity")


@page.region("events", live="executions jobs workers breakers workflows catalog")
def events() -> Values:
    """Read the latest events that match the address, newest first."""
    asked = query()
    group = asked.choice("kind", sorted(GROUPS))
    is_all = asked.flag("all") or bool(group)
    endpoint, job_id = asked.text("endpoint"), asked.text("job_id")
    wanted = EventFilter(
        kinds=frozenset({group}) if group else frozenset(), endpoint=endpoint or None, job_id=job_id or None
    )
    found, window, is_complete = latest(wanted, without=frozenset() if is_all else _ROUTINE)
    return {
        "lines": [event_line(event) for event in found],
        "window": window,
        "is_complete": is_complete,
        "kinds": sorted(GROUPS),
        "kind": group,
        "all": asked.flag("all"),
        "endpoint": endpoint,
        "job_id": job_id,
    }


def latest(wanted: EventFilter, without: Collection[EventKind]) -> tuple[list[Event], timedelta, bool]:
    """Return the latest events, the time that they cover, and whether earlier events were few enough to be read.

    The time is the shortest window with enough events.
    """
    database = services().database
    until = horizon(database)
    found, covered = list[Event](), timedelta(0)
    for window in WINDOWS:
        read = _all_behind(database, EventPosition(until - window), until, wanted.groups)
        if read is None:
            return found[::-1][:MAX_SHOWN], covered, False
        found = [event for event in read if wanted.wants(event) and event.kind not in without]
        covered = window
        if len(found) >= MAX_SHOWN:
            break
    return found[::-1][:MAX_SHOWN], covered, True


def _all_behind(
    database: Database, after: EventPosition, until: datetime, groups: Collection[str]
) -> list[Event] | None:
    """Read all events of a window; None if they fill more than MAX_PAGES, whose last ones are not the newest."""
    found = list[Event]()
    for _ in range(MAX_PAGES):
        read = events_store.read(database, after, until, groups)
        found += read.events
        if read.is_end:
            return found
        after = read.up_to
    return None


@audit_page.region("entries", live="audit")
def entries() -> Values:
    """Read a page of the audit log that matches the address."""
    asked = query()
    type_ = asked.choice("type", [each.value for each in ResourceType])
    did = asked.choice("action", [each.value for each in AuditAction])
    actor, resource = asked.text("actor"), asked.text("resource")
    wanted = AuditFilter(
        actor=actor or None,
        action=AuditAction(did) if did else None,
        resource_type=ResourceType(type_) if type_ else None,
        resource=resource or None,
    )
    shown = {"type": type_, "action": did, "actor": actor, "resource": resource}
    return {
        "found": shown_page(partial(audit.page, services().database, wanted), shown),
        "types": [each.value for each in ResourceType],
        "actions": [each.value for each in AuditAction],
        **shown,
    }
