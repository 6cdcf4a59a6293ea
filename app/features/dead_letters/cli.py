"""`flask dead-letters`: list, show, redrive and archive dead letters."""

from dataclasses import asdict
from functools import partial
from typing import Any

import click

from app.cli.command_session import actor, confirm, ready_database, yes_option
from app.cli.commands import ServiceGroup
from app.cli.console import json_option, print_json, show_fields, show_line, show_table
from app.cli.options import LABELS, TEXT, Moment, Value, enum_option, gather, limit_option, tell_more
from app.features.dead_letters.api import (
    ArchiveSchema,
    DeadLetterSchema,
    DeadLetterViewSchema,
    RedriveSchema,
    view_of,
)
from app.features.dead_letters.letter_list import LetterFilter, LetterState, get_letter, page_of_letters
from app.features.dead_letters.redrive import Anew, redrive
from app.queue.ending import letters as dead_letters_store
from app.web.services import services, wake

group = ServiceGroup("dead-letters", help="Dead letters: failed executions until they are resolved.")


@group.command("list")
@enum_option("--state", LetterState, "open (default) or resolved")
@click.option("--endpoint", type=TEXT, help="only letters of this endpoint")
@click.option("--error-type", type=TEXT, help="only letters with this error, such as HTTP_ERROR")
@click.option("--labels", type=LABELS, help="only letters of jobs with all these labels: team=billing,env=prod")
@click.option("--failed-after", type=Moment(), help="30m, 2h, 7d ago, or a time with offset")
@click.option("--failed-before", type=Moment(), help="30m, 2h, 7d ago, or a time with offset")
@limit_option
@json_option
def list_(state: LetterState | None, limit: int, as_json: bool, **filters: Any) -> None:
    """List dead letters, latest failure first."""
    wanted = LetterFilter(state=state or LetterState.OPEN, **filters)
    with ready_database() as database:
        found, is_more = gather(partial(page_of_letters, database, wanted), limit)
    if as_json:
        return print_json({"items": [DeadLetterSchema().dump(asdict(each)) for each in found], "more": is_more})
    header = ("LETTER", "FAILED", "ENDPOINT", "ATTEMPTS", "ERROR", "RESOLUTION", "BY")
    rows = [
        (
            *(each.letter_id, each.failed_at, each.endpoint, each.attempt_count),
            *(f"{each.error_type}: {each.message or ''}", each.resolution, each.resolved_by),
        )
        for each in found
    ]
    show_table(header, rows, right=["ATTEMPTS"])
    tell_more(is_more)
    return None


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
    anew = None if endpoint is None else Anew(endpoint)
    with ready_database() as database:
        wake(redrive(services().creator, letter_id, anew, actor=actor().name))
        letter = get_letter(database, letter_id)
    if as_json:
        return print_json(DeadLetterSchema().dump(asdict(letter)))
    show_line(f"{letter_id} is redriven as {letter.redriven_as}")
    return None


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
    if as_json:
        return print_json(DeadLetterSchema().dump(asdict(letter)))
    show_line(f"{letter_id} is {letter.resolution}")
    return None
