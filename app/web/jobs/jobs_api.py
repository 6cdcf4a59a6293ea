"""/jobs."""

from typing import Any

from app.kernel.access.api_keys import Scope
from app.kernel.errors import (
    EndpointNotFoundError,
    ExecutionNotCancellableError,
    InputValidationError,
    InvalidCallbackError,
    InvalidCronError,
    JobNotFoundError,
)
from app.queue.jobs import job_cancellation
from app.queue.jobs.job_creation import Created
from app.queue.jobs.job_filter import JobFilter
from app.queue.jobs.job_list import page_of_jobs
from app.queue.jobs.job_queries import get_job
from app.queue.reading.execution_list import ExecutionFilter, page_of_executions
from app.web.executions.execution_schemas import CancelQuery, ExecutionOfJobQuery, ExecutionSchema, shape_record
from app.web.http import preferences, request_traces
from app.web.http.conditions import actor
from app.web.http.pagination import page_answer, page_request, page_schema
from app.web.jobs import creating, job_keys
from app.web.jobs.answer_schemas import CreatedJobSchema, JobSchema, shape_job
from app.web.jobs.request_schemas import JobQuery, NewJobSchema, new_job
from app.web.openapi.resource import Resource
from app.web.services import services

resource = Resource("jobs", "Invocations of endpoints: now, later or on a schedule.", write_scope=Scope.JOBS_WRITE)


@resource.route(
    "POST",
    "/jobs",
    body=NewJobSchema,
    returns=CreatedJobSchema,
    status=201,
    also=(200, 202),
    own_key=job_keys.PARAMETER_OF_JOBS,
    header=preferences.PARAMETER,
    errors=[EndpointNotFoundError, InvalidCronError, InputValidationError, InvalidCallbackError],
)
def create(body: dict[str, Any]) -> tuple[Any, int, dict[str, str]]:
    """Create a job. The same idempotency key again answers 200 with the first job, whatever the body.

    With `Prefer: wait=10` the answer comes once the job's execution is over, and has its `result`; after so many
    seconds it is a 202, whose `Location` tells where the result will be. The same request again waits for the same job.
    """
    return creating.answer(creating.earlier() or _created(body))


def _created(body: dict[str, Any]) -> Created:
    body["idempotency_key"] = job_keys.key_of(body)
    trace = request_traces.trace_of_new_jobs()
    return creating.create(new_job(body, trace), trace)


@resource.route("GET", "/jobs", query=JobQuery, returns=page_schema(JobSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List jobs, newest first.

    A page holds at most 4 MiB of inputs, and is handed out as it is when its jobs are few among very many others. So it
    may have fewer jobs than `limit`, even none: go on as long as there is a cursor.
    """
    wanted = page_request(query)
    return page_answer(page_of_jobs(services().database, JobFilter(**query), wanted), shape_job, query)


@resource.route("GET", "/jobs/<job_id>", returns=JobSchema, errors=[JobNotFoundError])
def get(job_id: str) -> dict[str, Any]:
    """Get a job."""
    return shape_job(get_job(services().database, job_id))


@resource.route(
    "POST",
    "/jobs/<job_id>/cancel",
    query=CancelQuery,
    returns=JobSchema,
    also=202,
    errors=[JobNotFoundError, ExecutionNotCancellableError],
)
def cancel(query: dict[str, Any], job_id: str) -> tuple[Any, int]:
    """Retire a job and cancel what has not begun. 409 when a one-shot job's execution is running or over.

    Executions of a CRON or INTERVAL job that have begun run to their end, retries included. With
    `if_running=request` (202) nothing is attempted again: what is running ends after its present attempt. With
    `if_running=abort` (202) that attempt is broken off.
    """
    database = services().database
    done = job_cancellation.cancel_job(database, job_id, if_running=query.get("if_running"), actor=actor().name)
    return shape_job(get_job(database, job_id)), 202 if done.asked else 200


@resource.route(
    "GET",
    "/jobs/<job_id>/executions",
    query=ExecutionOfJobQuery,
    returns=page_schema(ExecutionSchema),
    errors=[JobNotFoundError],
)
def list_executions(query: dict[str, Any], job_id: str) -> dict[str, Any]:
    """List the executions of a job, newest first."""
    database, wanted = services().database, page_request(query)
    page = page_of_executions(database, ExecutionFilter(job_id=job_id, **query), wanted)
    if not page.items and page.next is None:
        get_job(database, job_id)
    return page_answer(page, shape_record, query)
