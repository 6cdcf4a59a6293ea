"""Page of one instant: changes and failures from five minutes before it to five minutes after it."""

from collections import Counter
from datetime import UTC, datetime, timedelta

from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import query
from app.console.http.page_rendering import now
from app.console.pages.deliveries_page import address_of_deliveries
from app.console.views.counted_time import counted_ends
from app.console.views.event_lines import event_line
from app.features.dead_letters.letter_list import LetterFilter, LetterState, page_of_letters
from app.features.events import store as events_store
from app.features.events.event import EventPosition
from app.features.rollups import rollup_slots
from app.features.rollups.delivery_history import Range, read_history
from app.kernel import audit
from app.kernel.audit import AuditFilter
from app.kernel.db.paging import PageRequest
from app.kernel.errors import NotFoundError
from app.queue.reading.horizon import horizon
from app.web.services import services
from schema.job_bounds import EARLIEST_INSTANT, LATEST_INSTANT

NOW = "now"
AROUND = timedelta(minutes=5)
MAX_EVENTS, MAX_LETTERS, MAX_CHANGES = 200, 200, 100
GROUPS = ("breaker", "worker", "workflow", "catalogue")

page = ConsolePage("at", "/at/<instant>", "One instant", reads="GET /events", under="activity", has_request=False)


@page.show
def show(instant: str) -> Values:
    at = _at(instant)
    steps = [(words, at + step) for words, step in _STEPS if at + step <= now() + AROUND]
    return {"title": f"{at:%Y-%m-%d %H:%M:%S} UTC", "at": at, "steps": steps, "around": AROUND}


@page.region("events")
def events(instant: str) -> Values:
    """Read the events that are no deliveries: breakers, workers, workflows and the catalogue."""
    database, at = services().database, _at(instant)
    until = min(horizon(database), at + AROUND)
    read = events_store.read(database, EventPosition(at - AROUND), until, GROUPS, limit=MAX_EVENTS)
    return {"lines": [event_line(event) for event in read.events], "is_complete": read.is_end}


@page.region("rates", reads="GET /stats/history")
def rates(instant: str) -> Values:
    """Read the deliveries, the backlog and the workers by the minute; gaps where nobody counted."""
    at, database = _at(instant), services().database
    history = read_history(database, Range.of(at - AROUND, at + AROUND, 0, now()), rollup_slots.marks(database))
    step = timedelta(seconds=history.range.step_s)
    points = [point for point in history.points if point.counts is not None or point.gauges is not None]
    ends = counted_ends(points, step)
    return {"points": points, "ends": ends, "at": at, "step": step, "list_of": address_of_deliveries}


@page.region("failures", reads="GET /dead-letters")
def failures(instant: str) -> Values:
    """Count the executions that failed for good, by endpoint and error."""
    at, found = _at(instant), Counter[tuple[str, str]]()
    pages = [
        page_of_letters(
            services().database,
            LetterFilter(state=state, failed_after=at - AROUND, failed_before=at + AROUND),
            PageRequest(MAX_LETTERS),
        )
        for state in LetterState
    ]
    for letter in (letter for each in pages for letter in each.items):
        found[letter.endpoint, letter.error_type or ""] += 1
    span = (at - AROUND, at + AROUND)
    return {"failures": found.most_common(), "is_complete": all(each.next is None for each in pages), "span": span}


@page.region("changes", reads="GET /audit")
def changes(instant: str) -> Values:
    at = _at(instant)
    wanted = AuditFilter(after=at - AROUND, before=at + AROUND)
    return {"entries": audit.page(services().database, wanted, PageRequest(MAX_CHANGES)).items}


_STEPS = tuple(
    (f"{'-' if minutes < 0 else '+'}{abs(minutes)} min", timedelta(minutes=minutes)) for minutes in (-60, -10, 10, 60)
)


def _at(instant: str) -> datetime:
    """Return the instant of the form on the page, else of the address; raises NotFoundError."""
    asked = query().instant("instant")
    try:
        at = asked or (now() if instant == NOW else datetime.fromisoformat(instant))
        at = (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise NotFoundError("Give a date and a time, such as /console/at/2026-03-15T12:03:17Z.") from None
    if not EARLIEST_INSTANT <= at < LATEST_INSTANT:
        raise NotFoundError(f"Give a time between {EARLIEST_INSTANT.year} and {LATEST_INSTANT.year}.")
    return at
