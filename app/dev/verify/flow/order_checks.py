"""Checks of order and progress: pure functions from the evidence to its breaches."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from operator import attrgetter

from app.dev.verify.evidence import Evidence, ExecutionRow
from schema.states import BreakerState, ExecutionStatus

SILENCE = timedelta(seconds=5)
"""No endpoint with something due is left alone for longer."""
NOTICED = timedelta(seconds=1)
"""By then every process knows what is due, and has sent what it claimed."""
LOW_SHARE, A_CLAIM = 0.2, 4
"""What may go to lower priorities while higher ones wait: a share, and what was claimed at once."""


@dataclass(frozen=True, slots=True)
class _Start:
    """A first attempt: of what, since when it was due, and when it started."""

    execution: ExecutionRow
    at: datetime

    @property
    def due(self) -> datetime:
        return self.execution.scheduled_at


def higher_priorities_first(evidence: Evidence) -> Iterator[str]:
    """Find endpoints of which too much started while something of a higher priority had been due for long."""
    for endpoint, starts in _by_endpoint(evidence).items():
        contended, inverted = _inversions(evidence, starts)
        if inverted > A_CLAIM + LOW_SHARE * contended:
            yield f"{endpoint}: {inverted} of {contended} starts passed over a higher priority"


def due_first(evidence: Evidence) -> Iterator[str]:
    """Find partitions in which something started before what had been due for longer."""
    partitions = defaultdict[tuple[str, int, str, int], list[_Start]](list)
    for endpoint, starts in _by_endpoint(evidence).items():
        for start in starts:
            of = start.execution
            partitions[endpoint, of.shard, of.limit_key, of.priority].append(start)
    for partition, starts in partitions.items():
        waited: _Start | None = None
        for start in sorted(starts, key=attrgetter("at"), reverse=True):
            # Of all that started later than this one: what was due first.
            if waited and waited.due + NOTICED < start.due and start.at + NOTICED < waited.at:
                yield f"{waited.execution.execution_id}: {start.execution.execution_id} passed it in {partition}"
                break
            is_judged = not evidence.flow.is_disturbed(start.due, start.at)
            waited = start if is_judged and (waited is None or start.due < waited.due) else waited


def no_endpoint_without_progress(evidence: Evidence) -> Iterator[str]:
    """Find times in which something of an endpoint was due and nothing of it started."""
    endpoints = {execution.execution_id: execution.endpoint for execution in evidence.executions}
    started = defaultdict[str, list[datetime]](list)
    for attempt in evidence.attempts:
        if attempt.started_at and attempt.execution_id in endpoints:
            started[endpoints[attempt.execution_id]].append(attempt.started_at)
    for endpoint, starts in _by_endpoint(evidence).items():
        instants = sorted(started[endpoint])
        for since, until in _silences(sorted(starts, key=attrgetter("at")), instants):
            if not (evidence.flow.is_disturbed(since, until) or _was_shut(evidence, endpoint, since, until)):
                seconds = (until - since).total_seconds()
                yield f"{endpoint}: nothing started for {seconds:.1f} s from {since}, although something was due"


def _by_endpoint(evidence: Evidence) -> dict[str, list[_Start]]:
    """Return the first attempts; not of what was handed back unsent, or paused: others may pass it then."""
    first = {a.execution_id: a.started_at for a in evidence.attempts if a.number == 1 and a.started_at}
    released = {
        change.execution_id
        for change in evidence.transitions or ()
        if change.before is ExecutionStatus.RUNNING and change.attempt_after < change.attempt_before
    }
    paused = {job.job_id for job in evidence.accepted if job.is_stormed}
    grouped: dict[str, list[_Start]] = {}
    for execution in evidence.executions:
        at = first.get(execution.execution_id)
        if at is not None and execution.execution_id not in released and execution.job_id not in paused:
            grouped.setdefault(execution.endpoint, []).append(_Start(execution, at))
    return grouped


def _inversions(evidence: Evidence, starts: Sequence[_Start]) -> tuple[int, int]:
    """Count the starts while one of more than the lowest priority waited for long, and those of a lower one than that.

    What has different limit keys has no order.
    """
    waits = defaultdict[tuple[str, int], list[tuple[datetime, datetime]]](list)
    lowest: dict[str, int] = {}
    for start in starts:
        key, priority = start.execution.limit_key, start.execution.priority
        lowest[key] = min(priority, lowest.get(key, priority))
        if start.due + NOTICED < start.at and not evidence.flow.is_disturbed(start.due, start.at):
            waits[key, priority].append((start.due + NOTICED, start.at))
    contended = inverted = 0
    for start in starts:
        key = start.execution.limit_key
        waiting = [
            priority
            for (of_key, priority), spans in waits.items()
            if of_key == key and priority > lowest[key] and any(since <= start.at <= until for since, until in spans)
        ]
        contended += bool(waiting)
        inverted += any(priority > start.execution.priority for priority in waiting)
    return contended, inverted


def _silences(starts: Sequence[_Start], instants: Sequence[datetime]) -> Iterator[tuple[datetime, datetime]]:
    """Yield the times longer than SILENCE between two starts in which something was due; `starts` are in order."""
    if not starts:
        return
    earliest, due_from = starts[-1].due, dict[datetime, datetime]()
    for start in reversed(starts):
        earliest = min(earliest, start.due)
        due_from[start.at] = earliest  # of all that started then or later
    waiting = sorted(due_from.items())
    place = 0
    for before, after in pairwise([min(due for _at, due in waiting), *instants]):
        while place < len(waiting) and waiting[place][0] < after:
            place += 1
        if place == len(waiting):
            return
        since = max(before, waiting[place][1])
        if after - since > SILENCE:
            yield since, after


def _was_shut(evidence: Evidence, endpoint: str, since: datetime, until: datetime) -> bool:
    """Return whether the breaker of the endpoint's own target was not closed for all of a time."""
    return any(
        change.after is not BreakerState.CLOSED and span.meets(since, until)
        for target, of in evidence.flow.breakers.items()
        if of == endpoint
        for change, span in evidence.flow.states_of(target)
    )
