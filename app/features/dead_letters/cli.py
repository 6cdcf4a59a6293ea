"""`flask dead-letters` and `flask redrives`: single dead letters, and redrives of a filter."""

from dataclasses import asdict
from functools import partial
from typing import Any

import click

from app.cli.bulk_job_commands import (
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
from app.cli.console import json_option, print_json, print_result, show_fields, show_line, show_table
from app.cli.options import AGO, LABELS, TEXT, EnumChoice, F, InstantOrAge, Value, gather, limit_option, show_list
from app.cli.shell_completion import OF_ENDPOINTS
from app.features.dead_letters.api import (
    ArchiveSchema,
    DeadLetterSchema,
    DeadLetterViewSchema,
    RedriveSchema,
    view_of,
)
from app.features.dead_letters.letter_list import LetterFilter, LetterState, get_letter, page_of_letters
from app.features.dead_letters.redrive import Replacement, redrive
from app.features.dead_letters.redrives import REDRIVES, Redrive
from app.features.dead_letters.redrives_api import (
    NewRedriveSchema,
    PreviewSchema,
    RedriveOfSeveralSchema,
    begin_in,
    preview_in,
)
from app.features.dead_letters.trial import MAX_TRIAL
from app.queue.ending import letters as dead_letters_store
from app.web.services import services, wake

group = ServiceGroup("dead-letters", help="Dead letters: failed executions until they are resolved.")


def _filter_options(command: F) -> F:
    """Declare the options that filter dead letters."""
    for option in (
        click.option("--failed-before", type=InstantOrAge(), help=AGO),
        click.option("--failed-after", type=InstantOrAge(), help=AGO),
        click.option("--labels", type=LABELS, help="only letters of jobs with all these labels: team=billing,env=prod"),
        click.option("--error-type", type=TEXT, help="only letters with this error, such as HTTP_ERROR"),
        click.option("--endpoint", type=TEXT, **OF_ENDPOINTS, help="only letters of this endpoint"),
    ):
        command = option(command)
    return command


@group.command("list")
@click.option("--state", type=EnumChoice(LetterState), help="open (default) or resolved")
@_filter_options
@limit_option
@json_option
def list_(state: LetterState | None, limit: int, as_json: bool, **filters: Any) -> None:
    """List dead letters, latest failure first."""
    wanted = LetterFilter(state=state or LetterState.OPEN, **filters)
    with ready_database() as database:
        found, is_more = gather(partial(page_of_letters, database, wanted), limit)
    items = [DeadLetterSchema().dump(each) for each in found]
    header = ("LETTER", "FAILED", "ENDPOINT", "ATTEMPTS", "ERROR", "RESOLUTION", "BY")
    rows = [
        (
            *(each.letter_id, each.failed_at, each.endpoint, each.attempt_count),
            *(f"{each.error_type}: {each.message or ''}", each.resolution, each.resolved_by),
        )
        for each in found
    ]
    show_list(items, header, rows, is_more=is_more, as_json=as_json, right=["ATTEMPTS"])


@group.command("show")
@click.argument("letter_id")
@json_option
def show(letter_id: str, as_json: bool) -> None:
    """Show a dead letter with its execution and every attempt. Exits with 3 when there is no such letter."""
    with ready_database() as database:
        found = DeadLetterViewSchema().dump(view_of(database, letter_id))
    if as_json:
        return print_json(found)
    attempts, execution, more = (found.pop(name) for name in ("attempts", "execution", "more_attempts"))
    show_fields(found | {"status": execution["status"], "input": execution["input"]})
    show_line("")
    rows = [
        (each["attempt_number"], each["status"], each["started_at"], each["duration_ms"], each["error"])
        for each in attempts
    ]
    show_table(("ATTEMPT", "STATUS", "STARTED", "MS", "ERROR"), rows, right=["ATTEMPT", "MS"])
    if more is not None:
        show_line(f"there were more: GET {more}")
    return None


@group.command("redrive")
@click.argument("letter_id")
@click.option(
    "--endpoint", type=Value("name", RedriveSchema().fields["endpoint"]), help="make a new job for this endpoint"
)
@json_option
def redrive_(letter_id: str, endpoint: str | None, as_json: bool) -> None:
    """Redrive a dead letter: its execution is retried, or a new job for --endpoint is created.

    Exits with 3 when there is no such letter, with 4 when it was resolved in another way or cannot be retried.
    """
    replacement = None if endpoint is None else Replacement(endpoint)
    with ready_database() as database:
        wake(redrive(services().creator, letter_id, replacement, actor=actor().name))
        letter = get_letter(database, letter_id)
    line = f"{letter_id} is redriven as {letter.redriven_as}"
    print_result(DeadLetterSchema().dump(asdict(letter)), line, as_json=as_json)


@group.command("archive")
@click.argument("letter_id")
@click.option("--note", type=Value("text", ArchiveSchema().fields["note"]), required=True, help="reason")
@yes_option
@json_option
def archive(letter_id: str, note: str, yes: bool, as_json: bool) -> None:
    """Archive a dead letter: it is resolved without a retry, and deleted after the retention.

    Exits with 3 when there is no such letter, with 4 when it was resolved in another way.
    """
    with ready_database() as database:
        confirm(f"Archive the dead letter {letter_id} of {get_letter(database, letter_id).endpoint!r}?", yes=yes)
        dead_letters_store.archive(database, letter_id, note=note, actor=actor().name)
        letter = get_letter(database, letter_id)
    print_result(DeadLetterSchema().dump(asdict(letter)), f"{letter_id} is {letter.resolution}", as_json=as_json)


redrives_group = ServiceGroup("redrives", help="Redrives: re-run the dead letters of a filter.")


def _about(redrive: Redrive) -> str:
    to = f" -> {redrive.to_endpoint}" if redrive.to_endpoint else ""
    return f"{' '.join(f'{name}={value}' for name, value in redrive.wanted.items()) or 'all'}{to}"


SHOWN = BulkJobOutput(REDRIVES, lambda redrive: RedriveOfSeveralSchema().dump(asdict(redrive)), _about)
add_commands(redrives_group, SHOWN)
_COLUMNS = {"LETTER": "letter_id", "FAILED": "failed_at", "ENDPOINT": "endpoint", "ERROR": "error_type"}


@redrives_group.command("start")
@_filter_options
@click.option("--all", "all_", is_flag=True, help="required without a filter: all open letters")
@click.option(
    "--to-endpoint",
    type=Value("name", RedriveSchema().fields["endpoint"]),
    **OF_ENDPOINTS,
    help="create a new job for this endpoint from each",
)
@click.option("--trial", type=click.IntRange(1, MAX_TRIAL), help="redrive so many first, and wait for their ends")
@click.option("--least", type=click.IntRange(1, MAX_TRIAL), help="successes that the trial needs; default: 9 of 10")
@rate_option
@dry_run_option
@yes_option
@wait_option
@json_option
def start(
    *,
    all_: bool,
    to_endpoint: str | None,
    trial: int | None,
    least: int | None,
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
    given = {"all": all_, "to_endpoint": to_endpoint, "trial": trial, "least": least, "rate": rate}
    body = read_body(NewRedriveSchema(), filters, **given)
    with ready_database() as database:
        seen = PreviewSchema().dump(preview_in(services().creator, body))
        if dry_run:
            return show_preview(seen, _COLUMNS, "redriven", as_json=as_json)
        confirm(f"Redrive {counted(seen, 'dead letter')}?", yes=yes)
        begun = begin_in(database, body, actor().name)
        SHOWN.show(database, begun, wait=wait, as_json=as_json)
    return None
