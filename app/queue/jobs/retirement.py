"""Retired jobs: how and when they ended, for messages that refuse a change."""

from sqlalchemy import Connection

from app.kernel.db import Database
from app.kernel.db.reads import fetch_of
from app.kernel.function_types import Fetch
from app.kernel.sql import statement
from app.queue.jobs.job_model import Job
from app.queue.reading.explanation import CANCELLING, LAST_EVENT
from app.queue.reading.waiting_reasons import at
from schema.states import ExecutionStatus

REASON = statement("jobs.end_reason", "SELECT end_reason FROM jobs WHERE job_id = :job_id")
# The last tick of a job is materialised ahead of its instant, which ends the job before its last run.
OPEN = statement(
    "jobs.last_open_execution",
    """
    SELECT execution_id, run_at FROM executions WHERE job_id = :job_id AND completed_at IS NULL
     ORDER BY run_at DESC LIMIT 1
    """,
)
_RETRIABLE = {ExecutionStatus.FAILED, ExecutionStatus.CANCELLED}


def refusal(reader: Database | Connection, job: Job, action: str) -> str:
    """Return the message that a retired job cannot be `action`, a participle: how it ended, and the remedy."""
    fetch = fetch_of(reader)
    when = "" if job.retired_at is None else f" at {at(job.retired_at)}"
    if job.replaced_by_id is not None:
        return (
            f"The job {job.job_id!r} was replaced{when}, and cannot be {action}. Use its next version: "
            f"{job.replaced_by_id!r}."
        )
    another = "Create another job."
    if job.execution is not None and job.execution.status in _RETRIABLE:
        another = f"Create another job, or use POST /executions/{job.execution.execution_id}/retry."
    for row in fetch(OPEN, {"job_id": job.job_id}) if action == "paused" else ():
        another = f"Its last execution, due at {at(row.run_at)}, is unfinished: to stop it, use"
        another += f" POST /executions/{row.execution_id}/cancel."
    return f"The job {job.job_id!r} {_end(fetch, job, when)}, and cannot be {action}. {another}"


def _end(fetch: Fetch, job: Job, when: str) -> str:
    execution = job.execution
    if execution is not None and execution.status is not ExecutionStatus.CANCELLED:
        return f"ended with {execution.status}{when}"
    if execution is not None:
        params = {"execution_id": execution.execution_id, "reasons": [reason.value for reason in CANCELLING]}
        actors = [row.actor for row in fetch(LAST_EVENT, params) if row.actor]
        return f"was cancelled{when}{''.join(f' by {actor}' for actor in actors)}"
    reasons = [row.end_reason for row in fetch(REASON, {"job_id": job.job_id})]
    return f"was cancelled{when}" if reasons == ["CANCELLED"] else f"ended{when}, because no tick was left"
