"""/jobs: create, read, list and cancel jobs."""

from typing import Any

from app.kernel.access.api_keys import Scope
from app.kernel.errors import (
    ConflictError,
    EndpointNotFoundError,
    ExecutionNotCancellableError,
    InputValidationError,
    InvalidCallbackError,
    InvalidCronError,
    JobNotFoundError,
    TemplateError,
)
from app.queue.jobs import job_cancellation
from app.queue.jobs.job_list import JobFilter, page_of_jobs
from app.queue.jobs.job_model import Job
from app.queue.jobs.job_queries import get_job
from app.queue.jobs.node_lists import jobs_of_workflow
from app.queue.reading.execution_filter import ExecutionFilter
from app.queue.reading.execution_list import page_of_executions
from app.web.executions.execution_schemas import CancelQuery, ExecutionOfJobQuery, ExecutionSchema
from app.web.http.body import invalid
from app.web.http.conditions import actor
from app.web.http.idempotent_requests import HEADER, PARAMETER, with_header_key
from app.web.http.pagination import page_answer, page_request, page_schema
from app.web.http.request_log import trace_of_new_jobs
from app.web.http.unproxied import current_request
from app.web.http.workflow_filter import workflow_alone
from app.web.jobs.answer_schemas import CreatedJobSchema, JobSchema
from app.web.jobs.creating import PREFER, create, permitted
from app.web.jobs.request_schemas import JobQuery, NewJobSchema
from app.web.openapi.resource import Resource
from app.web.services import services

resource = Resource("jobs", "Calls of endpoints: now, later or on a schedule.", write_scope=Scope.JOBS_WRITE)


@resource.route(
    "POST",
    "/jobs",
    body=NewJobSchema,
    returns=CreatedJobSchema,
    status=201,
    also=(200, 202),
    own_key=PARAMETER | {"description": "instead of `idempotency_key` in the body"},
    header=PREFER,
    errors=[
        *(EndpointNotFoundError, InvalidCronError, InputValidationError, InvalidCallbackError),
        *(ConflictError, TemplateError),
    ],
    or_scope=Scope.JOBS_SEND,
    creates_jobs=True,
)
def create_(body: dict[str, Any]) -> Any:
    """Create a job. A second request with the idempotency key gets 200 with the first job, whatever its body.

    With `Prefer: wait=10`, the answer comes when the job's execution has ended and includes its `result`; after 10
    seconds, the answer is 202 with the `Location` of the result. Repeating the request waits for the same job.

    With `url` instead of `endpoint`, `body` is sent there as JSON. The service keeps an endpoint for each different
    request with `url`, without `body` and the time.
    """
    if HEADER in current_request().headers:
        body = with_header_key(body)
    if body.get("idempotency_key") is None and not body["trigger"].repeats and "inline" not in body:
        raise invalid([{"pointer": "/idempotency_key", "message": f"Required here or in the {HEADER} header."}])
    return create(permitted(body, trace_of_new_jobs()))


@resource.route("GET", "/jobs", query=JobQuery, returns=page_schema(JobSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List jobs, newest first.

    A page may have fewer jobs than `limit`, even none: it holds at most 4 MiB of inputs, and a slow search for rare
    jobs is cut short. Continue while there is a `cursor`.
    """
    wanted = page_request(query)
    if (workflow_id := workflow_alone(query)) is not None:
        return page_answer(jobs_of_workflow(services().database, workflow_id, wanted), query)
    return page_answer(page_of_jobs(services().database, JobFilter(**query), wanted), query)


@resource.route("GET", "/jobs/<job_id>", returns=JobSchema, errors=[JobNotFoundError])
def get(job_id: str) -> Job:
    """Get a job."""
    return get_job(services().database, job_id)


@resource.route(
    "POST",
    "/jobs/<job_id>/cancel",
    query=CancelQuery,
    returns=JobSchema,
    also=202,
    errors=[JobNotFoundError, ExecutionNotCancellableError],
)
def cancel(query: dict[str, Any], job_id: str) -> tuple[Any, int]:
    """Retire a job and cancel its executions that have not begun; 409 if a one-shot job's execution runs or has ended.

    Executions of a CRON or INTERVAL job that have begun run to their end, retries included. With
    `if_running=request` (202), running executions end after their current attempt. With `if_running=abort` (202),
    that attempt is aborted.
    """
    database = services().database
    done = job_cancellation.cancel_job(database, job_id, if_running=query.get("if_running"), actor=actor().name)
    return get_job(database, job_id), 202 if done.asked else 200


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
    return page_answer(page, query)
