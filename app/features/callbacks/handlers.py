"""Handler of callbacks: a completion event creates a job of the callback endpoint, with the outcome as input.

If the endpoint was deleted or refuses the outcome, the callback is skipped for good and the log of the completed
execution says so.
"""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from app.catalog.endpoints.callback_targets import merged
from app.kernel import ids
from app.kernel.formats import rfc3339
from app.kernel.sql import statement
from app.queue.ending.handler import Brought, Handler
from app.queue.ending.outbox_rows import End
from app.queue.jobs import job_insertion
from app.queue.jobs.endpoint_cache import CachedEndpoint, read_targets
from app.queue.jobs.job_model import NewJob
from schema.states import CallbackEvent, ExecutionStatus, Followed, LogLevel, Trigger

log = logging.getLogger(__name__)

# The outbox is usually handled before its execution is pruned; a pruned execution calls nobody back.
FACTS = statement(
    "callbacks.facts",
    """
    SELECT u.end_id, e.job_id, j.name AS job_name, j.labels, e.endpoint_type, e.endpoint_version, e.max_attempts,
           e.scheduled_at, j.trace_context, j.callbacks AS own, v.callbacks AS of_version,
           a.started_at, a.duration_ms, a.output, a.error
      FROM unnest(CAST(:ends AS TEXT[]), CAST(:executions AS TEXT[]), CAST(:attempts AS BIGINT[]))
           AS u (end_id, execution_id, attempt)
      JOIN executions AS e ON e.execution_id = u.execution_id
      JOIN jobs AS j ON j.job_id = e.job_id
      JOIN endpoint_versions AS v ON v.endpoint = e.endpoint AND v.version = e.endpoint_version
      LEFT JOIN attempts AS a ON a.execution_id = u.execution_id AND a.attempt_number = u.attempt
     WHERE e.execution_id = ANY (CAST(:executions AS TEXT[]))
    """,
)
TAKEN = statement(
    "callbacks.taken",
    """
    SELECT j.endpoint, j.idempotency_key
      FROM unnest(CAST(:endpoints AS TEXT[]), CAST(:keys AS TEXT[])) AS u (endpoint, idempotency_key)
      JOIN jobs AS j ON j.endpoint = u.endpoint AND j.idempotency_key = u.idempotency_key
    """,
)
TELL = statement(
    "callbacks.tell",
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


@dataclass(frozen=True, slots=True)
class _Call:
    """A callback of a completion event, and the reason if it cannot be made."""

    end: End
    event: CallbackEvent
    name: str
    facts: Row[Any]

    @property
    def key(self) -> str:
        """Return the idempotency key of the job: the same for the same event."""
        return f"callback:{self.event}:{self.end.end_id}"


def events_of(end: End) -> list[CallbackEvent]:
    """Return the callback events of a completion; a cancellation has none."""
    events = []
    if end.status is ExecutionStatus.SUCCESS and Followed.SUCCESS in end.followed:
        events.append(CallbackEvent.ON_SUCCESS)
    if end.status is ExecutionStatus.FAILED and Followed.FAILURE in end.followed:
        events.append(CallbackEvent.ON_FAILURE)
    if end.has_failed_attempt and Followed.ATTEMPT_FAILED in end.followed:
        events.append(CallbackEvent.ON_ATTEMPT_FAILED)
    return events


def call_back(connection: Connection, ends: Sequence[End]) -> Brought:
    """Create the callback jobs of these completion events; returns the queues they wait in."""
    calls = _calls(connection, ends)
    targets = read_targets(connection, {call.name for call in calls})
    made: dict[str, tuple[_Call, dict[str, Any]]] = {}
    told: list[tuple[_Call, LogLevel, str]] = []
    for call in calls:
        params, fault = _params(call, targets.get(call.name))
        if params is None:
            log.warning("skipped the callback %s of %s: %s", call.event, call.end.execution_id, fault)
            told.append((call, LogLevel.WARN, f"{call.event}: skipped the callback to {call.name!r}: {fault}"))
        else:
            made[params["job_id"]] = (call, params)
    queues = _insert(connection, made)
    told += [
        (call, LogLevel.INFO, f"{call.event}: {call.name!r} is called back by the job {job_id}")
        for job_id, (call, _) in made.items()
    ]
    _tell(connection, told)
    return Brought(queues)


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
        "started_at": _instant(facts.started_at) if by_attempt else None,
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
    return sorted(calls, key=lambda call: (call.end.ended_at, call.end.end_id, call.event))


def _params(call: _Call, target: CachedEndpoint | None) -> tuple[dict[str, Any] | None, str]:
    """Return the parameters of the job's insertion, or None and the reason."""
    if target is None:
        return None, "the endpoint was deleted"
    outcome = outcome_of(call.end, call.event, call.facts)
    faults = target.faults(outcome)
    if faults:
        fault = faults[0]
        return None, f"its payload spec refuses the outcome: {fault['pointer'] or '/'}: {fault['message']}"
    new = NewJob(endpoint=call.name, trigger=Trigger.IMMEDIATE, input=outcome, idempotency_key=call.key)
    params = job_insertion.params_of(new, target, ids.job_id(), shards=1)
    if Followed.NOTIFICATION in call.end.followed:
        # A callback of a callback job could repeat for ever.
        params["followed"] = (params["followed"] or 0) | Followed.NOTIFICATION
    return params | {
        "callback_of": call.end.execution_id,
        "trace_context": call.facts.trace_context,
        "shard": call.end.shard,
        "look_ahead_ms": 0,
    }, ""


def _insert(connection: Connection, made: dict[str, tuple[_Call, dict[str, Any]]]) -> Collection[str]:
    """Insert the jobs; removes jobs from `made` whose key is taken."""
    if not made:
        return ()
    each = [params for _, params in made.values()]
    rows = connection.execute(job_insertion.ONE_SHOTS, job_insertion.params_of_one_shots(each)).all()
    missing = made.keys() - {row.job_id for row in rows}
    if missing:
        lost = [made[job_id][0] for job_id in sorted(missing)]
        keys = {"endpoints": [call.name for call in lost], "keys": [call.key for call in lost]}
        taken = {(row.endpoint, row.idempotency_key) for row in connection.execute(TAKEN, keys)}
        if any((call.name, call.key) not in taken for call in lost):
            raise _EndpointReplacedError
        for job_id in missing:
            del made[job_id]
    return {row.execution_queue for row in rows}


def _tell(connection: Connection, told: Sequence[tuple[_Call, LogLevel, str]]) -> None:
    if told:
        params = {
            "logs": [ids.log_id() for _ in told],
            "executions": [call.end.execution_id for call, _, _ in told],
            "attempts": [call.end.attempt for call, _, _ in told],
            "levels": [level.value for _, level, _ in told],
            "messages": [message for _, _, message in told],
        }
        connection.execute(TELL, params)


def _instant(instant: datetime | None) -> str | None:
    return None if instant is None else rfc3339(instant)


CALLBACKS = Handler("callbacks", lambda end: bool(events_of(end)), call_back)
