"""Manual retry of failed or cancelled executions: further attempts, with consecutive numbers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row

from app.catalog.retry_policy import RetryPolicy
from app.kernel import ids
from app.kernel.db import Database
from app.kernel.errors import ConflictError, ExecutionNotFoundError, TaskExecutorError
from app.kernel.sql import statement
from app.kernel.tracing.context import TraceContext
from app.queue.ending import letters
from app.queue.ending.execution_events import ChangeReason, StateChange, record, recorded
from app.queue.ending.letters import DeadLetter
from app.queue.executions.execution_model import OperationResult
from app.queue.executions.node_retry import mark_retried
from schema.states import ExecutionStatus, JobStatus, Resolution

LOCK = statement(
    "executions.lock_for_retry",
    """
    SELECT e.execution_id, e.job_id, e.endpoint, e.endpoint_version, e.queue, e.status, e.attempt_count,
           e.completed_at, e.idempotency_key
      FROM executions AS e WHERE e.execution_id = ANY (CAST(:ids AS TEXT[])) ORDER BY e.execution_id FOR UPDATE
    """,
)
# FOR KEY SHARE blocks a deletion of the endpoint, which then finds this execution; it does not block other changes.
ENDPOINTS = statement(
    "executions.endpoints_to_retry",
    """
    SELECT e.name FROM endpoints AS e
     WHERE e.name = ANY (CAST(:endpoints AS TEXT[])) AND e.deleted_at IS NULL ORDER BY e.name FOR KEY SHARE
    """,
)
POLICIES = statement(
    "executions.policies_to_retry",
    """
    SELECT v.endpoint, v.version, v.retry_policy
      FROM unnest(CAST(:endpoints AS TEXT[]), CAST(:versions AS BIGINT[])) AS u (endpoint, version)
      JOIN endpoint_versions AS v ON v.endpoint = u.endpoint AND v.version = u.version
    """,
)
PAUSED = statement(
    "executions.jobs_to_retry",
    "SELECT job_id, status FROM jobs WHERE job_id = ANY (CAST(:jobs AS TEXT[])) ORDER BY job_id FOR UPDATE",
)
# Earlier attempts keep their numbers, so the maximum grows. config_revision becomes NULL: the next claim uses the
# current configs, so that a retry after a correction succeeds. Microseconds keep several executions in order. The first
# attempt of a manual retry has no maximum age.
RETRY = statement(
    "executions.retry",
    """
    UPDATE executions AS e
       SET status = 'QUEUED', run_at = now() + u.place * INTERVAL '1 microsecond', completed_at = NULL,
           cancel_requested_at = NULL, abort_requested_at = NULL, config_revision = NULL, result_pruned_at = NULL,
           max_attempts = e.attempt_count + u.more, expires_at = NULL,
           trace_context = COALESCE(CAST(:trace AS TEXT), e.trace_context)
      FROM unnest(CAST(:ids AS TEXT[]), CAST(:more AS BIGINT[]), CAST(:places AS BIGINT[]))
           AS u (execution_id, more, place)
     WHERE e.execution_id = ANY (CAST(:ids AS TEXT[])) AND e.execution_id = u.execution_id
       AND e.status IN ('FAILED', 'CANCELLED')
    RETURNING e.execution_id
    """,
)
# A one-shot job is active until its execution ends.
REOPEN = statement(
    "executions.reopen_one_shots",
    """
    UPDATE jobs SET status = 'ACTIVE', retired_at = NULL
     WHERE job_id = ANY (CAST(:jobs AS TEXT[])) AND trigger_type IN ('IMMEDIATE', 'DELAYED') AND status = 'RETIRED'
    """,
)

RETRIABLE = frozenset({ExecutionStatus.FAILED, ExecutionStatus.CANCELLED})


def retry_execution(
    database: Database,
    execution_id: str,
    *,
    actor: str | None,
    trace: TraceContext | None = None,
    letter: DeadLetter | None = None,
) -> str:
    """Make an execution due now, with as many further attempts as its endpoint version allows; returns its queue.

    A `trace` replaces the trace of the execution. With `letter`, this is the redrive of the execution's open dead
    letter, which is resolved; a letter that was redriven before stays as it is.

    Raises ExecutionNotFoundError, or ConflictError: the execution is neither FAILED nor CANCELLED, its dead letter was
    resolved otherwise, its endpoint was deleted, or its job is paused.
    """
    event_id = ids.event_id()

    def body(connection: Connection) -> str:
        row = _lock(connection, [execution_id]).get(execution_id)
        if row is None:
            raise ExecutionNotFoundError.of(execution_id)
        queue: str = row.queue
        if recorded(connection, event_id) is not None:
            return queue  # the first run of this transaction was committed, but its answer was lost
        if letter is not None and not letters.lock_open(connection, letter.letter_id, redriven_as=execution_id):
            return queue
        resolution = Resolution.RETRIED if letter is None else Resolution.REDRIVEN
        done = _retry(connection, [row], event_id, actor=actor, trace=trace, resolution=resolution)
        for error in done.refused.values():
            raise error
        return queue

    return database.transact(body)


def retry_executions(connection: Connection, execution_ids: Sequence[str], *, actor: str | None) -> OperationResult:
    """Retry several executions in this order; executions that cannot be retried are unchanged."""
    found = _lock(connection, execution_ids)
    missing = {each: ExecutionNotFoundError.of(each) for each in execution_ids if each not in found}
    done = _retry(connection, [found[each] for each in execution_ids if each in found], actor=actor)
    return replace(done, refused=missing | dict(done.refused))


def redrive_executions(connection: Connection, each: Sequence[DeadLetter], *, actor: str | None) -> OperationResult:
    """Redrive the executions of several open letters in this order and resolve the letters; errors are by letter."""
    found = _lock(connection, [letter.execution_id for letter in each])
    is_open, refused = letters.lock_several(connection, [letter.letter_id for letter in each])
    gone = {
        letter.letter_id: ExecutionNotFoundError.of(letter.execution_id)
        for letter in each
        if letter.execution_id not in found
    }
    letter_of = {
        letter.execution_id: letter.letter_id
        for letter in each
        if letter.letter_id in is_open and letter.execution_id in found
    }
    done = _retry(connection, [found[each] for each in letter_of], actor=actor, resolution=Resolution.REDRIVEN)
    named = {letter_of[execution_id]: error for execution_id, error in done.refused.items()}
    return replace(done, refused={**refused, **gone, **named})


def _lock(connection: Connection, execution_ids: Sequence[str]) -> dict[str, Row[Any]]:
    return {row.execution_id: row for row in connection.execute(LOCK, {"ids": sorted(execution_ids)})}


def _retry(
    connection: Connection,
    locked: Sequence[Row[Any]],
    event_id: str | None = None,
    *,
    actor: str | None,
    trace: TraceContext | None = None,
    resolution: Resolution = Resolution.RETRIED,
) -> OperationResult:
    """Retry locked executions in this order; `event_id` is for a single execution."""
    failed = {row.execution_id: row.completed_at for row in locked if row.status == ExecutionStatus.FAILED}
    # A redrive has already locked its letters.
    resolved = letters.lock_of(connection, failed) if resolution is Resolution.RETRIED else {}
    attempts = _attempts_more(connection, locked)
    jobs = connection.execute(PAUSED, {"jobs": sorted({row.job_id for row in locked})})
    paused = {row.job_id for row in jobs if row.status == JobStatus.PAUSED}
    refusals = {row.execution_id: resolved.get(row.execution_id) or _refusal(row, attempts, paused) for row in locked}
    refusals |= mark_retried(connection, [row for row in locked if refusals[row.execution_id] is None])
    rows = [row for row in locked if refusals[row.execution_id] is None]
    retried = [row.execution_id for row in rows]
    if rows:
        params = {
            "ids": retried,
            "more": [attempts[row.endpoint, row.endpoint_version] for row in rows],
            "places": list(range(len(rows))),
            "trace": None if trace is None else trace.as_text(is_link=False),
        }
        connection.execute(RETRY, params)
        connection.execute(REOPEN, {"jobs": sorted({row.job_id for row in rows})})
        letters.resolve_of_executions(connection, retried, actor, resolution)
    changes = StateChange.of_rows(rows, after=ExecutionStatus.QUEUED)
    if event_id is not None:
        changes = [replace(change, event_id=event_id) for change in changes]
    record(connection, changes, actor=actor, reason=ChangeReason.RETRIED_BY_HAND)
    return OperationResult(
        Counter(row.queue for row in rows), {each: error for each, error in refusals.items() if error is not None}
    )


def _refusal(
    row: Row[Any], attempts: Mapping[tuple[str, int], int | None], paused: set[str]
) -> TaskExecutorError | None:
    status = ExecutionStatus(row.status)
    if status not in RETRIABLE:
        return ConflictError(
            f"The execution {row.execution_id!r} is {status}: only FAILED and CANCELLED executions can be retried."
        )
    if (row.endpoint, row.endpoint_version) not in attempts:
        return ConflictError(f"The endpoint {row.endpoint!r} was deleted, so the execution cannot be retried.")
    if attempts[row.endpoint, row.endpoint_version] is None:
        return ConflictError(
            f"The retry policy of version {row.endpoint_version} of the endpoint {row.endpoint!r} cannot be read, so "
            "the execution cannot be retried. Create a new job with its input."
        )
    if row.job_id in paused:
        return ConflictError(f"The job {row.job_id!r} is PAUSED. Resume it before you retry its executions.")
    return None


def _attempts_more(connection: Connection, locked: Sequence[Row[Any]]) -> dict[tuple[str, int], int | None]:
    """Return the attempts that each version of an existing endpoint allows; None for an unreadable policy."""
    versions = sorted({(row.endpoint, row.endpoint_version) for row in locked})
    found = connection.execute(ENDPOINTS, {"endpoints": sorted({endpoint for endpoint, _ in versions})})
    alive = {row.name for row in found}
    wanted = [(endpoint, version) for endpoint, version in versions if endpoint in alive]
    params = {"endpoints": [endpoint for endpoint, _ in wanted], "versions": [version for _, version in wanted]}
    return {(row.endpoint, row.version): _attempts_of(row.retry_policy) for row in connection.execute(POLICIES, params)}


def _attempts_of(stored: Any) -> int | None:
    try:
        most = RetryPolicy.from_json(stored).max_attempts
    except (AttributeError, TypeError, ValueError):
        return None
    return most if isinstance(most, int) else None
