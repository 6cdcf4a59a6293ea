"""The statements that insert a job, each of which finds out by itself whether the endpoint is still the cached one.

`e` is empty when it is not, `j` when the key is taken or when a retry finds that its first run had come through: then
no row comes back, and a second statement tells which. FOR SHARE makes whoever deletes the endpoint wait, and then find
the job.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from app import ids
from app.formats import compact_json
from app.jobs.endpoint_cache import CachedEndpoint
from app.jobs.model import ExecutionSummary, Job, NewJob
from app.sql import statement
from schema.states import ExecutionStatus, JobStatus

_CURRENT = """
    WITH e AS (
      SELECT e.name FROM endpoints e LEFT JOIN payload_specs p ON p.name = e.payload_spec_ref
       WHERE e.name = :endpoint AND e.version = :version AND e.deleted_at IS NULL
         AND p.updated_at IS NOT DISTINCT FROM CAST(:spec_updated_at AS TIMESTAMPTZ)
         FOR SHARE OF e)"""

# The database's clock decides whether a delayed job waits for the promoter. A time in the past means now, so that
# nobody gets to the head of the queue by an old date.
ONE_SHOT = statement(
    "jobs.create_one_shot",
    _CURRENT  # noqa: S608 - a constant of this module
    + """,
    j AS (
      INSERT INTO jobs (job_id, endpoint, endpoint_version, endpoint_type, trigger_type, idempotency_key, input,
                        max_attempts, run_at)
      SELECT :job_id, e.name, :version, :type, :trigger, :key, CAST(:input AS JSONB), :max_attempts,
             CAST(:run_at AS TIMESTAMPTZ)
        FROM e
      ON CONFLICT DO NOTHING
      RETURNING job_id, endpoint, endpoint_version, endpoint_type, idempotency_key, max_attempts,
                GREATEST(COALESCE(run_at, now()), now()) AS due)
    INSERT INTO executions (execution_id, job_id, endpoint, endpoint_version, endpoint_type, queue, shard,
                            idempotency_key, status, max_attempts, run_at, scheduled_at)
    SELECT :execution_id, j.job_id, j.endpoint, j.endpoint_version, j.endpoint_type, :queue, :shard,
           j.idempotency_key,
           CASE WHEN j.due > now() + :look_ahead_ms * INTERVAL '1 millisecond' THEN 'PENDING' ELSE 'QUEUED' END,
           j.max_attempts, j.due, j.due
      FROM j
    RETURNING status, created_at
    """,
)
REPEATING = statement(
    "jobs.create_repeating",
    _CURRENT  # noqa: S608 - a constant of this module
    + """
    INSERT INTO jobs (job_id, endpoint, endpoint_version, endpoint_type, trigger_type, idempotency_key, input,
                      max_attempts, version, previous_version_id, first_version_id, status, paused_at,
                      cron_expression, cron_timezone, interval_ms, fixed_delay, cron_starts_at, cron_ends_at,
                      cron_next_run_at, catch_up, max_catch_up, overlap)
    SELECT :job_id, e.name, :version, :type, :trigger, :key, CAST(:input AS JSONB),
           :max_attempts, :job_version, :previous_version_id, :first_version_id, :job_status,
           CASE WHEN :job_status = 'PAUSED' THEN now() END,
           :cron, :timezone, :every_ms, :fixed_delay, CAST(:starts_at AS TIMESTAMPTZ), CAST(:ends_at AS TIMESTAMPTZ),
           CAST(:first_tick AS TIMESTAMPTZ), :catch_up, :max_catch_up, :overlap
      FROM e
    ON CONFLICT DO NOTHING
    RETURNING created_at, paused_at
    """,
)


def target_params(target: CachedEndpoint) -> dict[str, Any]:
    """Say which endpoint the job is for, and as what it is known."""
    return {
        "endpoint": target.name,
        "version": target.version,
        "spec_updated_at": target.spec_updated_at,
        "type": target.type.value,
        "max_attempts": target.max_attempts,
    }


def job_params(new: NewJob, job_id: str) -> dict[str, Any]:
    """Say what every job has."""
    return {
        "job_id": job_id,
        "trigger": new.trigger.value,
        "key": new.idempotency_key,
        "input": compact_json(new.input),
    }


def one_shot_params(new: NewJob, target: CachedEndpoint, execution_id: str, shards: int) -> dict[str, Any]:
    """Say what the execution of a one-shot job has."""
    return {
        "run_at": new.run_at,
        "execution_id": execution_id,
        "queue": target.type.queue,
        "shard": ids.shard_of(execution_id, shards),
    }


def timetable_params(new: NewJob) -> dict[str, Any]:
    """Say when a job repeats."""
    table = new.timetable
    if table is None:
        return dict.fromkeys(_TIMETABLE) | {"fixed_delay": False, "catch_up": "all", "overlap": "allow"}
    return {
        "cron": table.cron,
        "timezone": table.timezone,
        "every_ms": table.every_ms,
        "fixed_delay": table.fixed_delay,
        "starts_at": table.starts_at,
        "ends_at": table.ends_at,
        "first_tick": new.first_tick,
        "catch_up": table.catch_up.value,
        "max_catch_up": table.max_catch_up,
        "overlap": table.overlap.value,
    }


_TIMETABLE = ("cron", "timezone", "every_ms", "starts_at", "ends_at", "first_tick", "max_catch_up")

FIRST_VERSION: dict[str, Any] = {
    "job_version": 1,
    "previous_version_id": None,
    "first_version_id": None,
    "job_status": JobStatus.ACTIVE.value,
}


def one_shot_job(new: NewJob, target: CachedEndpoint, job_id: str, execution: ExecutionSummary) -> Job:
    """Make a new one-shot job as a read would."""
    return _job(new, target, job_id, created_at=execution.created_at, execution=execution)


def repeating_job(new: NewJob, target: CachedEndpoint, params: Mapping[str, Any], row: Row[Any]) -> Job:
    """Make a new repeating job as a read would: all but the database's own columns is known here."""
    return _job(
        new,
        target,
        params["job_id"],
        created_at=row.created_at,
        status=JobStatus(params["job_status"]),
        version=params["job_version"],
        previous_version_id=params["previous_version_id"],
        first_version_id=params["first_version_id"],
        paused_at=row.paused_at,
    )


def summary(execution_id: str, row: Row[Any]) -> ExecutionSummary:
    """Sum up an execution that was just inserted."""
    return ExecutionSummary(execution_id, ExecutionStatus(row.status), row.created_at)


def _job(new: NewJob, target: CachedEndpoint, job_id: str, *, created_at: datetime, **more: Any) -> Job:
    return Job(
        job_id=job_id,
        endpoint=target.name,
        endpoint_type=target.type,
        endpoint_version=target.version,
        trigger=new.trigger,
        idempotency_key=new.idempotency_key,
        input=new.input,
        run_at=new.run_at,
        timetable=new.timetable,
        next_run_at=new.first_tick,
        created_at=created_at,
        **({"status": JobStatus.ACTIVE} | more),
    )
