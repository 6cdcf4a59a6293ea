"""One execution: its waits and attempts as a picture, its reason in words, and its actions."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from flask import request

from app.console.http import closed_contents
from app.console.http.actions import Done, action
from app.console.http.console_page import ConsolePage, Values
from app.console.http.forms import form, query
from app.console.http.page_rendering import now
from app.console.http.request_values import once_a_request
from app.console.http.viewer_zone import local
from app.console.pages.breaker_reach import reach_of_breakers
from app.console.pages.wait_forecast import forecast_of
from app.console.views.attempt_loss import LOST, NOBODY, loss_of
from app.console.views.curl_text import curl_of_delivery, curl_of_read
from app.console.views.json_text import shown_json
from app.console.views.reason_words import way_out_of
from app.console.views.row_without_contents import without_contents
from app.console.views.shown_attempt import hidden_attempt, is_uncertain, shown_attempt
from app.console.views.timeline import timeline
from app.console.views.words import full_instant
from app.features.dead_letters.letter_list import letters_of
from app.kernel import ids
from app.kernel.db.paging import PageRequest
from app.kernel.errors import ExecutionNotFoundError
from app.queue.ending.execution_events import ChangeReason
from app.queue.ending.letters import DeadLetter
from app.queue.executions import execution_cancellation
from app.queue.executions.execution_cancellation import IfRunning
from app.queue.executions.execution_records import AttemptRecord, ExecutionWithInput
from app.queue.executions.manual_retry import retry_execution
from app.queue.reading import execution_queries, explanation
from app.queue.reading.execution_history import ExecutionHistory, history_of
from app.queue.reading.holders import Holders, holders_of
from app.queue.reading.log_lines import logs_of
from app.queue.reading.rendered_request import NextRequest, request_of
from app.queue.reading.waiting_reasons import Explanation
from app.web.executions.execution_schemas import ExecutionSchema
from app.web.http.conditions import actor
from app.web.services import services, wake
from schema.states import CANCELLABLE, EndpointType, ExecutionStatus

ATTEMPTS, LOG_LINES = 100, 200

page = ConsolePage(
    "execution",
    "/executions/<execution_id>",
    "Execution",
    reads="GET /executions/<execution_id>",
    under="executions",
    has_request=False,
)


@page.show
def show(execution_id: str) -> Values:
    """Return the constant parts: the input, the request, and the callbacks."""
    execution = _execution(execution_id)
    wanted = _request(execution_id)
    is_open = closed_contents.opened("execution", execution_id)
    opened = _attempts(execution_id) if is_open and closed_contents.are_closed() else []
    return {
        "title": f"Execution {execution_id}",
        "execution": execution,
        "is_open": is_open,
        "input": shown_json(execution.input) if is_open else "",
        "request": wanted,
        "spec": shown_json(wanted.spec) if is_open and wanted.spec is not None else "",
        "answers": [shown_attempt(each) for each in opened],
        "sent_again": _sent_again(wanted) if is_open else None,
        **_raw(execution, is_open=is_open),
    }


@page.region("life", live="executions")
def life(execution_id: str) -> Values:
    """Read its state, why it is in it, and its attempts as a picture."""
    database = services().database
    execution = _execution(execution_id)
    tried = _attempts(execution_id)
    why = explanation.explain(
        database,
        execution_id,
        reclaim_every=timedelta(seconds=services().settings.reclaim_interval_seconds),
        reasons=services().reasons,
    )
    return {
        "execution": execution,
        "why": why,
        "way_out": way_out_of(why, job_id=execution.job_id, endpoint=execution.endpoint),
        "reach": _reach_of_breaker(why),
        "is_waiting": execution.status in CANCELLABLE,
        "forecast": forecast_of(why, execution),
        "picture": timeline(execution, tried, local(now()), _holders(execution_id)),
        "lease_until": _holders(execution_id).leases.get(execution.worker_id or ""),
        "uncertain": sum(is_uncertain(each) for each in tried),
        # The region below names earlier letters during retries; it reads the history, which must not hide this region.
        "letters": [] if execution.status is ExecutionStatus.RETRYING else _letters(execution),
        "may_retry": execution.status in {ExecutionStatus.FAILED, ExecutionStatus.CANCELLED},
        "may_cancel": execution.status in CANCELLABLE,
        "is_running": execution.status is ExecutionStatus.RUNNING,
    }


@page.region("attempts", live="executions", reads="GET /executions/<execution_id>/attempts")
def attempts(execution_id: str) -> Values:
    found, is_closed = _attempts(execution_id), closed_contents.are_closed()
    holders = _holders(execution_id)
    shape = hidden_attempt if is_closed else shown_attempt
    shown = [shape(each) | {"loss": loss_of(each, holders)} for each in found]
    return {"attempts": shown, "most": ATTEMPTS, "is_closed": is_closed}


@page.region("ends", live="executions letters")
def ends(execution_id: str) -> Values:
    """Read its dead letters, and whether it has ended."""
    execution = _execution(execution_id)
    return {"letters": _letters(execution), "is_open": execution.completed_at is None}


@page.region("history", live="executions", reads="GET /executions/<execution_id>/history")
def history(execution_id: str) -> Values:
    found = _history(execution_id)
    return {"steps": found.steps, "is_truncated": found.is_truncated}


@page.region("log", live="executions", reads="GET /executions/<execution_id>/logs")
def log(execution_id: str) -> Values:
    level = query().choice("level", ["DEBUG", "INFO", "WARN", "ERROR"])
    _execution(execution_id)  # raises for an unknown execution
    wanted = {"level": level} if level else {}
    lines = logs_of(services().database, execution_id, PageRequest(LOG_LINES), is_known=True, **wanted)
    return {"lines": lines.items, "is_more": lines.next is not None}


@action("POST /executions/<execution_id>/retry")
def retry(execution_id: str) -> Done:
    """Queue it again."""
    wake(retry_execution(services().database, execution_id, actor=actor().name))
    return Done("It is queued again, with a full set of new attempts.")


@action("POST /executions/<execution_id>/cancel")
def cancel(execution_id: str) -> Done:
    """Cancel it; a running one as the form says."""
    wanted = form().choice("if_running", [each.value for each in IfRunning])
    done = execution_cancellation.cancel_execution(
        services().database, execution_id, if_running=IfRunning(wanted) if wanted else None, actor=actor().name
    )
    return Done("It was asked to end." if done.asked else "It is cancelled.")


def _execution(execution_id: str) -> ExecutionWithInput:
    """Read the execution; raises ExecutionNotFoundError, with the age of an execution that may have been deleted."""
    try:
        return once_a_request("execution", execution_queries.get_execution, services().database, execution_id)
    except ExecutionNotFoundError:
        created_at = ids.time_of(execution_id)
        days = services().settings.retention_days
        if created_at is None or not now() - timedelta(days=3650) < created_at < now() - timedelta(days=days):
            raise
        raise ExecutionNotFoundError(
            f"There is no execution with this ID. The ID is of {full_instant(created_at)}: an execution is deleted once"
            f" TE_RETENTION_DAYS, here {days:g}, have passed since its end. Charts and the audit log keep more."
        ) from None


def _request(execution_id: str) -> NextRequest:
    return once_a_request("request", request_of, services().database, execution_id)


def _letters(execution: ExecutionWithInput) -> Sequence[DeadLetter]:
    """Return the letters of an execution, when it is queued again those of an earlier end."""
    if execution.completed_at is None and execution.attempt_count == 0:
        return []
    # A wait for a retry takes the most statements already; the page reads its history anyway.
    if execution.status is ExecutionStatus.RETRYING and not _was_retried_by_hand(execution.execution_id):
        return []
    return once_a_request("letters", letters_of, services().database, execution.execution_id)


def _was_retried_by_hand(execution_id: str) -> bool:
    found = _history(execution_id)
    return found.is_truncated or any(step.reason == ChangeReason.RETRIED_BY_HAND for step in found.steps)


def _history(execution_id: str) -> ExecutionHistory:
    read = partial(history_of, look_ahead=_look_ahead())
    return once_a_request("history", read, services().database, execution_id)


def _raw(execution: ExecutionWithInput, *, is_open: bool) -> Values:
    """Return the execution as the API answers it, and the commands that read it."""
    shaped = ExecutionSchema().dump(execution)
    return {
        "raw": shown_json(shaped if is_open else without_contents(shaped)),
        "read_by": "\n".join(
            [
                curl_of_read(f"{request.host_url}executions/{execution.execution_id}"),
                f"flask --app app executions show {execution.execution_id}",
            ]
        ),
    }


def _sent_again(wanted: NextRequest) -> str | None:
    """Return the delivery as `curl`, with its idempotency key; None for other transports than HTTP."""
    if wanted.spec is None or wanted.endpoint_type is not EndpointType.HTTP:
        return None
    return curl_of_delivery(wanted.spec, wanted.idempotency_key)


def _attempts(execution_id: str) -> Sequence[AttemptRecord]:
    _execution(execution_id)  # raises for an unknown execution
    read = partial(execution_queries.attempts_of, services().database, execution_id, PageRequest(ATTEMPTS))
    return once_a_request("attempts", read, is_known=True).items


def _holders(execution_id: str) -> Holders:
    """Read the leases of the workers that hold or lost it; without such a worker there is nothing to read."""
    execution = _execution(execution_id)
    workers = {tried.worker_id for tried in _attempts(execution_id) if (tried.error or {}).get("type") in LOST}
    if execution.status is ExecutionStatus.RUNNING:
        workers.add(execution.worker_id)
    if not workers:
        return NOBODY
    return once_a_request("holders", holders_of, services().database, execution_id, {each for each in workers if each})


def _reach_of_breaker(why: Explanation) -> list[str] | None:
    """Return what closing the breaker that stops the execution reaches; None without one."""
    if why.reason != "BREAKER_OPEN":
        return None
    return reach_of_breakers([why.details])[why.details["target"]]


def _look_ahead() -> timedelta:
    return timedelta(seconds=services().settings.look_ahead_seconds)
