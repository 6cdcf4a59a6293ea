"""Running a job now, outside its timetable."""

from sqlalchemy import Connection

from app.kernel import ids
from app.kernel.db import Database
from app.kernel.errors import ConflictError
from app.kernel.sql import statement
from app.kernel.tracing.context import TraceContext
from app.queue.ending.execution_events import ChangeReason, StateChange, record, recorded
from app.queue.executions.execution_insertion import expires_at, insert_executions
from app.queue.jobs import job_queries, retirement
from app.queue.jobs.job_model import Job
from schema.states import ExecutionStatus, JobStatus

_INSERT = insert_executions(
    "j",
    "e",
    execution_id=":execution_id",
    shard=":shard",
    idempotency_key=":key",
    status="'QUEUED'",
    scheduled_at="now()",
    trace_context="CAST(:trace AS TEXT)",
)
EXTRA = statement(
    "executions.extra",
    """
    {insert}
      FROM jobs AS j JOIN endpoints AS e ON e.name = j.endpoint
     WHERE j.job_id = :job_id AND j.status <> 'RETIRED'
    ON CONFLICT (job_id, idempotency_key) DO NOTHING
    """,
    insert=_INSERT,
)
_EXPIRES_AT = expires_at("now()", "(SELECT max_age_ms FROM jobs WHERE job_id = :job_id)")
BRING_FORWARD = statement(
    "executions.bring_forward",
    """
    WITH waiting AS MATERIALIZED (
      SELECT execution_id, status FROM executions
       WHERE job_id = :job_id AND completed_at IS NULL AND status IN ('PENDING', 'QUEUED', 'RETRYING')
       ORDER BY execution_id FOR UPDATE)
    UPDATE executions AS e SET run_at = now(), on_hold = false,
                               scheduled_at = CASE WHEN e.attempt_count > 0 THEN e.scheduled_at
                                                   ELSE LEAST(e.scheduled_at, now()) END,
                               expires_at = CASE WHEN e.attempt_count > 0 THEN e.expires_at ELSE {expires_at} END,
                               status = CASE WHEN e.status = 'RETRYING' THEN 'RETRYING' ELSE 'QUEUED' END
      FROM waiting
     WHERE e.execution_id = waiting.execution_id AND e.status IN ('PENDING', 'QUEUED', 'RETRYING')
    RETURNING e.execution_id, waiting.status AS before, e.status, e.attempt_count
    """,
    expires_at=_EXPIRES_AT,
)


def run_job(
    database: Database, job_id: str, shards: int, actor: str | None = None, trace: TraceContext | None = None
) -> tuple[str, bool]:
    """Add an execution to a repeating job, or make a one-shot job's execution due now; a pause does not hold it.

    Returns the execution, and whether it was added; then it belongs to `trace`, otherwise to the trace of its job.
    Raises JobNotFoundError, or ConflictError for a job that is retired, or whose only execution is running.
    """
    execution_id, event_id = ids.execution_id(), ids.event_id()

    def body(connection: Connection) -> tuple[str, bool]:
        job, _ = job_queries.lock_job(connection, job_id)
        forwarded = recorded(connection, event_id)
        if forwarded is not None:
            # An earlier run was committed but its answer was lost; the execution may be running or ended.
            return forwarded, False
        if job.status is JobStatus.RETIRED:
            raise ConflictError(retirement.refusal(connection, job, "run"))
        if job.trigger.repeats:
            _add(connection, job, execution_id, shards, trace)
            return execution_id, True
        return _bring_forward(connection, job, event_id, actor), False

    return database.transact(body)


def _add(connection: Connection, job: Job, execution_id: str, shards: int, trace: TraceContext | None) -> None:
    params = {
        "job_id": job.job_id,
        "key": f"run_{execution_id}",
        "execution_id": execution_id,
        "shard": ids.shard_of(execution_id, shards),
        "trace": None if trace is None else trace.as_text(is_link=False),
    }
    connection.execute(EXTRA, params)


def _bring_forward(connection: Connection, job: Job, event_id: str, actor: str | None) -> str:
    row = connection.execute(BRING_FORWARD, {"job_id": job.job_id}).first()
    if row is None:
        raise ConflictError(
            f"The execution of the job {job.job_id!r} is already RUNNING. Wait for its end, or create another job."
        )
    before, after = ExecutionStatus(row.before), ExecutionStatus(row.status)
    change = StateChange(row.execution_id, before, after, row.attempt_count, event_id)
    record(connection, [change], actor=actor, reason=ChangeReason.RUN_BY_HAND)
    return change.execution_id
