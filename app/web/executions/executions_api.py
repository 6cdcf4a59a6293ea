"""/executions."""

from datetime import timedelta
from typing import Any

from app.kernel.access.api_keys import Scope
from app.kernel.errors import ConflictError, ExecutionNotCancellableError, ExecutionNotFoundError, ResultExpiredError
from app.queue.executions import execution_cancellation
from app.queue.executions.execution_records import ExecutionWithInput
from app.queue.executions.manual_retry import retry_execution
from app.queue.jobs.node_lists import executions_of_workflow
from app.queue.reading import execution_queries, explanation
from app.queue.reading.execution_filter import ExecutionFilter
from app.queue.reading.execution_history import history_of
from app.queue.reading.execution_list import page_of_executions
from app.queue.reading.execution_queries import get_result
from app.queue.reading.log_lines import logs_of
from app.queue.reading.rendered_request import NextRequest, request_of
from app.queue.reading.waiting_reasons import Explanation
from app.web.executions.execution_schemas import (
    AttemptSchema,
    CancelQuery,
    ExecutionQuery,
    ExecutionSchema,
    ExplanationSchema,
    HistorySchema,
    LogLineSchema,
    LogQuery,
    RequestSchema,
)
from app.web.executions.result_schemas import ResultQuery, ResultSchema
from app.web.http import request_log, suspension
from app.web.http.conditions import actor
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.http.workflow_filter import workflow_alone
from app.web.openapi.resource import Resource
from app.web.services import services, wake

RETRY_AFTER = {"Retry-After": "1"}

resource = Resource("executions", "Deliveries, with every attempt and its log.", write_scope=Scope.JOBS_WRITE)


@resource.route("GET", "/executions", query=ExecutionQuery, returns=page_schema(ExecutionSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List executions, newest first.

    A page with filters other than status, endpoint, job and creation time may have fewer than `limit`, even none, if
    matches are rare: continue while there is a `cursor`. A bulk operation has the same filter.
    """
    wanted = page_request(query)
    if (workflow_id := workflow_alone(query)) is not None:
        return page_answer(executions_of_workflow(services().database, workflow_id, wanted), query)
    return page_answer(page_of_executions(services().database, ExecutionFilter(**query), wanted), query)


@resource.route("GET", "/executions/<execution_id>", returns=ExecutionSchema, errors=[ExecutionNotFoundError])
def get(execution_id: str) -> ExecutionWithInput:
    """Get an execution."""
    return execution_queries.get_execution(services().database, execution_id)


@resource.route(
    "GET",
    "/executions/<execution_id>/attempts",
    query=PageQuery,
    returns=page_schema(AttemptSchema),
    errors=[ExecutionNotFoundError],
)
def list_attempts(query: dict[str, Any], execution_id: str) -> dict[str, Any]:
    """List the attempts of an execution, latest first."""
    page = execution_queries.attempts_of(services().database, execution_id, page_request(query))
    return page_answer(page, query)


@resource.route(
    "GET",
    "/executions/<execution_id>/logs",
    query=LogQuery,
    returns=page_schema(LogLineSchema),
    errors=[ExecutionNotFoundError],
)
def list_logs(query: dict[str, Any], execution_id: str) -> dict[str, Any]:
    """List the log lines of an execution, latest first."""
    wanted = page_request(query)
    page = logs_of(services().database, execution_id, wanted, **query)
    return page_answer(page, query)


@resource.route(
    "POST",
    "/executions/<execution_id>/cancel",
    query=CancelQuery,
    returns=ExecutionSchema,
    also=202,
    errors=[ExecutionNotFoundError, ExecutionNotCancellableError],
)
def cancel(query: dict[str, Any], execution_id: str) -> tuple[Any, int]:
    """Cancel an execution that has not begun; with `if_running`, a running execution too (202).

    With `if_running=request`, the execution ends after its current attempt. With `if_running=abort`, its worker aborts
    the attempt within about a second, for HTTP by closing the connection. The error then has
    `may_have_been_delivered`; an attempt that has sent nothing is not recorded. If the attempt succeeds first, the
    execution is a SUCCESS. 409 if the execution has ended.
    """
    database = services().database
    done = execution_cancellation.cancel_execution(
        database, execution_id, if_running=query.get("if_running"), actor=actor().name
    )
    return execution_queries.get_execution(database, execution_id), 202 if done.asked else 200


@resource.route(
    "POST",
    "/executions/<execution_id>/retry",
    returns=ExecutionSchema,
    errors=[ExecutionNotFoundError, ConflictError],
)
def retry(execution_id: str) -> ExecutionWithInput:
    """Queue a FAILED or CANCELLED execution again, due now, with the attempts of its retry policy added.

    This resolves its dead letter. 409 if the dead letter was archived, or redriven as a new job; the message names the
    new execution.
    """
    database = services().database
    wake(retry_execution(database, execution_id, actor=actor().name, trace=request_log.trace_of_new_jobs()))
    execution = execution_queries.get_execution(database, execution_id)
    request_log.note_execution(execution_id, execution.job_id, execution.endpoint)
    return execution


@resource.route("GET", "/executions/<execution_id>/history", returns=HistorySchema, errors=[ExecutionNotFoundError])
def history(execution_id: str) -> dict[str, Any]:
    """List all state changes of an execution, earliest first.

    A very long history has only the creation and the latest changes; `truncated` is then true.
    """
    look_ahead = timedelta(seconds=services().settings.look_ahead_seconds)
    found = history_of(services().database, execution_id, look_ahead=look_ahead)
    return {"items": found.steps, "is_truncated": found.is_truncated}


@resource.route("GET", "/executions/<execution_id>/explain", returns=ExplanationSchema, errors=[ExecutionNotFoundError])
def explain(execution_id: str) -> Explanation:
    """Explain the state of an execution: a reason code and a sentence."""
    reclaim_every = timedelta(seconds=services().settings.reclaim_interval_seconds)
    reasons = services().reasons
    return explanation.explain(services().database, execution_id, reclaim_every=reclaim_every, reasons=reasons)


@resource.route("GET", "/executions/<execution_id>/request", returns=RequestSchema, errors=[ExecutionNotFoundError])
def request(execution_id: str) -> NextRequest:
    """Show the request that the next attempt of an execution would send, rendered now, with names for secrets.

    Sent requests are not stored. All attempts have the same version of the endpoint and the same revision of configs,
    so only secrets may have changed since.
    """
    return request_of(services().database, execution_id)


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
        suspension.take_slot()
        suspended = wait_for(execution_id, query["wait"])
        if suspended is not None:
            return suspended
        found = get_result(services().database, execution_id)
    return (found, 200, {}) if found.is_over else (found, 202, RETRY_AFTER)


def wait_for(execution_id: str, seconds: float) -> suspension.Suspended | None:
    """Suspend the request until an execution has ended; without kept connections wait on this thread, return None."""
    waits = services().waits
    if suspension.is_possible():
        return suspension.Suspended(waits, execution_id, seconds)
    waits.wait(execution_id, seconds)
    return None
