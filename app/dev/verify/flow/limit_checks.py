"""Checks of limits: pure functions from the evidence to its breaches."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from app.dev.verify.evidence import LOST_TYPES, AttemptRow, Evidence, ExecutionRow
from app.dev.verify.flow.flow_evidence import StartRate
from schema.states import ExecutionStatus

UNDER_WAY = timedelta(milliseconds=300)
"""By how much later than another a start may become visible at the receiver, or be noted."""

_RUNNING = ExecutionStatus.RUNNING


def never_above_max_in_flight(evidence: Evidence) -> Iterator[str]:
    """Find more running executions, or more open requests, than an endpoint or a key may have."""
    for name, most in sorted(_most_running(evidence).items()):
        yield from _beyond(evidence, name, most, "were RUNNING")
    for name, most in sorted(_most_open(evidence).items()):
        yield from _beyond(evidence, name, most, "requests were open")


def never_above_a_rate(evidence: Evidence) -> Iterator[str]:
    """Find a time in which more attempts started, or more requests arrived, than a rate allows."""
    endpoints = {execution.execution_id: execution.endpoint for execution in evidence.executions}
    lost = _lost(evidence)
    starts: dict[tuple[str, int | None], datetime] = {
        (attempt.execution_id, attempt.number): attempt.started_at
        for attempt in evidence.attempts
        if attempt.started_at and not _is_lost(attempt)
    }
    for endpoint, limit in evidence.flow.limits.items():
        if limit.pace is None:
            continue
        started = [(at, at) for (execution_id, _), at in starts.items() if endpoints.get(execution_id) == endpoint]
        arrived = [
            (arrival.at, min(arrival.at, starts.get((arrival.execution_id, arrival.attempt), arrival.at)))
            for arrival in evidence.arrivals
            if endpoints.get(arrival.execution_id) == endpoint and (arrival.execution_id, arrival.attempt) not in lost
        ]
        for what, instants in (("attempts started", started), ("requests arrived", arrived)):
            yield from (f"{endpoint}, {what}: {excess}" for excess in _excesses(sorted(instants), limit.pace))


Name = tuple[str, str]
"""An endpoint and one of its limit keys; '' stands for all of them."""


def _beyond(evidence: Evidence, name: Name, most: int, what: str) -> Iterator[str]:
    endpoint, key = name
    limit = evidence.flow.limits[endpoint]
    allowed = limit.per_key if key else limit.max_in_flight
    if allowed is not None and most > allowed:
        yield f"{endpoint}{key}: {most} {what} at once, {allowed} are allowed"


def _most_running(evidence: Evidence) -> dict[Name, int]:
    """Count what ran at once.

    Where the database noted each change: by their order. A claim that has counted what runs sees the ends before it, so
    their numbers are smaller than its own.
    """
    limited = _limited(evidence)
    if evidence.transitions is None:
        return _most(
            (attempt.started_at, attempt.ended_at, limited[attempt.execution_id])
            for attempt in evidence.attempts
            if attempt.execution_id in limited and attempt.started_at and attempt.ended_at
        )
    running, most = Counter[Name](), Counter[Name]()
    for change in evidence.transitions:
        if change.execution_id in limited and (change.before is _RUNNING) != (change.after is _RUNNING):
            for name in _names(limited[change.execution_id]):
                running[name] += 1 if change.after is _RUNNING else -1
                most[name] = max(most[name], running[name])
    return most


def _most_open(evidence: Evidence) -> dict[Name, int]:
    """Count the open requests at once, without those of lost workers: they may linger after the end of their claim."""
    limited, lost = _limited(evidence), _lost(evidence)
    return _most(
        (arrival.at, arrival.ended, limited[arrival.execution_id])
        for arrival in evidence.arrivals
        if arrival.execution_id in limited and arrival.ended and (arrival.execution_id, arrival.attempt) not in lost
    )


def _most(spans: Iterator[tuple[datetime, datetime, ExecutionRow]]) -> dict[Name, int]:
    """Sweep over beginnings and ends; at one instant the ends come first."""
    edges = [
        (instant, by, name)
        for since, until, execution in spans
        for name in _names(execution)
        for instant, by in ((since, 1), (until, -1))
    ]
    now, most = Counter[Name](), Counter[Name]()
    for _instant, by, name in sorted(edges):
        now[name] += by
        most[name] = max(most[name], now[name])
    return most


def _names(execution: ExecutionRow) -> list[Name]:
    all_of_it = (execution.endpoint, "")
    return [all_of_it, (execution.endpoint, execution.limit_key)] if execution.limit_key else [all_of_it]


def _limited(evidence: Evidence) -> dict[str, ExecutionRow]:
    limits = evidence.flow.limits
    return {execution.execution_id: execution for execution in evidence.executions if execution.endpoint in limits}


def _lost(evidence: Evidence) -> set[tuple[str, int | None]]:
    return {(attempt.execution_id, attempt.number) for attempt in evidence.attempts if _is_lost(attempt)}


def _is_lost(attempt: AttemptRow) -> bool:
    return attempt.error_type in LOST_TYPES


Instant = tuple[datetime, datetime]
"""When something came, and when it was sent at the latest: a busy machine may be long in passing it on.

A start is recorded when it has a connection, so the time that it waited for one is no excuse."""


def _excesses(instants: Sequence[Instant], pace: StartRate) -> Iterator[str]:
    """Yield the first time that holds more than its pace allows."""
    if pace.burst:
        yield from _above_a_bucket([at for at, _ in instants], pace)
        return
    width = pace.per - UNDER_WAY
    for first, (last, _) in enumerate(instants[pace.count :]):
        took = last - min(sent for _, sent in instants[first : first + pace.count + 1])
        if took < width:
            yield f"{pace.count + 1} within {took.total_seconds():.2f} s, {pace.count} are allowed"
            return


def _above_a_bucket(instants: Sequence[datetime], pace: StartRate) -> Iterator[str]:
    """Compare each start with the one before it from which on the most came above the pace."""
    if not instants:
        return
    rate = pace.count / pace.per.total_seconds()
    allowed = pace.burst + rate * UNDER_WAY.total_seconds()
    lowest, began = 0.0, 0
    for number, instant in enumerate(instants):
        above = number - rate * (instant - instants[0]).total_seconds()
        if above < lowest:
            lowest, began = above, number
        if above - lowest + 1 > allowed:
            seconds = (instant - instants[began]).total_seconds()
            yield f"{number - began + 1} within {seconds:.2f} s, {rate:g} a second and {pace.burst} more are allowed"
            return
