"""/bulk-operations."""

from dataclasses import asdict
from typing import Any

from app.features.bulk_jobs import store as bulk_jobs_store
from app.features.bulk_jobs.operation_job import OperationJob, chosen_by, execution_of
from app.features.bulk_jobs.schemas import (
    BulkOperationSchema,
    BulkPreviewSchema,
    NewBulkOperationSchema,
    parameters,
    wanted_of,
)
from app.features.bulk_jobs.store import BULK_OPERATIONS, OF_SCHEDULES, BulkOperation
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.errors import BulkOperationNotFoundError
from app.queue.bulk.bulk_job_kind import preview as preview_of
from app.queue.jobs.job_creation import Creator
from app.queue.jobs.job_queries import find_jobs
from app.queue.reading.execution_queries import find_executions
from app.web.http.bulk_job_schemas import add_operations
from app.web.http.conditions import actor
from app.web.openapi.resource import Resource
from app.web.services import services

resource = Resource(
    "bulk-operations",
    "Background operations that cancel, retry or reschedule the executions of a filter, archive its dead letters, or "
    "pause or resume its repeating jobs: oldest first, rate-limited, each exactly once.",
    write_scope=Scope.JOBS_WRITE,
)
dry_runs = Resource("bulk-operation-previews", "Dry runs of bulk operations.", write_scope=Scope.READ)


def shape(found: BulkOperation) -> dict[str, Any]:
    return asdict(found) | asdict(found.given)


def preview_in(creator: Creator, body: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of BulkPreviewSchema."""
    wanted = chosen_by(body["action"], wanted_of(body), parameters(body), creator.now())
    seen = preview_of(creator.database, OperationJob(creator), wanted)
    executions = [execution_of(item) for item in seen.sample]
    shown: dict[str, Any] = {"count": seen.count, "is_complete": seen.is_complete}
    if body["action"] in OF_SCHEDULES:
        jobs = {job.job_id: job for job in find_jobs(creator.database, executions)}
        return shown | {"sample": [], "jobs": [jobs[each] for each in executions if each in jobs]}
    return shown | {"sample": find_executions(creator.database, executions), "jobs": []}


@resource.route("POST", "/bulk-operations", body=NewBulkOperationSchema, returns=BulkOperationSchema, status=202)
def begin(body: dict[str, Any]) -> dict[str, Any]:
    """Start an operation that changes the executions of a filter, or its dead letters or repeating jobs.

    A scheduler starts it within seconds. It changes the executions that exist now, oldest first, each exactly once,
    also when processes die, in the same way as `POST /executions/{execution_id}/cancel` or `/retry`. Repeating jobs
    continue: only their executions change. `reschedule` moves waiting executions, also before a retry, never into
    the past. `archive` resolves open dead letters as `POST /dead-letters/{letter_id}/archive` does, all with
    the same `note`. `pause` and `resume` change CRON and INTERVAL jobs as `POST /jobs/{job_id}/pause` does. A filter
    without matches changes nothing. A filter by state only needs `all`.
    """
    return shape(begin_in(services().database, body, actor().name))


def begin_in(database: Database, body: dict[str, Any], by: str | None) -> BulkOperation:
    """Begin the operation of a request."""
    wanted, given = wanted_of(body), parameters(body)
    return bulk_jobs_store.begin(database, body["action"], wanted, given, rate=body["rate"], actor=by)


@dry_runs.route("POST", "/bulk-operations/preview", body=NewBulkOperationSchema, returns=BulkPreviewSchema)
def preview(body: dict[str, Any]) -> dict[str, Any]:
    """Count the rows that a bulk operation would change, and show the first of them; changes nothing."""
    return preview_in(services().creator, body)


add_operations(
    resource,
    "/bulk-operations",
    BULK_OPERATIONS,
    schema=BulkOperationSchema,
    shape=shape,
    missing=BulkOperationNotFoundError,
)
