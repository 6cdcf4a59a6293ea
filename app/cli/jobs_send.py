"""`flask jobs send`: create a job that sends a body to a URL."""

from typing import Any
from uuid import uuid4

import click
from marshmallow import ValidationError

from app.catalog.specs.http import METHODS
from app.cli import executions_tail
from app.cli.commands import FAILED, CommandError, ServiceCommand, actor, ready_database
from app.cli.console import json_option, print_result
from app.cli.options import read_json
from app.kernel.formats import marshmallow_faults, pointer
from app.web.jobs.answer_schemas import JobSchema
from app.web.jobs.request_schemas import NewJobSchema, new_job
from app.web.services import services
from schema.states import ExecutionStatus

_FIELDS = ("method", "timeout_ms", "delay", "run_at", "cron", "timezone", "every", "idempotency_key")


def _headers(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, str] | None:
    pairs = [text.partition(":") for text in texts]
    if any(not colon for _, colon, _ in pairs):
        raise click.BadParameter("use NAME: VALUE")
    return {name.strip(): value.strip() for name, _, value in pairs} or None


def _body(_context: click.Context, _parameter: click.Parameter, text: str | None) -> Any:
    return None if text is None else read_json(text)


@click.command("send", cls=ServiceCommand)
@click.argument("url")
@click.option("--body", callback=_body, help="JSON to send, or @FILE that contains it")
@click.option("--method", type=click.Choice(METHODS, case_sensitive=False), help="POST by default")
@click.option("--header", "headers", multiple=True, callback=_headers, help="NAME: VALUE; can be repeated")
@click.option("--signing-secret", metavar="NAME", help="stored secret that signs each request")
@click.option("--max-attempts", type=int, help="attempts, with growing waits; 1 by default")
@click.option("--timeout-ms", type=int, help="time limit of an attempt; 30000 by default")
@click.option("--delay", help="time from now: 10m, PT10M")
@click.option("--run-at", help="instant with an offset: 2030-01-31T09:00:00Z")
@click.option("--cron", help="five fields; needs --timezone")
@click.option("--timezone", help="IANA time zone of --cron")
@click.option("--every", help="interval: 5m")
@click.option("--key", "idempotency_key", help="idempotency key: a second command with it creates no job")
@click.option("--wait", is_flag=True, help="wait until the execution ends; exits with 1 unless it ends as SUCCESS")
@json_option
def send(url: str, body: Any, headers: dict[str, str] | None, wait: bool, as_json: bool, **options: Any) -> None:
    """Create a job that sends JSON to a URL: at once, later or repeatedly, without an endpoint."""
    given = {"url": url, "body": body, "headers": headers} | {name: options[name] for name in _FIELDS}
    if options["signing_secret"] is not None:
        given["signing"] = {"secret": f"{{{{secret.{options['signing_secret']}}}}}"}
    if options["max_attempts"] is not None:
        given["retry_policy"] = {"max_attempts": options["max_attempts"]}
    fields = {name: value for name, value in given.items() if value is not None}
    try:
        parsed = NewJobSchema().load(fields)
    except ValidationError as error:
        faults = [f"{pointer(path)}: {text}" for path, text in marshmallow_faults(error.messages)]
        raise CommandError("; ".join(faults), FAILED) from None
    parsed.setdefault("idempotency_key", None if parsed["trigger"].repeats else uuid4().hex)
    with ready_database() as database:
        job = services().creator.create(new_job(parsed, by=actor())).job
        execution_id, ended = None if job.execution is None else job.execution.execution_id, None
        if wait and execution_id is not None:
            ended = executions_tail.until_its_end(database, execution_id).status
        text = f"{job.job_id} is created" if ended is None else f"{job.job_id} ended as {ended}"
        print_result(JobSchema().dump(job) | {"ended": ended}, text, as_json=as_json)
    if ended not in {None, ExecutionStatus.SUCCESS}:
        raise click.exceptions.Exit(FAILED)
