"""Manual retry of a failed or cancelled execution: more attempts, numbered after those it had."""

from sqlalchemy import Connection

from app import ids
from app.catalog.retry_policy import RetryPolicy
from app.db import Database
from app.errors import ConflictError, ExecutionNotFoundError
from app.executions import events
from app.executions.ending import letters
from app.executions.events import Reason, StateChange
from app.executions.reading.dead_letters import DeadLetter
from app.sql import statement
from app.tracing.context import TraceContext
from schema.states import ExecutionStatus, JobStatus, Resolution

LOCK = statement(
    "executions.lock_for_retry",
    """
    SELECT e.execution_id, e.job_id, e.endpoint, e.endpoint_version, e.queue, e.status, e.attempt_count
      FROM executions AS e WHERE e.execution_id = :execution_id FOR UPDATE
    """,
)
# FOR KEY SHARE makes a deletion of the endpoint wait, and then find this execution; a change of its flow passes.
ENDPOINT = statement(
    "executions.endpoint_to_retry",
    "SELECT e.name FROM endpoints AS e WHERE e.name = :endpoint AND e.deleted_at IS NULL FOR KEY SHARE",
)
POLICY = statement(
    "executions.policy_to_retry",
    "SELECT retry_policy FROM endpoint_versions WHERE endpoint = :endpoint AND version = :version",
)
JOB_STATUS = statement("executions.job_to_retry", "SELECT status FROM jobs WHERE job_id = :job_id FOR UPDATE")
# Earlier attempts keep their numbers, so the maximum grows. Their configs are let go: the next claim takes those of
# today, so that an execution can be retried after its config was put right.
RETRY = statement(
    "executions.retry",
    """
    UPDATE executions
       SET status = 'QUEUED', run_at = now(), completed_at = NULL, cancel_requested_at = NULL,
           abort_requested_at = NULL, config_revision = NULL, result_pruned_at = NULL,
           max_attempts = attempt_count + CAST(:more AS BIGINT),
           trace_context = COALESCE(CAST(:trace AS TEXT), trace_context)
     WHERE execution_id = :execution_id AND status IN ('FAILED', 'CANCELLED')
    RETURNING execution_id
    """,
)
# A one-shot job is active while its execution is not over.
REOPEN = statement(
    "executions.reopen_one_shot",
    """
    UPDATE jobs SET status = 'ACTIVE', retired_at = NULL
     WHERE job_id = :job_id AND trigger_type IN ('IMMEDIATE', 'DELAYED') AND status = 'RETIRED'
    """,
)

RETRIABLE = frozenset({ExecutionStatus.FAILED, ExecutionStatus.CANCELLED})


def retry_execution(
    database: Database, execution_id: str, *, actor: str | None, trace: TraceContext | None = None
) -> str:
    """Queue an execution again, due now, with as many attempts more as its endpoint version allows; returns its queue.

    Its further attempts go on in `trace`, where there is one.

    Raises ExecutionNotFoundError, or ConflictError when it is neither FAILED nor CANCELLED, when its endpoint was
    deleted, or when its job is paused.
    """
    event_id = ids.event_id()
    text = None if trace is None else trace.as_text(is_link=False)
    return database.transact(lambda connection: _retry(connection, execution_id, event_id, actor=actor, trace=text))


def redrive_execution(
    database: Database, letter: DeadLetter, *, actor: str | None, trace: TraceContext | None = None
) -> str:
    """Do the same for the execution of a dead letter that is open, which resolves it; returns its queue.

    Does nothing more to one that was redriven before. Raises ConflictError also for one that is resolved otherwise.
    """
    event_id = ids.event_id()
    text = None if trace is None else trace.as_text(is_link=False)

    def body(connection: Connection) -> str:
        return _retry(connection, letter.execution_id, event_id, actor=actor, trace=text, letter=letter)

    return database.transact(body)


def _retry(
    connection: Connection,
    execution_id: str,
    event_id: str,
    *,
    actor: str | None,
    trace: str | None,
    letter: DeadLetter | None = None,
) -> str:
    row = connection.execute(LOCK, {"execution_id": execution_id}).first()
    if row is None:
        raise ExecutionNotFoundError.of(execution_id)
    queue: str = row.queue
    if events.recorded(connection, event_id) is not None:
        return queue  # the first run of this transaction was committed, although its answer was lost
    if letter is not None and not letters.lock_open(connection, letter.letter_id, redriven_as=execution_id):
        return queue
    status = ExecutionStatus(row.status)
    if status not in RETRIABLE:
        raise ConflictError(
            f"The execution {execution_id!r} is {status}; only one that is FAILED or CANCELLED can be retried."
        )
    more = _attempts_more(connection, row.endpoint, row.endpoint_version)
    if connection.execute(JOB_STATUS, {"job_id": row.job_id}).scalar() == JobStatus.PAUSED:
        raise ConflictError(f"The job {row.job_id!r} is PAUSED; resume it before you retry its executions.")
    connection.execute(RETRY, {"execution_id": execution_id, "more": more, "trace": trace})
    connection.execute(REOPEN, {"job_id": row.job_id})
    resolution = Resolution.RETRIED if letter is None else Resolution.REDRIVEN
    letters.resolve_of_execution(connection, execution_id, actor, resolution)
    change = StateChange(execution_id, status, ExecutionStatus.QUEUED, row.attempt_count, event_id)
    events.record(connection, [change], actor=actor, reason=Reason.RETRIED_BY_HAND)
    return queue


def _attempts_more(connection: Connection, endpoint: str, version: int) -> int:
    if connection.execute(ENDPOINT, {"endpoint": endpoint}).first() is None:
        raise ConflictError(f"The endpoint {endpoint!r} was deleted, so the execution cannot be retried.")
    policy = connection.execute(POLICY, {"endpoint": endpoint, "version": version}).scalar()
    return RetryPolicy.from_json(policy).max_attempts
