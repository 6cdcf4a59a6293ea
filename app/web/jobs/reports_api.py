"""Reports on a job: its status, its versions and its next runs."""

from typing import Any

from marshmallow import validate

from app.kernel.errors import JobNotFoundError
from app.queue.jobs import job_queries
from app.queue.jobs.job_status import next_runs, status_of
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.http.request_fields import Body, Count
from app.web.jobs.answer_schemas import JobSchema, shape_job
from app.web.jobs.jobs_api import resource
from app.web.jobs.status_schemas import NextRunsSchema, StatusSchema, shape_next_runs, shape_status
from app.web.services import services

MAX_RUNS = 100


class NextRunsQuery(Body):
    """Number of next runs to list."""

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
    """List the versions of a job, newest first, by the id of any of them."""
    database, wanted = services().database, page_request(query)
    page = job_queries.versions_of(database, job_queries.get_job(database, job_id), wanted)
    return page_answer(page, shape_job, query)


@resource.route(
    "GET", "/jobs/<job_id>/next-runs", query=NextRunsQuery, returns=NextRunsSchema, errors=[JobNotFoundError]
)
def list_next_runs(query: dict[str, Any], job_id: str) -> dict[str, Any]:
    """List the next runs of a job, as far as they are known; none if it is paused or retired."""
    job = job_queries.get_job(services().database, job_id)
    return shape_next_runs(job, next_runs(job, query["count"]))
