"""Changes of a job (PUT, pause, resume, run) and reports on a job."""

from typing import Any

from marshmallow import validate

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
from app.queue.jobs.job_model import Job
from app.queue.jobs.job_pause import pause_job, resume_job
from app.queue.jobs.job_queries import get_job, versions_of
from app.queue.jobs.job_status import next_runs, status_of
from app.queue.jobs.job_update import update_job
from app.queue.reading.execution_queries import get_execution
from app.web.executions.execution_schemas import ExecutionSchema
from app.web.http.conditions import actor
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.http.request_fields import Body, Count
from app.web.http.request_log import note_execution, note_ids, trace_of_new_jobs
from app.web.jobs.answer_schemas import JobSchema
from app.web.jobs.jobs_api import resource
from app.web.jobs.request_schemas import ChangedJobSchema, PatchedJobSchema, changed_fields
from app.web.jobs.status_schemas import NextRunsSchema, StatusSchema, shape_status
from app.web.services import services, wake
from schema.states import JobStatus

MAX_RUNS = 100


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
def update(body: dict[str, Any], job_id: str) -> Job:
    """Replace a CRON or INTERVAL job by its next version, which has a new id; the old version is RETIRED.

    The new version uses the current endpoint. Executions of the old version that have not begun are cancelled;
    executions that have begun run to their end, retries included.
    """
    trace = trace_of_new_jobs()
    job = update_job(services().creator, job_id, changed_fields(body), actor().name, trace)
    note_ids(new_job_id=job.job_id)
    return job


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
def patch(body: dict[str, Any], job_id: str) -> Job:
    """Pause or resume a job with `status`, or replace it as PUT does."""
    if "status" not in body:
        return update(body, job_id)
    return pause(job_id) if body["status"] is JobStatus.PAUSED else resume(job_id)


@resource.route("POST", "/jobs/<job_id>/pause", returns=JobSchema, errors=[JobNotFoundError, ConflictError])
def pause(job_id: str) -> Job:
    """Pause a job: its ticks stop and its waiting executions are on hold; running attempts continue."""
    database = services().database
    pause_job(database, job_id, actor().name)
    return get_job(database, job_id)


@resource.route("POST", "/jobs/<job_id>/resume", returns=JobSchema, errors=[JobNotFoundError, ConflictError])
def resume(job_id: str) -> Job:
    """Resume a paused job with its next tick; executions on hold are released, except ticks of the pause."""
    database = services().database
    for queue in resume_job(database, job_id, services().look_ahead_ms, actor().name):
        wake(queue)
    return get_job(database, job_id)


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

    A one-shot job's execution becomes due now: 200, or 409 if it is already running.
    """
    database = services().database
    execution_id, is_new = run_now.run_job(database, job_id, services().shards, actor().name, trace_of_new_jobs())
    note_ids(execution_id=execution_id)
    execution = get_execution(database, execution_id)
    note_execution(execution.execution_id, job_id, execution.endpoint)
    wake(execution.queue)
    return execution, 201 if is_new else 200, {}


class NextRunsQuery(Body):
    count = Count(load_default=10, validate=validate.Range(1, MAX_RUNS))


@resource.route("GET", "/jobs/<job_id>/status", returns=StatusSchema, errors=[JobNotFoundError])
def status(job_id: str) -> dict[str, Any]:
    """Get the status of a job: HEALTHY if 95 % of the last 24 hours' executions succeeded, DEGRADED from 50 %.

    Below 50 % it is FAILING, and without an execution that ended within 24 hours IDLE.
    """
    return shape_status(status_of(services().database, job_id))


@resource.route(
    "GET", "/jobs/<job_id>/versions", query=PageQuery, returns=page_schema(JobSchema), errors=[JobNotFoundError]
)
def list_versions(query: dict[str, Any], job_id: str) -> dict[str, Any]:
    """List the versions of a job, newest first, by the id of any version."""
    database, wanted = services().database, page_request(query)
    return page_answer(versions_of(database, get_job(database, job_id), wanted), query)


@resource.route(
    "GET", "/jobs/<job_id>/next-runs", query=NextRunsQuery, returns=NextRunsSchema, errors=[JobNotFoundError]
)
def list_next_runs(query: dict[str, Any], job_id: str) -> dict[str, Any]:
    """List the next runs of a job, as far as they are known; none if it is paused or retired."""
    job = get_job(services().database, job_id)
    zone = None if job.timetable is None else job.timetable.timezone
    return {"timezone": zone or "UTC", "runs": next_runs(job, query["count"])}
