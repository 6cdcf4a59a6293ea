"""Activity: the latest events, and for administrators the audit log."""

import math
from collections.abc import Collection
from datetime import datetime, timedelta
from functools import partial

from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import given_values, query
from app.console.http.list_export import exports
from app.console.http.list_pages import shown_page
from app.console.views.event_lines import event_line
from app.features.events import store as events_store
from app.features.events.event import GROUPS, Event, EventFilter, EventKind, EventPosition
from app.features.events.store import PAGE
from app.kernel import audit
from app.kernel.audit import AuditAction, AuditFilter, ResourceType
from app.queue.reading.horizon import horizon
from app.web.services import services

MAX_SHOWN = 100
AUDIT_FILTERS = ("type", "action", "actor", "resource")
MAX_PAGES = 4  # full pages of events that are read, for all windows together
WINDOWS = tuple(timedelta(seconds=seconds) for seconds in (0.02, 0.2, 2, 20, 200, 2_000, 20_000, 200_000))
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

    Windows grow until one has enough events; each reads only the time before the last one. Where the rate of the last
    one promises few events, one statement reads several windows, unless there are more events after all.
    """
    found, covered, pages, rate = list[Event](), timedelta(0), MAX_PAGES, math.inf
    windows, until = [*WINDOWS], horizon(services().database)
    while windows:
        quiet = [each for each in windows[1:] if rate * (each - covered).total_seconds() <= PAGE]
        window, read = windows[0], None
        if quiet:
            window = quiet[-1]
            read = _all_between(until - window, until - covered, wanted.groups, without, min(1, pages))
        if read is None:
            window = windows[0]
            read = _all_between(until - window, until - covered, wanted.groups, without, pages)
        if read is None:
            return found[::-1][:MAX_SHOWN], covered, False
        events, count = read
        found = [*filter(wanted.wants, events), *found]
        rate = (count + 1) / (window - covered).total_seconds()
        covered, pages, windows = window, pages - count // PAGE, [each for each in windows if each > window]
        if len(found) >= MAX_SHOWN:
            break
    return found[::-1][:MAX_SHOWN], covered, True


def _all_between(
    since: datetime, until: datetime, groups: Collection[str], without: Collection[EventKind], pages: int
) -> tuple[list[Event], int] | None:
    """Read the events of a time, and their number with those of the kinds in `without`.

    None if they fill more pages: the pages that were read lack the newest events.
    """
    found, count, after = list[Event](), 0, EventPosition(since)
    for _ in range(pages):
        read = events_store.read(services().database, after, until, groups, without=without)
        found, count, after = found + read.events, count + read.count, read.up_to
        if read.is_end:
            return found, count
    return None


@audit_page.region("entries", live="audit")
def entries() -> Values:
    """Read a page of the audit log that matches the address."""
    shown = {name: query().text(name) for name in AUDIT_FILTERS}
    return {
        "found": shown_page(partial(audit.page, services().database, audit_filter()), shown),
        "exports": exports("audit", given_values(AUDIT_FILTERS)),
        "types": [each.value for each in ResourceType],
        "actions": [each.value for each in AuditAction],
        **shown,
    }


def audit_filter() -> AuditFilter:
    """Return the filter of the address; raises InvalidRequestError."""
    asked = query()
    type_ = asked.choice("type", [each.value for each in ResourceType])
    did = asked.choice("action", [each.value for each in AuditAction])
    return AuditFilter(
        actor=asked.text("actor") or None,
        action=AuditAction(did) if did else None,
        resource_type=ResourceType(type_) if type_ else None,
        resource=asked.text("resource") or None,
    )
