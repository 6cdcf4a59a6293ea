"""Checks of the recorded changes of executions."""

from collections.abc import Iterator

from app.dev.verify.evidence import Evidence, TransitionRow
from schema.states import FINAL, AttemptStatus, ExecutionStatus, Resolution, may_become

_RUNNING = ExecutionStatus.RUNNING
# PENDING: the job is paused; CANCELLED: the job was cancelled.
_RELEASED = {ExecutionStatus.QUEUED, ExecutionStatus.RETRYING, ExecutionStatus.PENDING, ExecutionStatus.CANCELLED}


def states_in_order(evidence: Evidence) -> Iterator[str]:
    """Find illegal changes of state, changes that do not follow the previous one, and changes after the end."""
    if evidence.transitions is None:
        return
    last: dict[str, TransitionRow] = {}
    redriven = {letter.execution_id for letter in evidence.endings.letters if letter.resolution is Resolution.REDRIVEN}
    for change in evidence.transitions:
        yield from _judge(change, last.get(change.execution_id), may_restart=change.execution_id in redriven)
        last[change.execution_id] = change
    for execution in evidence.executions:
        seen = last.get(execution.execution_id)
        if seen is None or seen.after is not execution.status:
            shown = seen.after if seen else "nothing"
            yield f"{execution.execution_id}: is {execution.status}, its history ends with {shown}"


def no_stale_write(evidence: Evidence) -> Iterator[str]:
    """Find changes and attempts by a worker that did not hold the claim, and attempts after a success."""
    claimed: dict[tuple[str, int], str | None] = {}
    for change in evidence.transitions or ():
        if change.after is _RUNNING and change.before is not _RUNNING:
            claimed[change.execution_id, change.attempt_after] = change.worker_after
            if change.lease_valid is False:
                yield f"{change.execution_id}: claimed by {change.worker_after} without a valid lease"
        elif change.before is _RUNNING and change.worker_before != change.worker_after:
            yield f"{change.execution_id}: held by {change.worker_before}, ended by {change.worker_after}"
    final = {execution.execution_id for execution in evidence.executions if execution.status in FINAL}
    for execution_id, attempts in evidence.attempts_of().items():
        for attempt in attempts:
            holder = claimed.get((execution_id, attempt.number), attempt.worker_id)
            if attempt.worker_id != holder:
                yield f"{execution_id}: attempt {attempt.number} of {holder} is recorded as {attempt.worker_id}'s"
        early = [attempt.number for attempt in attempts[:-1] if attempt.status is AttemptStatus.SUCCESS]
        if early and execution_id in final:
            yield f"{execution_id}: attempt {early[0]} succeeded and attempt {attempts[-1].number} followed"


def _judge(change: TransitionRow, before: TransitionRow | None, *, may_restart: bool) -> Iterator[str]:
    step = f"{change.execution_id}: {change.before} -> {change.after}"
    if (before.after if before else None) is not change.before:
        yield f"{step} does not follow {before.after if before else 'its creation'}"
    is_restart = may_restart and (change.before, change.after) == (ExecutionStatus.FAILED, ExecutionStatus.QUEUED)
    if change.before in FINAL and not is_restart:
        yield f"{step} after its end"
    elif change.before is not change.after and not may_become(change.before, change.after):
        yield f"{step} is not legal"
    # A claim adds one attempt; a release may subtract it again; a request to cancel leaves it.
    is_claim = change.before is not None and change.before is not _RUNNING and change.after is _RUNNING
    is_release = change.before is _RUNNING and change.after in _RELEASED
    allowed = {1} if is_claim else {0, -1} if is_release else {0}
    if change.attempt_after - change.attempt_before not in allowed:
        yield f"{step} takes the attempts from {change.attempt_before} to {change.attempt_after}"
