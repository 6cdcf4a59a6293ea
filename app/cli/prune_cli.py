"""`flask prune`: delete what is older than the retention now, as the scheduler does every hour."""

from dataclasses import replace
from datetime import timedelta

import click
from flask.cli import with_appcontext

from app.cli import commands
from app.cli.command_session import confirm, ready_database, yes_option
from app.cli.console import json_option, print_json, show_fields, show_line
from app.cli.options import Duration
from app.cli.progress_bar import progress
from app.scheduler.chore import ChoreContext, Counts
from app.scheduler.plan import plan
from app.scheduler.pruner import Pruner
from app.web.services import services


@commands.command("prune")
@click.option("--older-than", "age", type=Duration(), help="30d, 12h; of executions; TE_RETENTION_DAYS otherwise")
@yes_option
@json_option
@with_appcontext
def command(age: timedelta | None, yes: bool, as_json: bool) -> None:
    """Delete executions that ended before the retention, with their attempts, logs and one-shot jobs.

    And old entries of the audit log, idempotency keys, and superseded configs, gates and breakers that nobody needs any
    more. In batches, beside everything that runs; may be interrupted and repeated.
    """
    settings = services().settings
    settings = settings if age is None else replace(settings, retention_days=age / timedelta(days=1))
    with ready_database() as database:
        question = f"Delete for good what ended more than {settings.retention_days:g} days ago,"
        confirm(f"{question} and entries of the audit log after {settings.audit_retention_days:g} days?", yes=yes)
        context = ChoreContext.of(database, settings, hint=lambda _queue: None, stopping=lambda: False)
        with progress("executions deleted") as advance:
            done = _prune(Pruner(context, deleted=advance), context)
    if as_json:
        return print_json(dict(done))
    show_fields(dict(done))
    if not done:
        show_line("nothing was old enough")
    return None


def _prune(pruner: Pruner, context: ChoreContext) -> Counts:
    done = Counts()
    # The chore of executions ends after a while, for the sake of the scheduler's others.
    while counts := +pruner.prune():
        done.update(counts)
        if not counts["executions"]:
            break
    for chore in plan(context):
        if chore.name.startswith("prune_"):
            done.update(+chore.run())
    return done
