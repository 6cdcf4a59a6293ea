"""Results of executions, with or without a wait."""

import dataclasses
from typing import Any

from app.kernel.errors import ExecutionNotFoundError, ResultExpiredError
from app.queue.reading.execution_queries import Result, get_result
from app.web.executions.executions_api import resource
from app.web.executions.result_schemas import ResultQuery, ResultSchema
from app.web.http import suspension
from app.web.services import services

MAX_ON_THREAD_SECONDS = 2.0
RETRY_AFTER = {"Retry-After": "1"}


@resource.route(
    "GET",
    "/executions/<execution_id>/result",
    query=ResultQuery,
    returns=ResultSchema,
    also=202,
    errors=[ExecutionNotFoundError, ResultExpiredError],
)
def result(query: dict[str, Any], execution_id: str) -> Any:
    """Get the result of an execution, optionally after a `wait` for it; 202 if the execution has not ended.

    A wait ends up to a quarter of the time waited after the execution, at most half a second. A process lets a limited
    number of requests wait (`TE_WEB_WAITING`); beyond it the answer is 503, or 429 if one API key has too many waiting
    requests. 410 if the endpoint keeps results for a shorter time than executions, and the result was deleted.
    """
    found = get_result(services().database, execution_id)
    if not found.is_over and query.get("wait") and not suspension.has_waited():
        suspension.check_slot()
        suspended = wait_for(execution_id, query["wait"])
        if suspended is not None:
            return suspended
        found = get_result(services().database, execution_id)
    return (shape_result(found), 200, {}) if found.is_over else (shape_result(found), 202, RETRY_AFTER)


def wait_for(execution_id: str, seconds: float) -> suspension.Suspended | None:
    """Suspend the request until an execution has ended; without kept connections wait on this thread, return None."""
    waits = services().waits
    if suspension.is_possible():
        return suspension.Suspended(waits, execution_id, seconds)
    waits.wait(execution_id, min(seconds, MAX_ON_THREAD_SECONDS))
    return None


def shape_result(found: Result) -> dict[str, Any]:
    """Return the fields of a result."""
    return {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
