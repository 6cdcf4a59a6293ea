"""Creating a job: one statement, one round trip, once its endpoint is cached."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row

from app import ids
from app.db import Database
from app.errors import Detail, InputValidationError, InvalidCronError, TaskExecutorError, UnavailableError
from app.jobs import read
from app.jobs.cron import Schedule
from app.jobs.model import ExecutionSummary, Job, NewJob
from app.jobs.targets import Target, Targets
from app.sql import statement
from schema.states import ExecutionStatus, JobStatus, Trigger

MAX_TRIES = 4
_MICROSECOND = timedelta(microseconds=1)

# `e` is empty when the cached endpoint is out of date, `j` when the key is taken or when a retry finds that its first
# run had come through: no row comes back, and a second statement tells which. FOR SHARE makes whoever deletes the
# endpoint wait, and then find this job.
_CURRENT = """
    WITH e AS (
      SELECT e.name FROM endpoints e LEFT JOIN payload_specs p ON p.name = e.payload_spec_ref
       WHERE e.name = :endpoint AND e.version = :version AND e.deleted_at IS NULL
         AND p.updated_at IS NOT DISTINCT FROM CAST(:spec_updated_at AS TIMESTAMPTZ)
         FOR SHARE OF e)"""

# The database's clock decides whether a delayed job waits for the promoter. A time in the past means now, so that
# nobody gets to the head of the queue by an old date.
CREATE_ONE_SHOT = statement(
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
CREATE_CRON = statement(
    "jobs.create_cron",
    _CURRENT  # noqa: S608 - a constant of this module
    + """
    INSERT INTO jobs (job_id, endpoint, endpoint_version, endpoint_type, trigger_type, idempotency_key, input,
                      max_attempts, cron_expression, cron_timezone, cron_starts_at, cron_ends_at, cron_next_run_at)
    SELECT :job_id, e.name, :version, :type, :trigger, :key, CAST(:input AS JSONB), :max_attempts,
           :cron, :timezone, CAST(:starts_at AS TIMESTAMPTZ), CAST(:ends_at AS TIMESTAMPTZ),
           CAST(:first_tick AS TIMESTAMPTZ)
      FROM e
    ON CONFLICT DO NOTHING
    RETURNING status, created_at
    """,
)


@dataclass(frozen=True, slots=True)
class Created:
    """A job, and whether this request made it; otherwise it is the first one with the same key."""

    job: Job
    is_new: bool


class Creator:
    """Creates jobs; built once per process."""

    def __init__(self, database: Database, *, shards: int, look_ahead_seconds: float) -> None:
        self._database = database
        self._targets = Targets(database)
        self._shards = shards
        self._look_ahead_ms = round(look_ahead_seconds * 1000)

    def create(self, new: NewJob, now: datetime) -> Created:
        """Store a job, or find the one with its key.

        A replay is recognised whatever its body, so also when the body could not be taken any more. `now` is only the
        default of `starts_at`.
        """
        try:
            return self._create(new, now)
        except TaskExecutorError as error:
            first = None if error.status >= 500 else self._first_with_key(new)
            if first is None:
                raise
            return Created(first, is_new=False)

    def _create(self, new: NewJob, now: datetime) -> Created:
        new, first_tick = _scheduled(new, now)
        is_cron = new.trigger is Trigger.CRON
        job_id, execution_id = ids.job_id(), ids.execution_id()
        target = self._fitting(new)
        for _ in range(MAX_TRIES):
            params = _params(new, target, job_id)
            params |= _cron_params(new, first_tick) if is_cron else self._one_shot_params(new, target, execution_id)
            rows = self._database.fetch(CREATE_CRON if is_cron else CREATE_ONE_SHOT, params)
            if rows:
                return Created(_job(new, target, params, rows[0]), is_new=True)
            # The same id: it is ours, written by a first run whose answer was lost.
            found = self._first_with_key(new) or read.find(self._database, job_id)
            if found is not None:
                return Created(found, is_new=found.job_id == job_id)
            target = self._checked(new, self._targets.load(new.endpoint))
        raise UnavailableError("The endpoint keeps changing; try again.")

    def _fitting(self, new: NewJob) -> Target:
        """Find the endpoint and check the input; a cached payload spec may accept, but only a fresh one refuses."""
        cached = self._targets.cached(new.endpoint)
        if cached is not None and not cached.faults(new.input):
            return cached
        return self._checked(new, self._targets.load(new.endpoint))

    def _checked(self, new: NewJob, target: Target) -> Target:
        faults = target.faults(new.input)
        if faults:
            details: list[Detail] = [
                {"pointer": f"/input{fault['pointer']}", "message": fault["message"]} for fault in faults
            ]
            first = details[0]
            raise InputValidationError(
                f"The input does not match the payload spec. {first['pointer']}: {first['message']}", details
            )
        return target

    def _first_with_key(self, new: NewJob) -> Job | None:
        if new.idempotency_key is None:
            return None
        return read.find_by_key(self._database, new.endpoint, new.idempotency_key)

    def _one_shot_params(self, new: NewJob, target: Target, execution_id: str) -> dict[str, Any]:
        return {
            "run_at": new.run_at,
            "execution_id": execution_id,
            "queue": target.type.queue,
            "shard": ids.shard_of(execution_id, self._shards),
            "look_ahead_ms": self._look_ahead_ms,
        }


def _params(new: NewJob, target: Target, job_id: str) -> dict[str, Any]:
    return {
        "endpoint": target.name,
        "version": target.version,
        "spec_updated_at": target.spec_updated_at,
        "type": target.type.value,
        "max_attempts": target.max_attempts,
        "job_id": job_id,
        "trigger": new.trigger.value,
        "key": new.idempotency_key,
        "input": json.dumps(new.input, ensure_ascii=False, separators=(",", ":")),
    }


def _cron_params(new: NewJob, first_tick: datetime | None) -> dict[str, Any]:
    return {
        "cron": new.cron,
        "timezone": new.timezone,
        "starts_at": new.starts_at,
        "ends_at": new.ends_at,
        "first_tick": first_tick,
    }


def _scheduled(new: NewJob, now: datetime) -> tuple[NewJob, datetime | None]:
    """Fill in the start of a CRON job and find its first tick; raises InvalidCronError when it would never fire.

    A start in the past begins now: the job did not exist then, so it missed no tick.
    """
    if new.trigger is not Trigger.CRON:
        return new, None
    schedule = Schedule.parse(new.cron or "", new.timezone or "")
    starts_at = new.starts_at or now
    first_tick = schedule.next_after(max(starts_at, now) - _MICROSECOND)
    if first_tick is None or (new.ends_at is not None and first_tick >= new.ends_at):
        message = "does not fire between starts_at and ends_at"
        raise InvalidCronError(f"The cron expression {message}.", [{"pointer": "/cron", "message": message}])
    return replace(new, starts_at=starts_at), first_tick


def _job(new: NewJob, target: Target, params: Mapping[str, Any], row: Row[Any]) -> Job:
    """Make the job as a read would: all but the database's own columns is known here."""
    execution = None
    if "execution_id" in params:
        execution = ExecutionSummary(params["execution_id"], ExecutionStatus(row.status), row.created_at)
    return Job(
        job_id=params["job_id"],
        endpoint=target.name,
        endpoint_type=target.type,
        endpoint_version=target.version,
        trigger=new.trigger,
        status=JobStatus.ACTIVE,
        version=1,
        idempotency_key=new.idempotency_key,
        input=new.input,
        run_at=new.run_at,
        cron=new.cron,
        timezone=new.timezone,
        starts_at=new.starts_at,
        ends_at=new.ends_at,
        next_run_at=params.get("first_tick"),
        created_at=row.created_at,
        retired_at=None,
        execution=execution,
    )
