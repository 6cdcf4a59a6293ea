"""`flask executions`: list, show, explain, retry, cancel and follow executions."""

from datetime import timedelta
from functools import partial
from typing import Any

import click

from app.cli import executions_tail
from app.cli.commands import ServiceGroup, actor, confirm, ready_database, yes_option
from app.cli.console import json_option, print_json, print_result, show_fields, show_line, show_table
from app.cli.execution_filter_options import execution_filter_options, filter_of
from app.cli.options import EnumChoice, created_options, gather, show_list
from app.cli.shell_completion import OF_EXECUTIONS
from app.kernel.formats import numbered
from app.queue.executions import execution_cancellation
from app.queue.executions.execution_cancellation import IfRunning
from app.queue.executions.execution_records import AttemptRecord
from app.queue.executions.manual_retry import retry_execution
from app.queue.reading import execution_queries, explanation
from app.queue.reading.execution_history import history_of
from app.queue.reading.execution_list import page_of_executions
from app.web.executions.execution_schemas import AttemptSchema, ExecutionSchema, ExplanationSchema, HistorySchema
from app.web.services import services, wake

LATEST = 10  # attempts that `show` lists

group = ServiceGroup("executions", help="List, show, explain, retry, cancel and follow executions.")
group.add_command(executions_tail.command)


@group.command("list")
@execution_filter_options
@created_options
@json_option
def list_(limit: int, as_json: bool, **filters: Any) -> None:
    """List executions, newest first."""
    with ready_database() as database:
        wanted = filter_of(filters)
        found, is_more = gather(partial(page_of_executions, database, wanted), limit)
    items = [ExecutionSchema().dump(each) for each in found]
    header = ("EXECUTION", "STATUS", "ATTEMPTS", "DUE", "ENDED", "ENDPOINT", "QUEUE", "LAST ERROR")
    rows = [
        (
            *(each.execution_id, each.status, f"{each.attempt_count}/{each.max_attempts}"),
            *(each.run_at, each.completed_at, each.endpoint, each.queue, (each.last_error or {}).get("type")),
        )
        for each in found
    ]
    show_list(items, header, rows, is_more=is_more, as_json=as_json, right=["ATTEMPTS"])


@group.command("show")
@click.argument("execution_id", **OF_EXECUTIONS)
@json_option
def show(execution_id: str, as_json: bool) -> None:
    """Show an execution with its input, output, latest attempts and changes of state."""
    look_ahead = timedelta(seconds=services().settings.look_ahead_seconds)
    with ready_database() as database:
        execution = execution_queries.get_execution(database, execution_id)
        attempts, _ = gather(partial(execution_queries.attempts_of, database, execution_id), LATEST)
        history = history_of(database, execution_id, look_ahead=look_ahead)
    shaped = ExecutionSchema().dump(execution)
    if as_json:
        tried = [AttemptSchema().dump(each) for each in attempts]
        changes = HistorySchema().dump({"items": history.steps, "is_truncated": history.is_truncated})
        return print_json({"execution": shaped, "attempts": tried, "history": changes})
    show_fields(shaped)
    show_line("")
    rows = [(each.attempt_number, each.status, each.started_at, each.duration_ms, _outcome(each)) for each in attempts]
    show_table(("ATTEMPT", "STATUS", "STARTED", "MS", "OUTCOME"), rows, right=["ATTEMPT", "MS"])
    show_line("")
    steps = [(executions_tail.at(step), step.before, step.after, step.reason, step.actor) for step in history.steps]
    show_table(("AT", "FROM", "TO", "REASON", "BY"), steps)
    return None


@group.command("explain")
@click.argument("execution_id", **OF_EXECUTIONS)
@json_option
def explain(execution_id: str, as_json: bool) -> None:
    """Explain in one sentence why an execution is in its state."""
    reclaim_every = timedelta(seconds=services().settings.reclaim_interval_seconds)
    with ready_database() as database:
        reasons = services().reasons
        found = explanation.explain(database, execution_id, reclaim_every=reclaim_every, reasons=reasons)
    if as_json:
        return print_json(ExplanationSchema().dump(found))
    repeats = found.reason in {found.status, "SUCCEEDED"}
    show_line(found.status if repeats else f"{found.status} ({found.reason})")
    show_line(found.explanation)
    show_fields({"since": found.since, "until": found.until})
    return None


@group.command("retry")
@click.argument("execution_id", **OF_EXECUTIONS)
@json_option
def retry(execution_id: str, as_json: bool) -> None:
    """Queue a FAILED or CANCELLED execution again, due now, with the endpoint's number of attempts.

    Exits with 3 if the execution does not exist, with 4 if it is in another state or its dead letter was archived or
    redriven as a new job.
    """
    with ready_database() as database:
        wake(retry_execution(database, execution_id, actor=actor().name))
        execution = execution_queries.get_execution(database, execution_id)
    more = execution.max_attempts - execution.attempt_count
    line = f"{execution_id} is {execution.status}, with up to {numbered(more, 'more attempt')}"
    print_result(ExecutionSchema().dump(execution), line, as_json=as_json)


@group.command("cancel")
@click.argument("execution_id", **OF_EXECUTIONS)
@click.option(
    "--if-running",
    type=EnumChoice(IfRunning),
    help="request: no further attempts; abort: also abort the running attempt",
)
@yes_option
@json_option
def cancel(execution_id: str, if_running: IfRunning | None, yes: bool, as_json: bool) -> None:
    """Cancel a waiting execution, or with --if-running a running execution.

    Exits with 3 if the execution does not exist, with 4 if it has ended, or is running without --if-running.
    """
    with ready_database() as database:
        execution = execution_queries.get_execution(database, execution_id)
        confirm(f"Cancel the execution {execution_id} of the endpoint {execution.endpoint!r}?", yes=yes)
        done = execution_cancellation.cancel_execution(
            database, execution_id, if_running=if_running, actor=actor().name
        )
        execution = execution_queries.get_execution(database, execution_id)
    line = f"{execution_id} is {execution.status}{', and its worker was asked to end it' if done.asked else ''}"
    print_result(ExecutionSchema().dump(execution) | {"asked_to_end": bool(done.asked)}, line, as_json=as_json)


def _outcome(attempt: AttemptRecord) -> str | None:
    if attempt.error is not None:
        return f"{attempt.error.get('type')}: {attempt.error.get('message', '')}"
    return f"answer {(attempt.output or {}).get('status_code', 'stored')}" if attempt.output else None
