"""Views of a job: how it is doing, its versions, and when it runs next."""

from typing import Any

from marshmallow import validate

from app.kernel.errors import JobNotFoundError
from app.queue.jobs import job_queries
from app.queue.jobs.job_status import status_of
from app.queue.jobs.next_runs import next_runs
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.http.request_fields import Body, Count
from app.web.jobs.answer_schemas import JobSchema, shape_job
from app.web.jobs.jobs_api import resource
from app.web.jobs.status_schemas import NextRunsSchema, StatusSchema, shape_next_runs, shape_status
from app.web.services import services

MOST_RUNS = 100


class NextRunsQuery(Body):
    """How many of the next runs to show."""

    count = Count(load_default=10, validate=validate.Range(1, MOST_RUNS))


@resource.route("GET", "/jobs/<job_id>/status", returns=StatusSchema, errors=[JobNotFoundError])
def status(job_id: str) -> dict[str, Any]:
    """Tell how a job is doing: HEALTHY when 95 % of a day's executions succeeded, DEGRADED from 50 %, FAILING below.

    IDLE when none ended within 24 hours.
    """
    return shape_status(status_of(services().database, job_id))


@resource.route(
    "GET", "/jobs/<job_id>/versions", query=PageQuery, returns=page_schema(JobSchema), errors=[JobNotFoundError]
)
def list_versions(query: dict[str, Any], job_id: str) -> dict[str, Any]:
    """List the versions of a job, the newest first; any of their ids will do."""
    database, wanted = services().database, page_request(query)
    page = job_queries.versions_of(database, job_queries.get_job(database, job_id), wanted)
    return page_answer(page, shape_job, query)


@resource.route(
    "GET", "/jobs/<job_id>/next-runs", query=NextRunsQuery, returns=NextRunsSchema, errors=[JobNotFoundError]
)
def list_next_runs(query: dict[str, Any], job_id: str) -> dict[str, Any]:
    """List when a job runs next, as far as that is known: nothing for a job that is paused or retired."""
    job = job_queries.get_job(services().database, job_id)
    return shape_next_runs(job, next_runs(job, query["count"]))
