"""`flask redrives`: start and steer redrives of dead letters by a filter."""

from dataclasses import asdict
from typing import Any

import click

from app.cli.bulk_job_commands import Shown, add_commands, dry_run_option, rate_option, read_body, wait_option
from app.cli.command_session import actor, confirm, ready_database, yes_option
from app.cli.commands import ServiceGroup
from app.cli.console import json_option, print_json, show_line, show_table
from app.cli.options import LABELS, TEXT, Moment, Value
from app.cli.shell_completion import OF_ENDPOINTS
from app.features.dead_letters import redrives
from app.features.dead_letters.api import RedriveSchema
from app.features.dead_letters.redrives import REDRIVES, Redrive
from app.features.dead_letters.redrives_api import (
    NewRedriveSchema,
    PreviewSchema,
    RedriveOfSeveralSchema,
    asked_in,
    preview_in,
)
from app.web.services import services

group = ServiceGroup("redrives", help="Redrives: re-run the dead letters of a filter.")


def _about(redrive: Redrive) -> str:
    to = f" -> {redrive.to_endpoint}" if redrive.to_endpoint else ""
    return f"{' '.join(f'{name}={value}' for name, value in redrive.wanted.items()) or 'all'}{to}"


SHOWN = Shown(REDRIVES, lambda redrive: RedriveOfSeveralSchema().dump(asdict(redrive)), _about)
add_commands(group, SHOWN)


@group.command("start")
@click.option("--endpoint", type=TEXT, **OF_ENDPOINTS, help="only letters of this endpoint")
@click.option("--error-type", type=TEXT, help="only letters with this error, such as HTTP_ERROR")
@click.option("--labels", type=LABELS, help="only letters of jobs with all these labels: team=billing,env=prod")
@click.option("--failed-after", type=Moment(), help="30m, 2h, 7d ago, or a time with offset")
@click.option("--failed-before", type=Moment(), help="30m, 2h, 7d ago, or a time with offset")
@click.option("--all", "all_", is_flag=True, help="required without a filter: all open letters")
@click.option(
    "--to-endpoint",
    type=Value("name", RedriveSchema().fields["endpoint"]),
    **OF_ENDPOINTS,
    help="create a new job for this endpoint from each",
)
@rate_option
@dry_run_option
@yes_option
@wait_option
@json_option
def start(
    *,
    all_: bool,
    to_endpoint: str | None,
    rate: int | None,
    dry_run: bool,
    yes: bool,
    wait: bool,
    as_json: bool,
    **filters: Any,
) -> None:
    """Redrive the open dead letters of a filter, oldest first.

    Exits with 2 without a filter or --all, with 3 when there is no such endpoint.
    """
    body = read_body(NewRedriveSchema(), filters, all=all_, to_endpoint=to_endpoint, rate=rate)
    with ready_database() as database:
        wanted, _ = asked_in(database, body)
        seen = PreviewSchema().dump(preview_in(services().creator, wanted))
        if dry_run:
            return _show(seen, as_json=as_json)
        more = "" if seen["is_complete"] else " or more"
        confirm(f"Redrive {seen['count']:,}{more} dead letters?", yes=yes)
        begun = redrives.begin(database, wanted, to_endpoint=to_endpoint, rate=body["rate"], actor=actor().name)
        SHOWN.tell(database, begun, wait=wait, as_json=as_json)
    return None


def _show(seen: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        return print_json(seen)
    rows = [(each["letter_id"], each["failed_at"], each["endpoint"], each["error_type"]) for each in seen["sample"]]
    show_table(("LETTER", "FAILED", "ENDPOINT", "ERROR"), rows)
    show_line(f"{seen['count']:,}{'' if seen['is_complete'] else ' or more'} would be redriven (dry run)")
    return None
