"""`flask prune`: delete rows older than the retention now, as the scheduler does every hour."""

from dataclasses import replace
from datetime import timedelta

import click
from flask.cli import with_appcontext

from app.cli import commands
from app.cli.commands import confirm, ready_database, yes_option
from app.cli.console import json_option, print_json, progress, show_fields, show_line
from app.cli.options import Duration
from app.kernel.function_types import never, nobody
from app.scheduler.chore import ChoreContext, Counts
from app.scheduler.chore_plan import plan
from app.scheduler.pruner import Pruner
from app.web.services import services


@commands.command("prune")
@click.option("--older-than", "age", type=Duration(), help="age of executions: 30d, 12h; default TE_RETENTION_DAYS")
@yes_option
@json_option
@with_appcontext
def command(age: timedelta | None, yes: bool, as_json: bool) -> None:
    """Delete executions that ended before the retention, with their attempts, logs and one-shot jobs.

    Also deletes old audit entries, idempotency keys, superseded configs, and unused limiters and breakers. Works in
    batches beside running processes; may be interrupted and repeated.
    """
    settings = services().settings
    settings = settings if age is None else replace(settings, retention_days=age / timedelta(days=1))
    with ready_database() as database:
        question = f"Delete for good all executions that ended longer ago than {settings.retention_days:g} d,"
        confirm(f"{question} and audit entries after {settings.audit_retention_days:g} d?", yes=yes)
        context = ChoreContext(database, settings, hint=nobody, stopping=never)
        with progress("executions deleted") as advance:
            done = _prune(Pruner(context, deleted=advance), context)
    if as_json:
        return print_json(dict(done))
    show_fields(dict(done))
    if not done:
        show_line("nothing to delete: no rows are older than the retention")
    return None


def _prune(pruner: Pruner, context: ChoreContext) -> Counts:
    done = Counts()
    # One run of the executions' chore is limited in time, because it shares the scheduler with other chores.
    while counts := +pruner.prune():
        done.update(counts)
        if not counts["executions"]:
            break
    for chore in plan(context):
        if chore.name.startswith("prune_"):
            done.update(+chore.run())
    return done
