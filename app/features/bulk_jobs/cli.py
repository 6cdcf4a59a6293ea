"""`flask bulk`: start and steer bulk operations on executions, dead letters and repeating jobs."""

from datetime import datetime, timedelta
from typing import Any

import click

from app.cli.bulk_job_commands import (
    INSTANT,
    BulkJobOutput,
    add_commands,
    counted,
    dry_run_option,
    rate_option,
    read_body,
    show_preview,
    wait_option,
)
from app.cli.commands import ServiceGroup, actor, confirm, ready_database, yes_option
from app.cli.console import json_option
from app.cli.execution_filter_options import execution_filter_options
from app.cli.options import AGO, TEXT, Duration, EnumChoice, InstantOrAge
from app.features.bulk_jobs.api import begin_in, preview_in, shape
from app.features.bulk_jobs.schemas import BulkOperationSchema, BulkPreviewSchema, NewBulkOperationSchema
from app.features.bulk_jobs.store import BULK_OPERATIONS, OF_SCHEDULES, BulkOperation
from app.kernel.formats import rfc3339
from app.queue.executions.execution_cancellation import IfRunning
from app.web.services import services
from schema.states import BulkAction

group = ServiceGroup(
    "bulk",
    help="Cancel, retry, reschedule or archive all executions of a filter; pause or resume its schedules.",
)


def _about(operation: BulkOperation) -> str:
    wanted = " ".join(f"{name}={value}" for name, value in operation.wanted.items())
    return f"{operation.action} {wanted or 'all'}"


SHOWN = BulkJobOutput(BULK_OPERATIONS, lambda operation: BulkOperationSchema().dump(shape(operation)), _about)
add_commands(group, SHOWN)
_COLUMNS = {"EXECUTION": "execution_id", "STATUS": "status", "DUE": "run_at", "ENDPOINT": "endpoint", "JOB": "job_id"}
_COLUMNS_OF_JOBS = {"JOB": "job_id", "STATUS": "status", "NEXT": "next_run_at", "ENDPOINT": "endpoint", "NAME": "name"}
_NOUNS = {BulkAction.ARCHIVE: "dead letter", **dict.fromkeys(OF_SCHEDULES, "schedule")}


@group.command("start")
@click.argument("action", type=click.Choice([each.value for each in BulkAction]))
@execution_filter_options
@click.option("--created-after", type=InstantOrAge(), help=AGO)
@click.option("--created-before", type=InstantOrAge(), help=AGO)
@click.option("--failed-after", type=InstantOrAge(), help=f"archive: {AGO}")
@click.option("--failed-before", type=InstantOrAge(), help=f"archive: {AGO}")
@click.option("--all", "all_", is_flag=True, help="required if --status is the only filter")
@click.option("--if-running", type=EnumChoice(IfRunning), help="cancel: request or abort running executions")
@click.option("--run-at", type=INSTANT, help="reschedule: new due time; a time in the past means now")
@click.option("--later", type=Duration(), help="reschedule: delay after the planned time: 30m, 2h")
@click.option("--sooner", type=Duration(), help="reschedule: time before the planned time")
@click.option("--spread", type=Duration(), help="reschedule: spread the executions evenly over this time")
@click.option("--note", type=TEXT, help="archive: reason")
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
    """Cancel, retry or reschedule the executions of a filter, archive its dead letters, or pause its schedules.

    Changes each row as `executions cancel`, `executions retry`, `dead-letters archive` or `jobs pause` does, oldest
    first. Exits with 2 if the options do not fit together.
    """
    if later is not None and sooner is not None:
        raise click.UsageError("use either --later or --sooner")
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
    with ready_database() as database:
        seen = BulkPreviewSchema().dump(preview_in(services().creator, body))
        if dry_run:
            if body["action"] in OF_SCHEDULES and not as_json:
                seen |= {"sample": seen["jobs"]}
            columns = _COLUMNS_OF_JOBS if body["action"] in OF_SCHEDULES else _COLUMNS
            return show_preview(seen, columns, "changed", as_json=as_json)
        noun = _NOUNS.get(body["action"], "execution")
        confirm(f"{body['action'].capitalize()} {counted(seen, noun)}?", yes=yes)
        begun = begin_in(database, body, actor().name)
        SHOWN.show(database, begun, wait=wait, as_json=as_json)
    return None
