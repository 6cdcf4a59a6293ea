"""`flask prune`: delete what is older than the retention now, as the scheduler does every hour."""

from dataclasses import replace
from datetime import timedelta
from functools import partial

import click
from flask.cli import with_appcontext

from app.cli import commands
from app.cli.command_session import confirm, ready_database, yes_option
from app.cli.console import json_option, print_json, show_fields, show_line
from app.cli.options import Duration
from app.cli.progress_bar import progress
from app.queue.claiming.shards import ShardCount, stored_beyond
from app.scheduler.chore import Counts
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
        shards = ShardCount(services().shards, partial(stored_beyond, database))
        with progress("executions deleted") as advance:
            pruner = Pruner(database, settings, survey=shards.survey, stopping=lambda: False, deleted=advance)
            done = _prune(pruner)
    if as_json:
        return print_json(dict(done))
    show_fields(dict(done))
    if not done:
        show_line("nothing was old enough")
    return None


def _prune(pruner: Pruner) -> Counts:
    chores = [pruner.prune, pruner.prune_audit, pruner.prune_configs, pruner.prune_keys]
    chores += [pruner.prune_gates, pruner.prune_breakers]
    done = Counts()
    for chore in chores:
        # A chore ends after a while, for the sake of the scheduler's others.
        while counts := +chore():
            done.update(counts)
            if chore != pruner.prune or not counts["executions"]:
                break
    return done
