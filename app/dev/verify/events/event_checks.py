"""Checks of the events: pure functions from the evidence to its breaches."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

from app.dev.verify.evidence import Evidence
from app.features.events.event import EventKind, EventPosition
from app.kernel.formats import numbered
from schema.states import AttemptStatus

_JOBS, _ATTEMPTS = "j", "a"  # sources of events


def events_in_order(evidence: Evidence) -> Iterator[str]:
    """Find events that a reconnecting client got twice or out of order."""
    places = [event.event_id for event in evidence.events or ()]
    for before, after in pairwise(places):
        if _order(before) >= _order(after):
            yield f"{after}: came after {before}"


def each_change_is_an_event(evidence: Evidence) -> Iterator[str]:
    """Find jobs and attempts without exactly one event, and successes that were reported as failures or not at all."""
    if evidence.events is None:
        return
    found = {_JOBS: Counter[str](), _ATTEMPTS: Counter[str]()}
    for event in evidence.events:
        source = event.event_id.split("-")[1]
        if source in found:
            found[source][event.subject] += 1
    attempts = Counter(attempt.execution_id for attempt in evidence.attempts)
    for name in sorted(evidence.jobs | attempts.keys()):
        happened = 1 if name in evidence.jobs else attempts[name]
        reported = found[_JOBS if name in evidence.jobs else _ATTEMPTS][name]
        if reported != happened:
            yield f"{name}: {numbered(reported, 'event')} of {numbered(happened, 'change')}"
    successes = Counter(row.execution_id for row in evidence.attempts if row.status is AttemptStatus.SUCCESS)
    reports = Counter(event.subject for event in evidence.events if event.kind == EventKind.EXECUTION_SUCCEEDED)
    for name in sorted(attempts):
        if reports[name] != successes[name]:
            yield f"{name}: {numbered(reports[name], 'event')} of {numbered(successes[name], 'success')}"


def _order(event_id: str) -> tuple[datetime, str, str]:
    place = EventPosition.parse(event_id)
    if place is None:
        raise ValueError(f"{event_id!r} is no id of an event")
    return place.at, place.source, place.key
