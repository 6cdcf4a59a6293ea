"""Checks of limits: pure functions from the evidence to its breaches."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from operator import itemgetter

from app.dev.verify.evidence import LOST_TYPES, Evidence, ExecutionRow, StartRate
from schema.states import ExecutionStatus

UNDER_WAY = timedelta(milliseconds=300)
"""Maximum difference between the delays of two starts until the receiver gets them or a row records them."""

_Sent = tuple[str, int | None]
"""Id of an execution and number of its attempt."""
_Name = tuple[str, str]
"""An endpoint and a limit key; '' stands for all keys."""
_Instants = tuple[datetime, datetime]
"""Time of a start or an arrival, and its latest possible time of sending: a busy machine may delay the arrival.

A start is recorded after the wait for a connection, so that wait is no excuse."""


def never_above_max_in_flight(evidence: Evidence) -> Iterator[str]:
    """Find more running executions, or more open requests, than an endpoint or a key may have."""
    found = {"were RUNNING": _peaks_of_rows(evidence), "requests were open": _peaks_of_requests(evidence)}
    for what, peaks in found.items():
        for (endpoint, key), peak in sorted(peaks.items()):
            limit = evidence.limits[endpoint]
            allowed = limit.per_key if key else limit.max_in_flight
            if allowed is not None and peak > allowed:
                yield f"{endpoint}{key}: {peak} {what} at once, {allowed} are allowed"


def never_above_a_rate(evidence: Evidence) -> Iterator[str]:
    """Find a period with more starts of attempts, or more arrivals of requests, than a rate allows."""
    lost = _lost(evidence)
    starts: dict[_Sent, datetime] = {
        (attempt.execution_id, attempt.number): attempt.started_at
        for attempt in evidence.attempts
        if attempt.started_at and (attempt.execution_id, attempt.number) not in lost
    }
    for endpoint, limit in evidence.limits.items():
        if limit.pace is None:
            continue
        ids = {execution.execution_id for execution in evidence.executions if execution.endpoint == endpoint}
        started = [(at, at) for (execution_id, _), at in starts.items() if execution_id in ids]
        arrived = [
            (arrival.at, min(arrival.at, starts.get((arrival.execution_id, arrival.attempt), arrival.at)))
            for arrival in evidence.arrivals
            if arrival.execution_id in ids and (arrival.execution_id, arrival.attempt) not in lost
        ]
        judge = _above_bucket if limit.pace.burst else _above_window
        for what, instants in (("attempts started", started), ("requests arrived", arrived)):
            yield from (f"{endpoint}, {what}: {excess}" for excess in judge(sorted(instants), limit.pace))


def _peaks_of_rows(evidence: Evidence) -> Counter[_Name]:
    """Count the executions that were RUNNING at once, in the order of the recorded changes if there are any.

    A claim counts running executions after it has read the ends of others, so these ends have smaller numbers.
    """
    limited = _limited(evidence)
    if evidence.transitions is None:
        return _peaks_of_spans(
            (limited[attempt.execution_id], attempt.started_at, attempt.ended_at)
            for attempt in evidence.attempts
            if attempt.execution_id in limited
        )
    running = ExecutionStatus.RUNNING
    return _peaks(
        (limited[change.execution_id], 1 if change.after is running else -1)
        for change in evidence.transitions
        if change.execution_id in limited and (change.before is running) != (change.after is running)
    )


def _peaks_of_requests(evidence: Evidence) -> Counter[_Name]:
    """Count the requests that were open at once; requests of lost workers may outlive their claims and are ignored."""
    limited, lost = _limited(evidence), _lost(evidence)
    return _peaks_of_spans(
        (limited[arrival.execution_id], arrival.at, arrival.ended)
        for arrival in evidence.arrivals
        if arrival.execution_id in limited and (arrival.execution_id, arrival.attempt) not in lost
    )


def _peaks_of_spans(spans: Iterable[tuple[ExecutionRow, datetime | None, datetime | None]]) -> Counter[_Name]:
    edges = [
        (instant, by, execution)
        for execution, since, until in spans
        if since and until
        for instant, by in ((since, 1), (until, -1))
    ]
    edges.sort(key=itemgetter(0, 1))  # at one instant ends precede beginnings
    return _peaks((execution, by) for _instant, by, execution in edges)


def _peaks(changes: Iterable[tuple[ExecutionRow, int]]) -> Counter[_Name]:
    """Return the maximum of the running sums, by endpoint and by limit key."""
    now, peaks = Counter[_Name](), Counter[_Name]()
    for execution, by in changes:
        for name in {(execution.endpoint, ""), (execution.endpoint, execution.limit_key)}:
            now[name] += by
            peaks[name] = max(peaks[name], now[name])
    return peaks


def _limited(evidence: Evidence) -> dict[str, ExecutionRow]:
    return {row.execution_id: row for row in evidence.executions if row.endpoint in evidence.limits}


def _lost(evidence: Evidence) -> set[_Sent]:
    return {(row.execution_id, row.number) for row in evidence.attempts if row.error_type in LOST_TYPES}


def _above_window(instants: Sequence[_Instants], pace: StartRate) -> Iterator[str]:
    """Yield the first window that contains more than its pace allows."""
    for first, (last, _) in enumerate(instants[pace.count :]):
        took = last - min(sent for _, sent in instants[first : first + pace.count + 1])
        if took < pace.per - UNDER_WAY:
            yield f"{pace.count + 1} within {took.total_seconds():.2f} s, {pace.count} are allowed"
            return


def _above_bucket(instants: Sequence[_Instants], pace: StartRate) -> Iterator[str]:
    """Yield the first period that contains more than its pace and its burst allow, by the times of sending.

    A receiver that stands still reads at once the requests of a longer time.
    For each start the worst period begins at the earlier start with the lowest count above the pace.
    """
    rate = pace.count / pace.per.total_seconds()
    allowed = pace.burst + rate * UNDER_WAY.total_seconds()
    lowest, began, sent = 0.0, 0, sorted(by for _, by in instants)
    for number, instant in enumerate(sent):
        above = number - rate * (instant - sent[0]).total_seconds()
        if above < lowest:
            lowest, began = above, number
        if above - lowest + 1 > allowed:
            seconds = (instant - sent[began]).total_seconds()
            yield f"{number - began + 1} within {seconds:.2f} s, {rate:g} a second and {pace.burst} more are allowed"
            return
