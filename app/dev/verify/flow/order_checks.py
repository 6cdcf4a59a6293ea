"""Checks of order and progress: pure functions from the evidence to its breaches."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from app.dev.verify.evidence import Evidence, ExecutionRow, grouped
from app.kernel.formats import numbered
from schema.states import BreakerState, ExecutionStatus

SILENCE = timedelta(seconds=5)
"""Maximum time without a start for an endpoint with due executions."""
NOTICED = timedelta(seconds=1)
"""Maximum delay until every process has noticed a due execution and has sent its earlier claims."""
LOW_SHARE, A_CLAIM = 0.2, 4
"""Starts that lower priorities may have while higher priorities wait: a share, and the size of one claim."""


class _Start(NamedTuple):
    """First attempt of an execution."""

    execution: ExecutionRow
    at: datetime
    due: datetime


def higher_priorities_first(evidence: Evidence) -> Iterator[str]:
    """Find endpoints with too many starts while a higher priority was overdue."""
    for endpoint, starts in grouped(_starts(evidence), "execution.endpoint").items():
        contended, inverted = _inversions(evidence, starts)
        if inverted > A_CLAIM + LOW_SHARE * contended:
            yield f"{endpoint}: {inverted} of {numbered(contended, 'start')} passed over a higher priority"


def due_first(evidence: Evidence) -> Iterator[str]:
    """Find partitions with an execution that started before another execution with an earlier due time."""
    keys = ("endpoint", "shard", "limit_key", "priority")
    for partition, starts in grouped(_starts(evidence), *(f"execution.{key}" for key in keys)).items():
        waited: _Start | None = None  # the earliest due of all later starts
        for start in sorted(starts, key=attrgetter("at"), reverse=True):
            if waited and waited.due + NOTICED < start.due and start.at + NOTICED < waited.at:
                yield f"{waited.execution.execution_id}: {start.execution.execution_id} passed it in {partition}"
                break
            is_judged = not evidence.is_disturbed(start.due, start.at)
            waited = start if is_judged and (waited is None or start.due < waited.due) else waited


def no_endpoint_without_progress(evidence: Evidence) -> Iterator[str]:
    """Find periods without a start of an endpoint that had due executions."""
    endpoints = {execution.execution_id: execution.endpoint for execution in evidence.executions}
    started = defaultdict[str, list[datetime]](list)
    for attempt in evidence.attempts:
        if attempt.started_at and attempt.execution_id in endpoints:
            started[endpoints[attempt.execution_id]].append(attempt.started_at)
    for endpoint, starts in grouped(_starts(evidence), "execution.endpoint").items():
        for since, until in _silences(sorted(starts, key=attrgetter("at")), sorted(started[endpoint])):
            is_excused = _has_open_breaker(evidence, endpoint, since, until) or any(
                pause.overlaps(since, until) for pause in evidence.queue_pauses.get(endpoint, ())
            )
            if not (is_excused or evidence.is_disturbed(since, until)):
                seconds = (until - since).total_seconds()
                yield f"{endpoint}: nothing started for {seconds:.1f} s from {since}, although something was due"


def _starts(evidence: Evidence) -> Iterator[_Start]:
    """Yield the first attempts, except those of released executions and of paused jobs, which lose their place."""
    first = {a.execution_id: a.started_at for a in evidence.attempts if a.number == 1 and a.started_at}
    released = {
        change.execution_id
        for change in evidence.transitions or ()
        if change.before is ExecutionStatus.RUNNING and change.attempt_after < change.attempt_before
    }
    paused = {job.job_id for job in evidence.accepted if job.is_stormed}
    visible = {job.job_id: job.visible_at for job in evidence.accepted if job.visible_at}
    for row in evidence.executions:
        if row.execution_id in first and row.execution_id not in released and row.job_id not in paused:
            due = max(row.scheduled_at, visible.get(row.job_id, row.scheduled_at))
            yield _Start(row, first[row.execution_id], due)


def _inversions(evidence: Evidence, starts: Sequence[_Start]) -> tuple[int, int]:
    """Count the starts while a priority above the lowest was overdue, and among them the starts of lower priorities.

    Executions with different limit keys have no order.
    """
    waits = defaultdict[tuple[str, int], list[tuple[datetime, datetime]]](list)
    lowest: dict[str, int] = {}
    for start in starts:
        key, priority = start.execution.limit_key, start.execution.priority
        lowest[key] = min(priority, lowest.get(key, priority))
        if start.due + NOTICED < start.at and not evidence.is_disturbed(start.due, start.at):
            waits[key, priority].append((start.due + NOTICED, start.at))
    contended = inverted = 0
    for start in starts:
        key = start.execution.limit_key
        waiting = [
            priority
            for (waiting_key, priority), spans in waits.items()
            if waiting_key == key and priority > lowest[key] and any(since <= start.at <= end for since, end in spans)
        ]
        contended += bool(waiting)
        inverted += any(priority > start.execution.priority for priority in waiting)
    return contended, inverted


def _silences(starts: Sequence[_Start], instants: Sequence[datetime]) -> Iterator[tuple[datetime, datetime]]:
    """Yield periods with a due execution and without a start that are longer than SILENCE; `starts` are in order."""
    if not starts:
        return
    earliest, due_from = starts[-1].due, dict[datetime, datetime]()
    for start in reversed(starts):
        earliest = due_from[start.at] = min(earliest, start.due)  # the earliest due of this and later starts
    waiting = sorted(due_from.items())
    place = 0
    for before, after in pairwise([min(due_from.values()), *instants]):
        while place < len(waiting) and waiting[place][0] < after:
            place += 1
        if place == len(waiting):
            return
        since = max(before, waiting[place][1])
        if after - since > SILENCE:
            yield since, after


def _has_open_breaker(evidence: Evidence, endpoint: str, since: datetime, until: datetime) -> bool:
    """Return whether the breaker of the endpoint's own target was open or half open in the time span."""
    return any(
        change.after is not BreakerState.CLOSED and span.overlaps(since, until)
        for target, owner in evidence.breakers.items()
        if owner == endpoint
        for change, span in evidence.states_of(target)
    )
