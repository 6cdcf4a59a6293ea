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
from app.features.bulk_jobs.store import BULK_OPERATIONS, BulkFilter, BulkOperation, Parameters, parameters_of
from app.kernel.access.api_keys import Scope
from app.kernel.errors import BulkOperationNotFoundError, ConflictError
from app.queue.bulk.bulk_job_runner import preview as preview_of
from app.queue.jobs.job_creation import Creator
from app.queue.reading.execution_queries import find_executions
from app.web.executions.execution_schemas import shape_record
from app.web.http.conditions import actor
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.openapi.resource import Resource
from app.web.services import services
from schema.states import BulkAction, BulkJobStatus

resource = Resource(
    "bulk-operations",
    "Background operations that cancel, retry or reschedule the executions of a filter, or archive its dead letters: "
    "oldest first, rate-limited, each exactly once.",
    write_scope=Scope.JOBS_WRITE,
)
questions = Resource("bulk-operation-previews", "Dry runs of bulk operations.", write_scope=Scope.READ)


def shape(found: BulkOperation) -> dict[str, Any]:
    return asdict(found) | asdict(parameters_of(found.parameters))


def preview_in(creator: Creator, action: BulkAction, wanted: BulkFilter, given: Parameters) -> dict[str, Any]:
    """Return the fields of BulkPreviewSchema."""
    database = creator.database
    seen = preview_of(database, OperationJob(creator), chosen_by(action, wanted, given, creator.now()))
    executions = [execution_of(item) for item in seen.sample]
    found = {each.execution_id: each for each in find_executions(database, executions)}
    sample = [shape_record(found[each]) for each in executions if each in found]
    return {"count": seen.count, "is_complete": seen.is_complete, "sample": sample}


@resource.route("POST", "/bulk-operations", body=NewBulkOperationSchema, returns=BulkOperationSchema, status=202)
def begin(body: dict[str, Any]) -> dict[str, Any]:
    """Start an operation that cancels, retries or reschedules the executions of a filter, or archives dead letters.

    A scheduler starts it within seconds. It changes the executions that exist now, oldest first, each exactly once,
    also when processes die, in the same way as `POST /executions/{execution_id}/cancel` or `/retry`. Repeating jobs
    continue: only their executions change. `reschedule` moves waiting executions, also those that wait for a retry,
    never into the past. `archive` resolves open dead letters as `POST /dead-letters/{letter_id}/archive` does, all with
    the same `note`. A filter without matches changes nothing. A filter by state only needs `all`.
    """
    begun = bulk_jobs_store.begin(
        services().database, body["action"], wanted_of(body), parameters(body), rate=body["rate"], actor=actor().name
    )
    return shape(begun)


@questions.route("POST", "/bulk-operations/preview", body=NewBulkOperationSchema, returns=BulkPreviewSchema)
def preview(body: dict[str, Any]) -> dict[str, Any]:
    """Count the executions that a bulk operation would change, and show the first ones; changes nothing."""
    return preview_in(services().creator, body["action"], wanted_of(body), parameters(body))


@resource.route("GET", "/bulk-operations", query=PageQuery, returns=page_schema(BulkOperationSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List bulk operations, newest first."""
    wanted = page_request(query)
    return page_answer(BULK_OPERATIONS.page(services().database, wanted), shape, query)


@resource.route(
    "GET",
    "/bulk-operations/<operation_id>",
    returns=BulkOperationSchema,
    errors=[BulkOperationNotFoundError],
)
def get(operation_id: str) -> dict[str, Any]:
    """Get a bulk operation and its progress."""
    return shape(BULK_OPERATIONS.get(services().database, operation_id))


_CHANGE: dict[str, Any] = {"returns": BulkOperationSchema, "errors": [BulkOperationNotFoundError, ConflictError]}


@resource.route("POST", "/bulk-operations/<operation_id>/pause", **_CHANGE)
def pause(operation_id: str) -> dict[str, Any]:
    """Pause a bulk operation."""
    return shape(BULK_OPERATIONS.change(services().database, operation_id, BulkJobStatus.PAUSED))


@resource.route("POST", "/bulk-operations/<operation_id>/resume", **_CHANGE)
def resume(operation_id: str) -> dict[str, Any]:
    """Resume a paused bulk operation."""
    return shape(BULK_OPERATIONS.change(services().database, operation_id, BulkJobStatus.RUNNING))


@resource.route("POST", "/bulk-operations/<operation_id>/stop", **_CHANGE)
def stop(operation_id: str) -> dict[str, Any]:
    """Stop a bulk operation for good; its changes so far stay."""
    return shape(BULK_OPERATIONS.change(services().database, operation_id, BulkJobStatus.STOPPED))
