"""Explanation of an execution's state in a sentence, from bounded queries."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

from app.catalog.crypto import VARIABLE
from app.kernel.db.reads import Reads
from app.kernel.errors import ExecutionNotFoundError
from app.kernel.sql import read_together, statement
from app.queue.ending.execution_events import ChangeReason
from app.queue.executions.handover import has_workflow
from app.queue.executions.node_key import NodeKey
from app.queue.reading.waiting_reasons import FACTS, Explanation, Facts, WaitingReason, at, explain_due
from schema.states import ExecutionStatus, WorkerStatus

# A pause also holds executions that wait, with the same reason.
LAST_EVENT = statement(
    "executions.explain_event",
    """
    SELECT actor, reason, attempt_number FROM execution_events
     WHERE execution_id = :execution_id AND reason = ANY (CAST(:reasons AS TEXT[]))
       AND (reason <> 'JOB_PAUSED' OR to_status = 'CANCELLED')
     ORDER BY occurred_at DESC, event_id DESC LIMIT 1
    """,
)
read_together(LAST_EVENT, execution_id="TEXT")
_REQUESTS = [ChangeReason.CANCEL_REQUESTED, ChangeReason.ABORT_REQUESTED]
_ENDING = [ChangeReason.EXPIRED, ChangeReason.NO_ATTEMPTS_LEFT, ChangeReason.RETRIED_BY_HAND]
_MOVED = [ChangeReason.RESCHEDULED, ChangeReason.RUN_BY_HAND]
CANCELLING = [
    *(ChangeReason.CANCELLED, ChangeReason.JOB_CANCELLED, ChangeReason.JOB_UPDATED, ChangeReason.JOB_PAUSED),
    *_REQUESTS,
]


class _Event(NamedTuple):
    actor: str | None = None
    reason: ChangeReason | None = None
    attempt: int = 0


def explain(
    reads: Reads, execution_id: str, *, reclaim_every: timedelta, reasons: Iterable[WaitingReason]
) -> Explanation:
    """Explain an execution's state; `reasons` explain a due execution. Raises ExecutionNotFoundError."""
    rows = reads.fetch(FACTS, {"execution_id": execution_id})
    if not rows:
        raise ExecutionNotFoundError.of(execution_id)
    return explained(reads, Facts.from_row(rows[0]), reclaim_every, reasons)


def explained(reads: Reads, facts: Facts, reclaim_every: timedelta, reasons: Iterable[WaitingReason]) -> Explanation:
    return _with_workflow(facts, _explain(reads, facts, reclaim_every, reasons))


def _with_workflow(facts: Facts, explained: Explanation) -> Explanation:
    """Name the workflow of a node's execution; its job has the name `workflow/node`."""
    place = NodeKey.parse(facts.idempotency_key)
    if place is None:
        return explained
    text = f"{explained.explanation} It is {facts.job_name} of the workflow {place.workflow_id}."
    return replace(explained, explanation=text, details=explained.details | {"workflow": place._asdict()})


def _explain(reads: Reads, facts: Facts, reclaim_every: timedelta, reasons: Iterable[WaitingReason]) -> Explanation:
    if facts.status is ExecutionStatus.RUNNING:
        return _running(reads, facts, reclaim_every)
    if facts.status is ExecutionStatus.CANCELLED:
        return _cancelled(reads, facts)
    if facts.status is ExecutionStatus.FAILED:
        return _failed(reads, facts)
    if facts.status is ExecutionStatus.SUCCESS:
        return _succeeded(facts)
    return _waiting(reads, facts, reasons)


def _waiting(reads: Reads, facts: Facts, reasons: Iterable[WaitingReason]) -> Explanation:
    status, error = facts.status, facts.error
    since = facts.failed_at or facts.created_at
    details: dict[str, Any] = {"attempts": facts.attempt_count, "max_attempts": facts.max_attempts}
    if error:
        details["last_error"] = error
    # A retry is put on hold shortly after its failure, unless the execution was requested during the pause.
    is_retry = status is ExecutionStatus.RETRYING
    if facts.on_hold or (is_retry and facts.paused_at is not None and facts.created_at <= facts.paused_at):
        held = "Its job is paused; it continues when the job is resumed."
        return Explanation(status, "JOB_PAUSED", held, facts.paused_at or since, None, details)
    if facts.run_at > facts.now:
        return _waiting_for_run_at(reads, facts, details)
    if status is ExecutionStatus.PENDING:
        text = f"It has been due since {at(facts.run_at)}, and no scheduler has queued it; perhaps none is running."
        return Explanation(status, "WAITING_FOR_SCHEDULER", text, facts.run_at, None, details)
    return explain_due(reads, facts, details, reasons)


def _waiting_for_run_at(reads: Reads, facts: Facts, details: dict[str, Any]) -> Explanation:
    reasons = [ChangeReason.SECRET_UNREADABLE, *_MOVED]
    moved = _event(reads, facts, reasons) if facts.worker_id else _Event()  # else no worker has claimed it
    is_of_last_claim = moved.actor == facts.worker_id and moved.attempt > facts.attempt_count
    if moved.reason is ChangeReason.SECRET_UNREADABLE and is_of_last_claim:
        text = f"The worker {moved.actor} could not decrypt a secret of its endpoint, so nothing was sent; the next"
        text += f" try is due at {at(facts.run_at)}. Give the worker every key in use ({VARIABLE}=first,second) and"
        text += " restart it; its log names the secret."
        reason = "SECRET_UNREADABLE"
    elif facts.error:
        text = f"Attempt {facts.attempt_count} of {facts.max_attempts} failed ({_of(facts.error)}); the next is due at"
        reason, text = "RETRYING_AFTER_ERROR", f"{text} {at(facts.run_at)}."
    else:
        reason, text = "WAITING_FOR_RUN_AT", f"It is due at {at(facts.run_at)}."
    since = facts.failed_at or facts.created_at
    return Explanation(facts.status, reason, text, since, facts.run_at, details)


def _as_workflow(reads: Reads, facts: Facts, attempt: str, details: dict[str, Any]) -> Explanation:
    text = f"{attempt} is the workflow {facts.worker_id}; GET /workflows/{facts.worker_id}/explain explains it."
    if facts.cancel_requested_at is None:
        return Explanation(facts.status, "RUNNING", text, facts.started_at, None, details)
    text = f"{text} Its cancellation was requested{_by(_event(reads, facts))}."
    return Explanation(facts.status, "CANCEL_REQUESTED", text, facts.cancel_requested_at, None, details)


def _running(reads: Reads, facts: Facts, reclaim_every: timedelta) -> Explanation:
    status, attempt = ExecutionStatus.RUNNING, f"Attempt {facts.attempt_count} of {facts.max_attempts}"
    details = {"worker_id": facts.worker_id, "attempts": facts.attempt_count, "max_attempts": facts.max_attempts}
    if has_workflow(facts.worker_id):
        return _as_workflow(reads, facts, attempt, details)
    lease = facts.lease_expires_at
    if lease is None or facts.worker_status is not WorkerStatus.ALIVE or lease <= facts.now:
        lost_at = lease or facts.started_at
        by = max(lost_at, facts.now) + reclaim_every
        text = f"The worker {facts.worker_id} was lost at {at(lost_at)}; a scheduler reclaims it by {at(by)}."
        return Explanation(status, "WORKER_LOST", text, lost_at, by, details)
    details["lease_expires_at"] = lease.isoformat()
    if facts.abort_requested_at is not None:
        text = f"Its abort was requested{_by(_event(reads, facts))}; its worker aborts {attempt.lower()}."
        return Explanation(status, "ABORT_REQUESTED", text, facts.abort_requested_at, None, details)
    if facts.cancel_requested_at is not None:
        by_whom = _by(_event(reads, facts))
        text = f"Its cancellation was requested{by_whom}; {attempt.lower()} is running and is the last."
        return Explanation(status, "CANCEL_REQUESTED", text, facts.cancel_requested_at, None, details)
    text = f"{attempt} has been running on worker {facts.worker_id}, whose lease ends at {at(lease)} unless renewed."
    return Explanation(status, "RUNNING", text, facts.started_at, None, details)


def _cancelled(reads: Reads, facts: Facts) -> Explanation:
    event = _event(reads, facts)
    why = {ChangeReason.JOB_CANCELLED: ", with its job", ChangeReason.JOB_UPDATED: ", because its job was updated"}
    cause = why.get(event.reason, "") if event.reason else ""
    details: dict[str, Any] = {"attempts": facts.attempt_count, "actor": event.actor}
    text = f"It was cancelled{_by(event)}{cause} after {facts.attempt_count} attempt(s)."
    if facts.error.get("type") == "ABORTED":
        text = f"Attempt {facts.attempt_count} was aborted{_by(event)}; it may have been delivered."
    elif event.reason in _REQUESTS:
        text = f"Its cancellation was requested{_by(event)} while it was running; it ended without success."
    elif event.reason is ChangeReason.JOB_PAUSED:
        text = f"It was skipped, because its instant fell into a pause of its job, which was resumed{_by(event)}."
    reason = "JOB_CANCELLED" if cause else "CANCELLED"
    return Explanation(ExecutionStatus.CANCELLED, reason, text, facts.completed_at, None, details)


def _succeeded(facts: Facts) -> Explanation:
    text = f"It was delivered by attempt {facts.attempt_count} of {facts.max_attempts}."
    if facts.error:
        text = f"Attempt {facts.attempt_count} of {facts.max_attempts} failed ({_of(facts.error)}), which its retry"
        text += " policy ignores."
    details = {"attempts": facts.attempt_count, "worker_id": facts.worker_id}
    return Explanation(ExecutionStatus.SUCCESS, "SUCCEEDED", text, facts.completed_at, None, details)


def _failed(reads: Reads, facts: Facts) -> Explanation:
    used_up = facts.attempt_count >= facts.max_attempts
    details: dict[str, Any] = {"attempts": facts.attempt_count, "max_attempts": facts.max_attempts}
    if facts.error:
        details["last_error"] = facts.error
    why = "none is left" if used_up else "its error is not retryable, or its retry policy allows no further attempt"
    text = f"Attempt {facts.attempt_count} of {facts.max_attempts} failed ({_of(facts.error)}), and {why}."
    reason = "ATTEMPTS_USED_UP" if used_up else "FAILED_FOR_GOOD"
    # It may have failed while waiting. Events before a manual retry are ignored.
    ended_by = _event(reads, facts, _ENDING).reason
    if ended_by is ChangeReason.EXPIRED:
        reason, text = "EXPIRED", "It waited for longer than the max_age_ms of its retry policy allows"
        text += "; nothing was sent." if facts.attempt_count == 0 else f" after attempt {facts.attempt_count}."
    elif ended_by is ChangeReason.NO_ATTEMPTS_LEFT and not facts.error:
        text = f"It waited for another attempt, but has used all of its {facts.max_attempts}."
    return Explanation(ExecutionStatus.FAILED, reason, text, facts.completed_at, None, details)


def _event(reads: Reads, facts: Facts, reasons: Sequence[ChangeReason] = CANCELLING) -> _Event:
    params = {"execution_id": facts.execution_id, "reasons": [reason.value for reason in reasons]}
    rows = reads.fetch(LAST_EVENT, params)
    return _Event(rows[0].actor, ChangeReason(rows[0].reason), rows[0].attempt_number) if rows else _Event()


def _by(event: _Event) -> str:
    return f" by {event.actor}" if event.actor else ""


def _of(error: Mapping[str, Any]) -> str:
    return f"{error.get('type', 'unknown')}: {error.get('message', '')}".removesuffix(": ")
