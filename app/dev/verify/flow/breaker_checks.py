"""Check of circuit breakers: a pure function from the evidence to its breaches."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from app.dev.verify.evidence import LOST_TYPES, AttemptRow, BreakerChange, Evidence, Span
from schema.states import BreakerState

_KNOWN_AFTER = timedelta(seconds=1)
"""Maximum delay until every process with a database connection has read that a breaker opened."""
_CUT_OFF_AFTER = timedelta(seconds=5)
"""Maximum delay until a process without a database connection has lost its lease and stopped sending."""
_START_ERROR = timedelta(seconds=0.5)
"""Recorded starts of attempts may be early: a probe may appear to start before it was granted."""

_S = BreakerState
_LEGAL = {
    (_S.CLOSED, _S.OPEN),
    (_S.OPEN, _S.OPEN),  # a longer Retry-After
    (_S.OPEN, _S.HALF_OPEN),
    (_S.OPEN, _S.CLOSED),  # manually
    (_S.HALF_OPEN, _S.HALF_OPEN),  # the probing worker died and another worker took over
    (_S.HALF_OPEN, _S.OPEN),
    (_S.HALF_OPEN, _S.CLOSED),
}


def breakers_hold(evidence: Evidence) -> Iterator[str]:
    """Find illegal changes of breakers, starts while a breaker is open, and second probes."""
    endpoints = {execution.execution_id: execution.endpoint for execution in evidence.executions}
    arrived = {(arrival.execution_id, arrival.attempt) for arrival in evidence.arrivals}
    # The record of a lost attempt has the time of its claim, although the worker may never have sent it.
    sent = [
        attempt
        for attempt in evidence.attempts
        if attempt.error_type not in LOST_TYPES or (attempt.execution_id, attempt.number) in arrived
    ]
    for target in sorted({change.target for change in evidence.breaker_changes}):
        endpoint = evidence.breakers.get(target)
        attempts = [attempt for attempt in sent if endpoints.get(attempt.execution_id) == endpoint]
        state, states = _S.CLOSED, list(evidence.states_of(target))
        known_at = datetime.min.replace(tzinfo=UTC)
        following = [change.after for change, _ in states[1:]] + [None]
        for (change, span), then in zip(states, following, strict=True):
            step = f"{target}: {change.before} -> {change.after} at {change.at}"
            if change.before is not state:
                yield f"{step} does not follow {state}"
            elif (change.before, change.after) not in _LEGAL:
                yield f"{step} is not legal"
            state = change.after
            if change.before is _S.CLOSED:
                is_disturbed = evidence.is_disturbed(span.since, span.since + _KNOWN_AFTER)
                known_at = span.since + (_CUT_OFF_AFTER if is_disturbed else _KNOWN_AFTER)
            # A start in the next state, also that of the next probe, may be recorded within this state.
            ends_early = change.after is _S.OPEN or then in {_S.CLOSED, _S.HALF_OPEN}
            until = span.until - (_START_ERROR if ends_early else timedelta(0))
            since = span.since - (_START_ERROR if change.after is _S.HALF_OPEN else timedelta(0))
            yield from _starts(change, Span(max(since, known_at), until), attempts)


def _starts(change: BreakerChange, span: Span, attempts: list[AttemptRow]) -> Iterator[str]:
    """Find more starts in a span than the state after a change allows: none while open, one while half open."""
    allowed = {_S.OPEN: 0, _S.HALF_OPEN: 1}.get(change.after)
    started = [attempt for attempt in attempts if attempt.started_at and span.since < attempt.started_at < span.until]
    if allowed is not None and len(started) > allowed:
        shown = ", ".join(
            f"{attempt.execution_id} ({attempt.number}, at {attempt.started_at} by {attempt.worker_id})"
            for attempt in started[:3]
        )
        yield f"{change.target}: {shown} started while {change.after}, from {span.since} to {span.until}"
