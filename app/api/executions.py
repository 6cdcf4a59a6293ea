"""/executions."""

from typing import Any

from app.api.execution_schemas import (
    AttemptSchema,
    ExecutionSchema,
    LogLineSchema,
    LogQuery,
    shape,
    shape_attempt,
    shape_log_line,
)
from app.api.keys import Scope
from app.api.pagination import PageQuery, page_answer, page_request, page_schema
from app.api.resource import Resource
from app.api.services import services
from app.errors import ExecutionNotCancellableError, ExecutionNotFoundError
from app.executions import cancel as cancellation
from app.executions import read

resource = Resource("executions", "Deliveries, with every attempt and its log.", write_scope=Scope.JOBS_WRITE)


@resource.route("GET", "/executions/<execution_id>", returns=ExecutionSchema, errors=[ExecutionNotFoundError])
def get(execution_id: str) -> dict[str, Any]:
    """Get an execution."""
    return shape(read.get(services().database, execution_id))


@resource.route(
    "GET",
    "/executions/<execution_id>/attempts",
    query=PageQuery,
    returns=page_schema(AttemptSchema),
    errors=[ExecutionNotFoundError],
)
def list_attempts(query: dict[str, Any], execution_id: str) -> dict[str, Any]:
    """List the attempts of an execution, the latest first."""
    page = read.attempts(services().database, execution_id, page_request(query))
    return page_answer(page, shape_attempt, query)


@resource.route(
    "GET",
    "/executions/<execution_id>/logs",
    query=LogQuery,
    returns=page_schema(LogLineSchema),
    errors=[ExecutionNotFoundError],
)
def list_logs(query: dict[str, Any], execution_id: str) -> dict[str, Any]:
    """List the log lines of an execution, the latest first."""
    wanted = page_request(query)
    page = read.logs(services().database, execution_id, query.get("level"), wanted)
    return page_answer(page, shape_log_line, query)


@resource.route(
    "POST",
    "/executions/<execution_id>/cancel",
    returns=ExecutionSchema,
    errors=[ExecutionNotFoundError, ExecutionNotCancellableError],
)
def cancel(execution_id: str) -> dict[str, Any]:
    """Cancel an execution that has not begun; 409 when it is running or over."""
    database = services().database
    cancellation.cancel(database, execution_id)
    return shape(read.get(database, execution_id))
