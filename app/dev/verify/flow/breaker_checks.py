"""Check of breakers: a pure function from the evidence to its breaches."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from app.dev.verify.evidence import AttemptRow, Evidence
from app.dev.verify.flow.flow_evidence import BreakerChange, Span
from schema.states import BreakerState

LEARNT = timedelta(seconds=1)
"""By then every process that reaches the database knows that a breaker has opened."""
CUT_OFF = timedelta(seconds=5)
"""By then one that does not has lost its lease, and sends nothing."""
START_ERROR = timedelta(seconds=0.5)
"""Attempts start by the clock of their claim, which errs early: a probe may seem to start before its grant."""

_S = BreakerState
_LEGAL = {
    (_S.CLOSED, _S.OPEN),
    (_S.OPEN, _S.OPEN),  # a longer Retry-After
    (_S.OPEN, _S.HALF_OPEN),
    (_S.OPEN, _S.CLOSED),  # by hand
    (_S.HALF_OPEN, _S.HALF_OPEN),  # the prober died, and another one took over
    (_S.HALF_OPEN, _S.OPEN),
    (_S.HALF_OPEN, _S.CLOSED),
}


def breakers_hold(evidence: Evidence) -> Iterator[str]:
    """Find changes of breakers that do not follow each other, starts while one is open, and second probes."""
    endpoints = {execution.execution_id: execution.endpoint for execution in evidence.executions}
    for target in sorted({change.target for change in evidence.flow.breaker_changes}):
        endpoint = evidence.flow.breakers.get(target)
        attempts = [attempt for attempt in evidence.attempts if endpoints.get(attempt.execution_id) == endpoint]
        state = BreakerState.CLOSED
        for change, span in evidence.flow.states_of(target):
            yield from _step(change, state)
            is_disturbed = evidence.flow.is_disturbed(span.since, span.since + LEARNT)
            yield from _starts(change, span, attempts, CUT_OFF if is_disturbed else LEARNT)
            state = change.after


def _step(change: BreakerChange, state: BreakerState) -> Iterator[str]:
    step = f"{change.target}: {change.before} -> {change.after} at {change.at}"
    if change.before is not state:
        yield f"{step} does not follow {state}"
    elif (change.before, change.after) not in _LEGAL:
        yield f"{step} is not legal"


def _starts(change: BreakerChange, span: Span, attempts: Sequence[AttemptRow], learnt: timedelta) -> Iterator[str]:
    since = span.since + (learnt if change.before is BreakerState.CLOSED else timedelta(0))
    until = span.until
    if change.after is BreakerState.OPEN:
        until -= START_ERROR
    elif change.after is BreakerState.HALF_OPEN:
        since -= START_ERROR
    started = [attempt for attempt in attempts if attempt.started_at and since < attempt.started_at < until]
    if change.after is BreakerState.OPEN and started:
        yield f"{change.target}: {_shown(started)} started while it was open, from {span.since} to {span.until}"
    if change.after is BreakerState.HALF_OPEN and len(started) > 1:
        yield f"{change.target}: {_shown(started)} started half open, from {span.since} to {span.until}"


def _shown(attempts: Sequence[AttemptRow]) -> str:
    return ", ".join(
        f"{attempt.execution_id} ({attempt.number}, at {attempt.started_at} by {attempt.worker_id})"
        for attempt in attempts[:3]
    )
