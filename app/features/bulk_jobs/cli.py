"""`flask bulk`: cancel, retry or reschedule the executions of a filter, archive dead letters, and steer that."""

from datetime import datetime, timedelta
from typing import Any

import click

from app.cli.command_session import actor, confirm, ready_database, yes_option
from app.cli.commands import Group
from app.cli.console import json_option, print_json, show_line, show_table
from app.cli.options import LABELS, QUEUE, TEXT, Duration, Moment, enum_option
from app.cli.shell_completion import OF_ENDPOINTS, OF_JOBS
from app.cli.walk_commands import INSTANT, Shown, add_commands, dry_run_option, rate_option, read_body, wait_option
from app.features.bulk_jobs import store as bulk_jobs_store
from app.features.bulk_jobs.api import preview_in, shape
from app.features.bulk_jobs.schemas import (
    BulkOperationSchema,
    BulkPreviewSchema,
    NewBulkOperationSchema,
    parameters,
    wanted_of,
)
from app.features.bulk_jobs.store import BULK_OPERATIONS, BulkOperation
from app.kernel.formats import rfc3339
from app.queue.executions.execution_cancellation import IfRunning
from app.web.services import services
from schema.states import BulkAction, ExecutionStatus

group = Group(
    "bulk",
    help="Bulk operations: executions of a filter that are cancelled, retried or rescheduled, dead letters archived.",
)


def _about(operation: BulkOperation) -> str:
    wanted = " ".join(f"{name}={value}" for name, value in operation.wanted.items())
    return f"{operation.action} {wanted or 'all'}"


SHOWN = Shown(BULK_OPERATIONS, lambda operation: BulkOperationSchema().dump(shape(operation)), _about)
add_commands(group, SHOWN)
_NOUNS = {BulkAction.ARCHIVE: "dead letters"}
_AGO = "30m, 2h, 7d ago, or a time with offset"


@group.command("start")
@click.argument("action", type=click.Choice([each.value for each in BulkAction]))
@enum_option("--status", ExecutionStatus, "only those in this state")
@click.option("--endpoint", type=TEXT, **OF_ENDPOINTS, help="only those of this endpoint")
@click.option("--queue", type=QUEUE, help="only those in this queue")
@click.option("--limit-key", type=TEXT, help="only those of this limit key")
@click.option("--job-id", type=TEXT, **OF_JOBS, help="only those of this job")
@click.option("--name", type=TEXT, help="only those of jobs of this name")
@click.option("--labels", type=LABELS, help="only those of jobs with all of these: team=billing,env=prod")
@click.option("--idempotency-key-prefix", type=TEXT, help="only those of jobs whose key begins so")
@click.option("--created-after", type=Moment(), help=_AGO)
@click.option("--created-before", type=Moment(), help=_AGO)
@click.option("--scheduled-after", type=Moment(), help=_AGO)
@click.option("--scheduled-before", type=Moment(), help=_AGO)
@click.option("--error-type", type=TEXT, help="archive: only what failed with this error, such as HTTP_ERROR")
@click.option("--failed-after", type=Moment(), help=f"archive: {_AGO}")
@click.option("--failed-before", type=Moment(), help=f"archive: {_AGO}")
@click.option("--all", "all_", is_flag=True, help="needed where no option but --status says which")
@enum_option("--if-running", IfRunning, "cancel: what is asked of those that run")
@click.option("--run-at", type=INSTANT, help="reschedule: when they are due; a time in the past means now")
@click.option("--later", type=Duration(), help="reschedule: how much later than planned: 30m, 2h")
@click.option("--sooner", type=Duration(), help="reschedule: how much sooner than planned")
@click.option("--spread", type=Duration(), help="reschedule: the span in which each gets a place of its own")
@click.option("--note", type=TEXT, help="archive: why nothing is to follow")
@rate_option
@dry_run_option
@yes_option
@wait_option
@json_option
def start(
    *,
    action: str,
    all_: bool,
    if_running: IfRunning | None,
    run_at: datetime | None,
    later: timedelta | None,
    sooner: timedelta | None,
    spread: timedelta | None,
    note: str | None,
    rate: int | None,
    dry_run: bool,
    yes: bool,
    wait: bool,
    as_json: bool,
    **filters: Any,
) -> None:
    """Cancel, retry or reschedule the executions of a filter, or archive dead letters, the oldest in front.

    As `executions cancel`, `executions retry` and `dead-letters archive` do with one. Exits with 2 where the options do
    not fit each other.
    """
    if later is not None and sooner is not None:
        raise click.UsageError("--later and --sooner exclude each other")
    delay = later if sooner is None else -sooner
    body = read_body(
        NewBulkOperationSchema(),
        filters,
        action=action,
        all=all_,
        if_running=if_running,
        run_at=run_at and rfc3339(run_at),
        delay_seconds=None if delay is None else int(delay.total_seconds()),
        spread_seconds=None if spread is None else int(spread.total_seconds()),
        note=note,
        rate=rate,
    )
    wanted, given, what = wanted_of(body), parameters(body), body["action"]
    with ready_database() as database:
        seen = BulkPreviewSchema().dump(preview_in(services().creator, what, wanted, given))
        if dry_run:
            return _show(seen, as_json=as_json)
        more = "" if seen["is_complete"] else " or more"
        confirm(
            f"{what.capitalize()} {seen['count']:,}{more} {_NOUNS.get(what, 'executions')}?",
            yes=yes,
        )
        begun = bulk_jobs_store.begin(database, what, wanted, given, rate=body["rate"], actor=actor().name)
        SHOWN.tell(database, begun, wait=wait, as_json=as_json)
    return None


def _show(seen: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        return print_json(seen)
    rows = [
        (each["execution_id"], each["status"], each["run_at"], each["endpoint"], each["job_id"])
        for each in seen["sample"]
    ]
    show_table(("EXECUTION", "STATUS", "DUE", "ENDPOINT", "JOB"), rows)
    show_line(f"{seen['count']:,}{'' if seen['is_complete'] else ' or more'} are meant; nothing is changed")
    return None
