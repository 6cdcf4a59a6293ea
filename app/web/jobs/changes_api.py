"""Changes of a job: PUT, pause, resume, run."""

from typing import Any

from app.kernel.errors import (
    ConflictError,
    EndpointNotFoundError,
    InputValidationError,
    InvalidCallbackError,
    InvalidCronError,
    JobNotFoundError,
    JobNotUpdatableError,
)
from app.queue.jobs import run_now
from app.queue.jobs.job_pause import pause_job, resume_job
from app.queue.jobs.job_queries import get_job
from app.queue.jobs.job_update import update_job
from app.queue.reading.execution_queries import get_execution
from app.web.executions.execution_schemas import ExecutionSchema, shape_record
from app.web.http.conditions import actor
from app.web.http.request_log import note_ids
from app.web.http.request_spans import note_execution, trace_of_new_jobs
from app.web.jobs.answer_schemas import JobSchema, shape_job
from app.web.jobs.jobs_api import resource
from app.web.jobs.request_schemas import ChangedJobSchema, PatchedJobSchema, changed_fields
from app.web.services import services, wake
from schema.states import JobStatus


@resource.route(
    "PUT",
    "/jobs/<job_id>",
    body=ChangedJobSchema,
    returns=JobSchema,
    errors=[
        JobNotFoundError,
        EndpointNotFoundError,
        JobNotUpdatableError,
        InvalidCronError,
        InputValidationError,
        InvalidCallbackError,
    ],
)
def update(body: dict[str, Any], job_id: str) -> dict[str, Any]:
    """Replace a CRON or INTERVAL job by its next version, which has a new id; the old version is RETIRED.

    The new version uses the current endpoint. Executions of the old version that have not begun are cancelled;
    executions that have begun run to their end, retries included.
    """
    trace = trace_of_new_jobs()
    job = update_job(services().creator, job_id, changed_fields(body), actor().name, trace)
    note_ids(new_job_id=job.job_id)
    return shape_job(job)


@resource.route(
    "PATCH",
    "/jobs/<job_id>",
    body=PatchedJobSchema,
    returns=JobSchema,
    errors=[
        *(JobNotFoundError, EndpointNotFoundError, ConflictError, JobNotUpdatableError),
        *(InvalidCronError, InputValidationError, InvalidCallbackError),
    ],
)
def patch(body: dict[str, Any], job_id: str) -> dict[str, Any]:
    """Pause or resume a job with `status`, or replace it as PUT does."""
    if "status" not in body:
        return update(body, job_id)
    return pause(job_id) if body["status"] is JobStatus.PAUSED else resume(job_id)


@resource.route("POST", "/jobs/<job_id>/pause", returns=JobSchema, errors=[JobNotFoundError, ConflictError])
def pause(job_id: str) -> dict[str, Any]:
    """Pause a job: its ticks stop and its waiting executions are on hold; running attempts continue."""
    database = services().database
    pause_job(database, job_id, actor().name)
    return shape_job(get_job(database, job_id))


@resource.route("POST", "/jobs/<job_id>/resume", returns=JobSchema, errors=[JobNotFoundError, ConflictError])
def resume(job_id: str) -> dict[str, Any]:
    """Resume a paused job with its next tick; executions on hold are released."""
    database = services().database
    for queue in resume_job(database, job_id, services().look_ahead_ms, actor().name):
        wake(queue)
    return shape_job(get_job(database, job_id))


@resource.route(
    "POST",
    "/jobs/<job_id>/run",
    returns=ExecutionSchema,
    status=201,
    also=200,
    errors=[JobNotFoundError, ConflictError],
)
def run(job_id: str) -> tuple[Any, int, dict[str, str]]:
    """Run a job now, even if it is paused: 201 with an extra execution of a CRON or INTERVAL job.

    A one-shot job's execution becomes due now: 200, or 409 if it is running already.
    """
    database = services().database
    ran = run_now.run_job(database, job_id, services().shards, actor().name, trace_of_new_jobs())
    note_ids(execution_id=ran.execution_id)
    execution = get_execution(database, ran.execution_id)
    note_execution(execution.execution_id, job_id, execution.endpoint)
    wake(execution.queue)
    return shape_record(execution), 201 if ran.is_new else 200, {}
