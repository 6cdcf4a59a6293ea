"""Results of executions, and waiting for them."""

import dataclasses
from functools import partial
from typing import Any

from app.kernel.errors import ExecutionNotFoundError, ResultExpiredError
from app.queue.reading.results import Result, get_result
from app.web.executions.executions_api import resource
from app.web.executions.result_schemas import ResultQuery, ResultSchema
from app.web.http import suspension
from app.web.services import services

LONGEST_ON_THREAD_SECONDS = 2.0
RETRY_AFTER = {"Retry-After": "1"}


@resource.route(
    "GET",
    "/executions/<execution_id>/result",
    query=ResultQuery,
    returns=ResultSchema,
    also=202,
    errors=[ExecutionNotFoundError, ResultExpiredError],
)
def result(query: dict[str, Any], execution_id: str) -> tuple[Any, int, dict[str, str]]:
    """Get what an execution came to, and `wait` for it: 202 where it is not over by then.

    A wait ends with the execution, or a little later: by a quarter of the time waited, half a second at most. A process
    lets a limited number of requests wait (`TE_WEB_WAITING`) and answers 503 to others, or 429 where too many of them
    are of the same key. 410 where the endpoint keeps results for a shorter time than executions are kept.
    """
    found = get_result(services().database, execution_id)
    if not found.is_over and query.get("wait"):
        suspension.check_place()
        if wait_for(execution_id, query["wait"]):
            found = get_result(services().database, execution_id)
    return (shape_result(found), 200, {}) if found.is_over else (shape_result(found), 202, RETRY_AFTER)


def wait_for(execution_id: str, seconds: float) -> bool:
    """Wait once in a request until an execution is over, as `parking.wait` does."""
    waits = services().waits
    on_thread = partial(waits.wait, execution_id, min(seconds, LONGEST_ON_THREAD_SECONDS))
    return suspension.wait(partial(waits.begin, execution_id, seconds), on_thread)


def shape_result(found: Result) -> dict[str, Any]:
    """Return the fields of a result as they are."""
    return {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
