"""`flask notifications`: what people are told, and trying out the endpoints that tell them."""

import time
from typing import Any

import click

from app.catalog.endpoints import versions
from app.cli.command_session import ready_database
from app.cli.commands import Group
from app.cli.console import json_option, print_json, show_fields
from app.cli.exit_statuses import FAILED, REFUSED, CommandError
from app.cli.progress_bar import progress
from app.cli.shell_completion import OF_ENDPOINTS
from app.features.notifications import rules_cli
from app.features.notifications.trial import trial_of
from app.kernel.db import Database
from app.queue.executions.execution_model import ExecutionWithInput
from app.queue.reading.execution_queries import get_execution
from app.web.services import services
from schema.states import FINAL, ExecutionStatus

LOOK_SECONDS = 0.2

group = Group("notifications", help="Notifications: the rules by which people are told, and trying out a channel.")
rules_cli.add_to(group)


@group.command("test")
@click.argument("endpoint", **OF_ENDPOINTS)
@click.option(
    "--wait", type=click.FloatRange(0, 600), default=30, show_default=True, help="seconds to wait for its end; 0: none"
)
@json_option
def test(endpoint: str, wait: float, as_json: bool) -> None:
    """Send a message that says that it is a test through an endpoint, and show what came of it.

    It is a job like any other, with its retries: it needs a worker, and limits, pauses and breakers count. Exits with 1
    when the message was not sent, or not within the wait, and with 3 when there is no such endpoint.
    """
    with ready_database() as database:
        if versions.get(database, endpoint).paused_at is not None:
            raise CommandError(f"the endpoint {endpoint!r} is paused; resume it first", REFUSED)
        execution = services().creator.create(trial_of(endpoint)).job.execution
        if execution is None:
            raise CommandError("the job has no execution")
        click.echo(f"sending as {execution.execution_id}", err=True)
        with progress("waiting for its end"):
            ended = _until_its_end(database, execution.execution_id, wait)
    names = ("execution_id", "status", "attempt_count", "output", "last_error", "duration_ms")
    told: dict[str, Any] = {name: getattr(ended, name) for name in names}
    if as_json:
        print_json(told)
    else:
        show_fields(told)
    if ended.status is not ExecutionStatus.SUCCESS and wait:
        raise click.exceptions.Exit(FAILED)


def _until_its_end(database: Database, execution_id: str, seconds: float) -> ExecutionWithInput:
    until = time.monotonic() + seconds
    while True:
        found = get_execution(database, execution_id)
        if found.status in FINAL or time.monotonic() >= until:
            return found
        time.sleep(LOOK_SECONDS)
