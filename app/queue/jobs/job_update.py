"""Update of a repeating job: one transaction inserts a new version and retires the old one."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from app.catalog.endpoints import callback_targets
from app.kernel import ids
from app.kernel.db import Database
from app.kernel.errors import Detail, InvalidRequestError, JobNotUpdatableError, UnavailableError
from app.kernel.formats import rfc3339
from app.kernel.sql import statement
from app.kernel.tracing.context import TraceContext
from app.queue.ending.execution_events import ChangeReason
from app.queue.executions.execution_cancellation import CancellationScope
from app.queue.jobs import job_cancellation, job_insertion, job_queries, retirement
from app.queue.jobs.endpoint_cache import CachedEndpoint
from app.queue.jobs.job_cancellation import RetirementBatch
from app.queue.jobs.job_creation import MAX_TRIES, Creator
from app.queue.jobs.job_model import Job, NewJob
from app.queue.jobs.job_pause import missed_ticks
from app.schedule.timetable import DEFAULT_MAX_CATCH_UP, Timetable
from schema.states import CatchUp, JobStatus, Trigger

_FOREIGN = {Trigger.CRON: ("every_ms", "fixed_delay"), Trigger.INTERVAL: ("cron", "timezone")}
_NULLABLE = {"ends_at", "max_catch_up"}
_OF_JOB = ("name", "labels", "queue", "priority", "input", "callbacks")  # changeable fields outside the timetable

REPLACE = statement(
    "jobs.replace",
    """
    UPDATE jobs SET status = 'RETIRED', retired_at = now(), paused_at = NULL, cron_next_run_at = NULL,
                    replaced_by_id = :new_id, skipped_catch_up = skipped_catch_up + CAST(:missed AS BIGINT)
     WHERE job_id = :job_id AND status <> 'RETIRED'
    RETURNING job_id
    """,
)

# An execution may be claimed shortly before its tick and then runs to its end, so the new version must skip that tick.
# Executions that have not begun are cancelled, in this transaction or right after it. Executions of future ticks were
# created within the look-ahead, which bounds the scan of ended executions.
_TAKEN = """SELECT scheduled_at FROM executions
       WHERE job_id = :job_id AND {of_status} AND attempt_count > 0
         AND created_at > CAST(:now AS TIMESTAMPTZ) - CAST(:recent_ms AS BIGINT) * INTERVAL '1 millisecond'
         AND scheduled_at > CAST(:now AS TIMESTAMPTZ) AND scheduled_at <= CAST(:last_tick AS TIMESTAMPTZ)"""
TAKEN = statement(
    "jobs.last_taken_tick",
    """
    SELECT max(taken.scheduled_at) AS tick FROM (
      {unfinished}
      UNION ALL
      {finished}) AS taken
    """,
    unfinished=_TAKEN.format(of_status="completed_at IS NULL"),
    finished=_TAKEN.format(of_status="completed_at IS NOT NULL AND status IN ('SUCCESS', 'FAILED', 'CANCELLED')"),
)
_MARGIN_MS = 60_000


def update_job(
    creator: Creator,
    job_id: str,
    changes: Mapping[str, Any],
    actor: str | None = None,
    trace: TraceContext | None = None,
) -> Job:
    """Create the next version of a repeating job and return it; its executions link to `trace`.

    `changes` are fields of Timetable, and `name`, `labels`, `queue`, `priority`, `input` and `callbacks`; other fields
    are kept. The new version uses the current endpoint, and is paused if the old version was. Executions of the old
    version that have not begun are cancelled.
    Raises JobNotFoundError, JobNotUpdatableError for a one-shot or a retired job, and the errors of a creation.
    """
    database, new_id = creator.database, ids.job_id()
    scope = CancellationScope(actor=actor, begun=False, reason=ChangeReason.JOB_UPDATED)
    old = _updatable(database, job_queries.get_job(database, job_id), new_id)
    wanted = next_version(old, changes)
    target = creator.targets.accepting(wanted.endpoint, wanted.input)
    callback_targets.check(database.fetch, wanted.endpoint, wanted.callbacks)
    for _ in range(MAX_TRIES):
        try:
            first = _replace(creator, (job_id, new_id), changes, target, scope, trace=trace)
            job_cancellation.settle_the_rest(database, job_id, scope, first)
        except _EndpointChangedError:
            target = creator.targets.checked(wanted.endpoint, wanted.input)
        else:
            return job_queries.get_job(database, new_id)
    raise UnavailableError("The endpoint is changing too often. Retry later.")


class _EndpointChangedError(Exception):
    """The cached endpoint is stale."""


def _replace(
    creator: Creator,
    ids_: tuple[str, str],
    changes: Mapping[str, Any],
    target: CachedEndpoint,
    scope: CancellationScope,
    *,
    trace: TraceContext | None,
) -> RetirementBatch:
    """Replace the old version by the new version; raises _EndpointChangedError."""
    job_id, new_id = ids_

    def body(connection: Connection) -> RetirementBatch:
        locked, now = job_queries.lock_job(connection, job_id)
        if locked.replaced_by_id == new_id:
            # An earlier run of this transaction was committed, but its answer was lost.
            return job_cancellation.settle(connection, job_id, scope)
        old = _updatable(connection, locked, new_id)
        # This statement decides, since a lock can be lost: the second of two updates finds the old version retired.
        replaced = {"job_id": job_id, "new_id": new_id, "missed": missed_ticks(old, now)}
        if connection.execute(REPLACE, replaced).first() is None:
            raise JobNotUpdatableError(f"The job {job_id!r} was updated or retired concurrently.")
        settled = job_cancellation.settle(connection, job_id, scope)
        # The last tick after now that the old version still delivers.
        recent = {"now": now, "last_tick": old.last_tick_at, "recent_ms": creator.look_ahead_ms + _MARGIN_MS}
        taken = connection.execute(TAKEN, {"job_id": job_id} | recent).one().tick
        new = replace(scheduled_version(old, changes, now, taken), trace=trace)
        params = job_insertion.params_of(new, target, new_id, creator.shards) | {
            "status": old.status.value,
            "version": old.version + 1,
            "previous_version_id": job_id,
            "first_version_id": old.first_id,
        }
        several = job_insertion.params_of_several([params], repeating=True)
        if connection.execute(job_insertion.REPEATING, several).first() is None:
            raise _EndpointChangedError
        return settled

    return creator.database.transact(body)


def _updatable(reader: Database | Connection, job: Job, new_id: str) -> Job:
    if not job.trigger.repeats:
        raise JobNotUpdatableError(
            f"The job {job.job_id!r} is {job.trigger}: only CRON and INTERVAL jobs are updated. Cancel it, and create "
            "another job; or move its execution by POST /bulk-operations."
        )
    if job.status is JobStatus.RETIRED and job.replaced_by_id != new_id:
        raise JobNotUpdatableError(retirement.refusal(reader, job, "updated"))
    return job


def next_version(old: Job, changes: Mapping[str, Any]) -> NewJob:
    """Return the job that replaces `old`, without timetable and key; the key stays with the first version."""
    kept = {name: changes.get(name, getattr(old, name)) for name in _OF_JOB}
    return NewJob(endpoint=old.endpoint, trigger=old.trigger, **kept)


def scheduled_version(old: Job, changes: Mapping[str, Any], now: datetime, taken: datetime | None) -> NewJob:
    """Return the job that replaces `old` now, with its timetable and its first tick, which is later than `taken`."""
    table = _changed(old, changes)
    tick = table.first_tick(now, start_given=changes.get("starts_at") is not None, after=taken)
    paused = old.status is JobStatus.PAUSED
    return replace(next_version(old, changes), timetable=table, first_tick=None if paused else tick)


def _changed(old: Job, changes: Mapping[str, Any]) -> Timetable:
    if old.timetable is None:
        raise JobNotUpdatableError(f"The job {old.job_id!r} has no timetable.")
    foreign = next((name for name in _FOREIGN[old.trigger] if changes.get(name) is not None), None)
    if foreign is not None:
        field = "every" if foreign == "every_ms" else foreign
        other = Trigger.INTERVAL if old.trigger is Trigger.CRON else Trigger.CRON
        fault = f"Only for {other} jobs; the trigger of this job is {old.trigger}. Create another job to change it."
        raise InvalidRequestError.of_faults(Detail(pointer=f"/{field}", message=fault))
    # A null is a value of some fields only.
    given = {name: value for name, value in changes.items() if value is not None or name in _NULLABLE}
    table = replace(old.timetable, **{name: value for name, value in given.items() if name not in _OF_JOB})
    if table.catch_up is not old.timetable.catch_up and "max_catch_up" not in changes:
        # The limit belongs to the old catch-up policy.
        table = replace(table, max_catch_up=DEFAULT_MAX_CATCH_UP if table.catch_up is CatchUp.ALL else None)
    if table.ends_at is not None and table.ends_at <= table.starts_at:
        fault = f"Must be after starts_at ({rfc3339(table.starts_at)})."
        raise InvalidRequestError.of_faults(Detail(pointer="/ends_at", message=fault))
    return table
