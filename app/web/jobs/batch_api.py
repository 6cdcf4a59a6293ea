"""POST /jobs/batch."""

from collections.abc import Mapping
from typing import Any

from marshmallow import Schema, fields, validate

from app.kernel.access.api_keys import Scope
from app.kernel.described_fields import answered, described
from app.kernel.errors import ForbiddenError, InvalidRequestError, TaskExecutorError
from app.kernel.metrics import PROCESS
from app.kernel.metrics.series import SCHEDULED
from app.kernel.tracing.context import TraceContext
from app.queue.jobs.job_batch import Outcome, create_many
from app.queue.jobs.job_creation import Created
from app.queue.jobs.job_model import NewJob
from app.web.catalog import similar_endpoints
from app.web.http.body import invalid, loaded
from app.web.http.error_envelope import ErrorBodySchema
from app.web.http.request_fields import Body
from app.web.http.request_log import trace_of_new_jobs
from app.web.jobs.answer_schemas import JobSchema
from app.web.jobs.creating import permitted
from app.web.jobs.jobs_api import resource
from app.web.jobs.request_schemas import NewJobSchema
from app.web.services import services, wake
from schema.states import ExecutionStatus

MAX_JOBS = 1000
_JOB = NewJobSchema()


class BatchSchema(Body):
    """Up to 1,000 jobs; each is validated independently, as by `POST /jobs`."""

    jobs = fields.List(
        fields.Dict(**described("as the body of `POST /jobs`; one-shot jobs need `idempotency_key`")),
        required=True,
        validate=validate.Length(1, MAX_JOBS),
    )


class BatchErrorSchema(ErrorBodySchema):
    class Meta:
        """Leaves out the request id, which is in X-Request-ID."""

        exclude = ("request_id",)


class BatchItemSchema(Schema):
    """Outcome of one job: `job` with 201 (new) or 200 (replayed), else `error`."""

    status = fields.Integer(**answered("as of `POST /jobs`"))
    job = fields.Nested(JobSchema)
    error = fields.Nested(BatchErrorSchema)


class BatchResultSchema(Schema):
    """One item per job, in the order of the request."""

    items = fields.List(fields.Nested(BatchItemSchema), required=True)


@resource.route(
    "POST",
    "/jobs/batch",
    body=BatchSchema,
    returns=BatchResultSchema,
    or_scope=Scope.JOBS_SEND,
    creates_jobs=True,
)
def create_batch(body: dict[str, Any]) -> dict[str, Any]:
    """Create up to 1,000 jobs; a job that cannot be created does not affect the other jobs."""
    trace = trace_of_new_jobs()
    parsed = [_parse(job, trace) for job in body["jobs"]]
    good = [job for job in parsed if isinstance(job, NewJob)]
    outcomes = iter(create_many(services().creator, good))
    results: list[Outcome] = [next(outcomes) if isinstance(job, NewJob) else job for job in parsed]
    new = [result.job for result in results if isinstance(result, Created) and result.is_new]
    for job in new:
        PROCESS.add(SCHEDULED, job.trigger)
    executions = [job.execution for job in new if job.execution is not None]
    for queue in {one.queue for one in executions if one.status is ExecutionStatus.QUEUED}:
        wake(queue)
    return {"items": [_shape(result) for result in similar_endpoints.completed(results, body["jobs"])]}


def _parse(job: Mapping[str, Any], trace: TraceContext | None) -> NewJob | TaskExecutorError:
    try:
        fields_of_job = loaded(_JOB, job, in_body=True)
        is_keyed = fields_of_job.get("idempotency_key") is not None or "inline" in fields_of_job
        if not is_keyed and not fields_of_job["trigger"].repeats:
            return invalid([{"pointer": "/idempotency_key", "message": "Required for each one-shot job of a batch."}])
        return permitted(fields_of_job, trace)
    except (InvalidRequestError, ForbiddenError) as error:
        return error


def _shape(result: Outcome) -> dict[str, Any]:
    if isinstance(result, Created):
        return {"status": 201 if result.is_new else 200, "job": result.job}
    return {"status": result.status, "error": result}
