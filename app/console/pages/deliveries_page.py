"""Deliveries of a time: the attempts that bars and charts count, in the order in which their results were written."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import query, refuse
from app.console.http.page_rendering import here, now, to
from app.console.pages.periods import FROM, UNTIL
from app.console.views.delivery_lines import delivery_line
from app.features.events import store as events_store
from app.features.events.event import Event, EventFilter, EventPosition
from app.kernel.formats import rfc3339
from app.queue.reading.horizon import horizon_of_attempts
from app.web.services import services

ROWS, MAX_READS = 100, 4  # an endpoint with few of the deliveries may need several reads
USUAL = timedelta(minutes=5)
AFTER = "after"
# The events of this group are those of attempts and of nothing else: the rows that rollups count.
_ATTEMPTS = frozenset({"attempt"})

page = ConsolePage(
    "deliveries", "/deliveries", "Deliveries", reads="GET /events", under="executions", has_request=False
)


def address_of_deliveries(since: datetime, until: datetime, endpoint: str = "") -> str:
    """Return the address of the deliveries from one instant to another, which is not included."""
    named = {"endpoint": endpoint} if endpoint else {}
    return to("deliveries", **{FROM: rfc3339(since), UNTIL: rfc3339(until)}, **named)


@page.show
def show() -> Values:
    (since, until), endpoint = _time(), query().text("endpoint")
    created = {"created_after": rfc3339(since), "created_before": rfc3339(until)}
    return {
        "since": since,
        "until": until,
        "endpoint": endpoint,
        "executions": to("executions", **created, **({"endpoint": endpoint} if endpoint else {})),
    }


@page.region("list", refreshed=False)
def list_() -> Values:
    (since, until), text = _time(), query().text(AFTER)
    start = EventPosition.parse(text) if text else EventPosition(since)
    if start is None:
        refuse(AFTER, "Open this page from the page before.")
    found, following = _read(start, until, query().text("endpoint"))
    return {
        "lines": [delivery_line(event) for event in found],
        "later": here(**{AFTER: str(following)}) if following else "",
        "first": here(**{AFTER: ""}) if text else "",
        "days": services().settings.retention_days,
        "is_pruned": since < now() - timedelta(days=services().settings.retention_days),
    }


def _time() -> tuple[datetime, datetime]:
    """Return the time of the address, without one the last minutes; raises InvalidRequestError."""
    until = query().instant(UNTIL) or now()
    since = query().instant(FROM) or until - USUAL
    if since >= until:
        refuse(FROM, "Must lie before `until`.")
    return since, until


def _read(after: EventPosition, until: datetime, endpoint: str) -> tuple[Sequence[Event], EventPosition | None]:
    """Read a page behind a position, and the position of the next one; None at the end of the time."""
    database, wanted, found = services().database, EventFilter(endpoint=endpoint or None), list[Event]()
    until = min(until, horizon_of_attempts(database).at)  # as rollups count
    for _ in range(MAX_READS):
        read = events_store.read(database, after, until, _ATTEMPTS)
        found += filter(wanted.wants, read.events)
        if len(found) > ROWS:
            return found[:ROWS], found[ROWS - 1].position
        if read.is_end:
            return found, None
        after = read.up_to
    return found, after
