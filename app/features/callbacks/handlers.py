"""Handler of callbacks: a completion event creates a job of the callback endpoint, with the outcome as input.

If the endpoint was deleted or refuses the outcome, the callback is skipped for good and the log of the completed
execution says so.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row

from app.catalog.endpoints.callback_targets import merged
from app.kernel import ids
from app.kernel.errors import clause
from app.kernel.formats import rfc3339
from app.kernel.sql import statement
from app.queue.ending.handler import Handler, HandlerResult
from app.queue.ending.outbox_rows import End
from app.queue.jobs import job_insertion
from app.queue.jobs.endpoint_cache import CachedEndpoint, read_targets
from app.queue.jobs.job_model import NewJob, own_key
from schema.states import CallbackEvent, ExecutionStatus, Followed, LogLevel, Trigger

log = logging.getLogger(__name__)

# The outbox is usually handled before its execution is pruned; a pruned execution calls nobody back. `s` is a success
# without a row in `attempts` (app.queue.reading.attempt_rows).
FACTS = statement(
    "callbacks.facts",
    """
    SELECT u.end_id, e.job_id, j.name AS job_name, j.labels, e.endpoint_type, e.endpoint_version, e.max_attempts,
           e.scheduled_at, j.trace_context, j.callbacks AS own, v.callbacks AS of_version,
           COALESCE(a.started_at, s.started_at) AS started_at, COALESCE(a.duration_ms, s.duration_ms) AS duration_ms,
           COALESCE(a.output, s.output) AS output, a.error
      FROM unnest(CAST(:ends AS TEXT[]), CAST(:executions AS TEXT[]), CAST(:attempts AS BIGINT[]))
           AS u (end_id, execution_id, attempt)
      JOIN executions AS e ON e.execution_id = u.execution_id
      JOIN jobs AS j ON j.job_id = e.job_id
      JOIN endpoint_versions AS v ON v.endpoint = e.endpoint AND v.version = e.endpoint_version
      LEFT JOIN attempts AS a ON a.execution_id = u.execution_id AND a.attempt_number = u.attempt
      LEFT JOIN executions AS s
             ON s.execution_id = u.execution_id AND s.attempt_count = u.attempt AND s.recorded_at IS NOT NULL
     WHERE e.execution_id = ANY (CAST(:executions AS TEXT[]))
    """,
)
LOG = statement(
    "callbacks.log",
    """
    INSERT INTO execution_logs (log_id, execution_id, attempt_number, level, message)
    SELECT u.log_id, u.execution_id, u.attempt, u.level, u.message
      FROM unnest(CAST(:logs AS TEXT[]), CAST(:executions AS TEXT[]), CAST(:attempts AS BIGINT[]),
                  CAST(:levels AS TEXT[]), CAST(:messages AS TEXT[]))
           AS u (log_id, execution_id, attempt, level, message)
    """,
)


class _EndpointReplacedError(Exception):
    """An endpoint has changed since it was read."""


class _Call(NamedTuple):
    """A callback of a completion event."""

    end: End
    event: CallbackEvent
    name: str
    facts: Row[Any]


def events_of(end: End) -> list[CallbackEvent]:
    """Return the callback events of a completion; a cancellation has none."""
    happened = {
        CallbackEvent.ON_SUCCESS: end.status is ExecutionStatus.SUCCESS and Followed.SUCCESS in end.followed,
        CallbackEvent.ON_FAILURE: end.status is ExecutionStatus.FAILED and Followed.FAILURE in end.followed,
        CallbackEvent.ON_ATTEMPT_FAILED: end.has_failed_attempt and Followed.ATTEMPT_FAILED in end.followed,
    }
    return [event for event, has_happened in happened.items() if has_happened]


def call_back(connection: Connection, ends: Sequence[End]) -> HandlerResult:
    """Create the callback jobs of these completion events, and log them."""
    calls = _calls(connection, ends)
    targets = read_targets(connection, {call.name for call in calls})
    made, lines = list[dict[str, Any]](), list[tuple[End, LogLevel, str]]()
    for call in calls:
        target, outcome = targets.get(call.name), outcome_of(call.end, call.event, call.facts)
        fault = _fault(target, outcome)
        if target is None or fault is not None:
            # The message of a fault may quote the receiver's answer, which belongs in no log of a process.
            log.warning(
                "skipped the callback %s of execution %s: endpoint %s is deleted or refuses the outcome",
                call.event,
                call.end.execution_id,
                call.name,
            )
            level, message = LogLevel.WARN, f"skipped the callback to {call.name!r}: {fault}"
        else:
            made.append(_job_params(call, target, outcome))
            level, message = LogLevel.INFO, f"{call.name!r} is called back by the job {made[-1]['job_id']}"
        lines.append((call.end, level, f"{call.event}: {message}"))
    rows = connection.execute(job_insertion.ONE_SHOTS, job_insertion.params_of_several(made)).all() if made else ()
    if len(rows) < len(made):
        raise _EndpointReplacedError
    if lines:
        params = {
            "logs": [ids.log_id() for _ in lines],
            "executions": [end.execution_id for end, _, _ in lines],
            "attempts": [end.attempt for end, _, _ in lines],
            "levels": [level.value for _, level, _ in lines],
            "messages": [message for _, _, message in lines],
        }
        connection.execute(LOG, params)
    return HandlerResult(Counter(row.execution_queue for row in rows))


def outcome_of(end: End, event: CallbackEvent, facts: Row[Any]) -> dict[str, Any]:
    """Return the input of a callback, as app.catalog.callback_outcome describes it."""
    by_attempt = end.reason is None
    return {
        "event": event.value,
        "job_id": facts.job_id,
        "job_name": facts.job_name,
        "labels": facts.labels or {},
        "execution_id": end.execution_id,
        "endpoint": end.endpoint,
        "endpoint_type": facts.endpoint_type,
        "endpoint_version": facts.endpoint_version,
        "status": end.status.value,
        "attempt": end.attempt,
        "max_attempts": facts.max_attempts,
        "scheduled_at": rfc3339(facts.scheduled_at),
        "started_at": rfc3339(facts.started_at) if by_attempt and facts.started_at else None,
        "ended_at": rfc3339(end.ended_at),
        "duration_ms": facts.duration_ms if by_attempt else None,
        "reason": end.reason,
        "output": facts.output if by_attempt else None,
        "error": facts.error,
    }


def _calls(connection: Connection, ends: Sequence[End]) -> list[_Call]:
    by_id = {end.end_id: end for end in ends}
    params = {
        "ends": list(by_id),
        "executions": [end.execution_id for end in ends],
        "attempts": [end.attempt for end in ends],
    }
    calls = []
    for facts in connection.execute(FACTS, params):
        end, named = by_id[facts.end_id], merged(facts.of_version, facts.own)
        calls += [_Call(end, event, named[event], facts) for event in events_of(end) if event in named]
    return sorted(calls, key=attrgetter("end.ended_at", "end.end_id", "event"))


def _fault(target: CachedEndpoint | None, outcome: dict[str, Any]) -> str | None:
    if target is None:
        return "the endpoint was deleted"
    if not (faults := target.faults(outcome)):
        return None
    return f"its payload spec refuses the outcome: {faults[0]['pointer'] or '/'}: {clause(faults[0]['message'])}"


def _job_params(call: _Call, target: CachedEndpoint, outcome: dict[str, Any]) -> dict[str, Any]:
    # Not derived from the event, whose row in the outbox already makes its handling unique: nobody can take this key.
    job_id = ids.job_id()
    key = own_key("callback", job_id)
    new = NewJob(endpoint=call.name, trigger=Trigger.IMMEDIATE, input=outcome, idempotency_key=key)
    params = job_insertion.params_of(new, target, job_id, shards=1)
    if Followed.NOTIFICATION in call.end.followed:
        # A callback of a callback job could repeat for ever.
        params["followed"] = (params["followed"] or 0) | Followed.NOTIFICATION
    return params | {
        "callback_of": call.end.execution_id,
        "trace_context": call.facts.trace_context,
        "shard": call.end.shard,
        "look_ahead_ms": 0,
    }


CALLBACKS = Handler("callbacks", lambda end: bool(events_of(end)), call_back)
