"""/bulk-operations."""

from dataclasses import asdict
from typing import Any

from app.features.bulk_jobs import store as bulk_jobs_store
from app.features.bulk_jobs.bulk_walk import BulkWalk, chosen_by, execution_of
from app.features.bulk_jobs.schemas import (
    BulkOperationSchema,
    BulkPreviewSchema,
    NewBulkOperationSchema,
    parameters,
    wanted_of,
)
from app.features.bulk_jobs.store import BULK_OPERATIONS, BulkOperation, Parameters, Wanted, parameters_of
from app.kernel.access.api_keys import Scope
from app.kernel.errors import BulkOperationNotFoundError, ConflictError
from app.queue.bulk.walker import preview as preview_of
from app.queue.jobs.job_creation import Creator
from app.queue.reading.execution_queries import find_executions
from app.web.executions.execution_schemas import shape_record
from app.web.http.conditions import actor
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.openapi.resource import Resource
from app.web.services import services
from schema.states import BulkAction, WalkStatus

resource = Resource(
    "bulk-operations",
    "Executions that are cancelled, retried or rescheduled by a filter, and dead letters that are archived: the oldest "
    "first, at a rate, each once.",
    write_scope=Scope.JOBS_WRITE,
)
questions = Resource("bulk-operation-previews", "What a bulk operation would see to.", write_scope=Scope.READ)


def shape(found: BulkOperation) -> dict[str, Any]:
    """Return the fields of an answer."""
    return asdict(found) | asdict(parameters_of(found.parameters))


def preview_in(creator: Creator, action: BulkAction, wanted: Wanted, given: Parameters) -> dict[str, Any]:
    """Read what BulkPreviewSchema shows."""
    database = creator.database
    seen = preview_of(database, BulkWalk(creator), chosen_by(action, wanted, given, creator.now()))
    executions = [execution_of(item) for item in seen.sample]
    found = {each.execution_id: each for each in find_executions(database, executions)}
    sample = [shape_record(found[each]) for each in executions if each in found]
    return {"count": seen.count, "is_complete": seen.is_complete, "sample": sample}


@resource.route("POST", "/bulk-operations", body=NewBulkOperationSchema, returns=BulkOperationSchema, status=202)
def begin(body: dict[str, Any]) -> dict[str, Any]:
    """Cancel, retry or reschedule all executions of a filter that there are now, or archive what has failed.

    A scheduler does so within seconds.

    Each is cancelled or retried as `POST /executions/{execution_id}/cancel` or `/retry` does, exactly once, the oldest
    first, whatever dies meanwhile. A filter that matches nothing is an operation that changes nothing;
    one that names no more than a state needs `all`. A job that repeats goes on: only its executions are changed.
    Rescheduled are those that wait, for another attempt too; nothing is moved into the past. Archived are open dead
    letters, as by `POST /dead-letters/{letter_id}/archive`, with one `note` for all.
    """
    begun = bulk_jobs_store.begin(
        services().database, body["action"], wanted_of(body), parameters(body), rate=body["rate"], actor=actor().name
    )
    return shape(begun)


@questions.route("POST", "/bulk-operations/preview", body=NewBulkOperationSchema, returns=BulkPreviewSchema)
def preview(body: dict[str, Any]) -> dict[str, Any]:
    """Count what a bulk operation would see to, and show the first executions; nothing is changed."""
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
    """Let a bulk operation wait where it is."""
    return shape(BULK_OPERATIONS.change(services().database, operation_id, WalkStatus.PAUSED))


@resource.route("POST", "/bulk-operations/<operation_id>/resume", **_CHANGE)
def resume(operation_id: str) -> dict[str, Any]:
    """Let a paused bulk operation go on where it is."""
    return shape(BULK_OPERATIONS.change(services().database, operation_id, WalkStatus.RUNNING))


@resource.route("POST", "/bulk-operations/<operation_id>/stop", **_CHANGE)
def stop(operation_id: str) -> dict[str, Any]:
    """End a bulk operation where it is; what it came to stays changed."""
    return shape(BULK_OPERATIONS.change(services().database, operation_id, WalkStatus.STOPPED))
