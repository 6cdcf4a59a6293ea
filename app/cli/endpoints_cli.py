"""`flask endpoints`: preview of an endpoint's request for an input, with masked secrets, and a test delivery."""

import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import click

from app.catalog.endpoints import versions
from app.catalog.endpoints.endpoint_rows import Endpoint
from app.catalog.named_table import CONFIGS, SECRETS
from app.catalog.scrub import MASK
from app.catalog.specs import TRANSPORTS, compile_spec, with_digest
from app.catalog.templates.nodes import STAND_IN, Array, Placeholder, SpecTemplate, UrlNode
from app.cli import executions_tail
from app.cli.commands import FAILED, REFUSED, CommandError, ServiceGroup, ready_database
from app.cli.console import json_option, print_json, progress, show_fields, show_line
from app.cli.options import read_json
from app.cli.shell_completion import OF_ENDPOINTS
from app.kernel.db import Database
from app.kernel.errors import SecretNotFoundError
from app.queue.executions.execution_records import ExecutionWithInput
from app.queue.jobs.job_model import NewJob, own_key
from app.web.services import services
from schema.states import EndpointType, ExecutionStatus, Trigger

group = ServiceGroup("endpoints", help="Endpoints: try one.")


@dataclass(frozen=True, slots=True)
class RenderedRequest:
    """Rendered request of an endpoint with masked secrets; `missing` names secrets that do not exist."""

    endpoint: Endpoint
    target: str | None
    spec: dict[str, Any]
    missing: list[str]


def _input(_context: click.Context, _parameter: click.Parameter, text: str) -> dict[str, Any]:
    value = read_json(text)
    if not isinstance(value, dict):
        raise click.BadParameter("use a JSON object, or @FILE that contains one")
    return value


@group.command("test")
@click.argument("name", **OF_ENDPOINTS)
@click.option("--input", "input_", default="{}", callback=_input, help="input of the job: a JSON object, or @FILE")
@click.option("--send", is_flag=True, help="send it once: create a job and wait for its end")
@json_option
def test(name: str, input_: dict[str, Any], send: bool, as_json: bool) -> None:
    """Show an endpoint's request for an input, with [secret] in place of secrets; --send delivers it.

    --send creates an ordinary job without retries: it needs a worker and obeys limits, pauses and breakers. Exits with
    1 if the input is invalid, a template cannot be resolved, a secret is missing, or the delivery fails.
    """
    with ready_database() as database:
        # Validate the input against the payload spec, as at the creation of a job.
        services().creator.targets.accepting(name, input_)
        rendered = _render(database, name, input_)
        if not as_json:
            _show(rendered)
        if rendered.missing:
            raise CommandError(f"secrets that do not exist: {', '.join(rendered.missing)}; create them first")
        sent = _send(database, rendered.endpoint, input_) if send else None
    if as_json:
        print_json(_shape(rendered, sent))
    elif sent is not None:
        show_line("")
        show_fields({"execution": sent.execution_id, "status": sent.status, "output": sent.output})
        show_fields({"error": sent.last_error, "duration_ms": sent.duration_ms})
    if sent is not None and sent.status is not ExecutionStatus.SUCCESS:
        raise click.exceptions.Exit(FAILED)


def _render(database: Database, name: str, input_: dict[str, Any]) -> RenderedRequest:
    endpoint = versions.get(database, name)
    config = CONFIGS.get(database, endpoint.config).value if endpoint.config else {}
    template = compile_spec(endpoint.type, endpoint.spec)
    whole = _begin_urls(template)
    spec = template.render(input_, config, dict.fromkeys(template.secret_refs, STAND_IN) | whole)
    # If a URL begins with a secret, only the secret determines the target.
    target = None if whole else _target(endpoint.type, template, config, spec)
    missing = [each for each in sorted(template.secret_refs) if not _exists(database, each)]
    return RenderedRequest(endpoint, target, _shown(spec, whole.values()), missing)


def _target(
    type_: EndpointType, template: SpecTemplate, config: Mapping[str, Any], spec: Mapping[str, Any]
) -> str | None:
    try:
        target = TRANSPORTS[type_].target(spec).replace(STAND_IN, MASK)
    except ValueError:
        return None
    apart = TRANSPORTS[type_].apart(template, config)
    return with_digest(target, apart) if apart else target


def _shown(spec: Mapping[str, Any], urls: Iterable[str]) -> dict[str, Any]:
    """Return a spec with its stand-ins for secrets, also percent-encoded ones, replaced by the mask."""
    written = json.dumps(spec)
    for url in urls:
        written = written.replace(url, MASK).replace(quote(url, safe=""), MASK)
    shown: dict[str, Any] = json.loads(written.replace(STAND_IN, MASK))
    return shown


def _begin_urls(template: SpecTemplate) -> dict[str, str]:
    """Return the secrets at the beginning of URLs, each with a stand-in URL."""
    found: dict[str, str] = {}
    nodes = [node for _, node in template.root.items]
    while nodes:
        match nodes.pop():
            case UrlNode(pieces=((Placeholder(namespace="secret", path=path), _), *_), schemes=schemes):
                found[".".join(path)] = f"{min(schemes)}://{STAND_IN}"
            case Array(items=items):
                nodes += items
    return found


def _exists(database: Database, secret: str) -> bool:
    try:
        SECRETS.get(database, secret)
    except SecretNotFoundError:
        return False
    return True


def _send(database: Database, endpoint: Endpoint, input_: dict[str, Any]) -> ExecutionWithInput:
    if endpoint.paused_at is not None:
        raise CommandError(f"the endpoint {endpoint.name!r} is paused; resume it first", REFUSED)
    key = own_key("cli-test", secrets.token_hex(8))
    new = NewJob(endpoint=endpoint.name, trigger=Trigger.IMMEDIATE, input=input_, idempotency_key=key)
    execution = services().creator.create(new, attempts=1).job.execution
    if execution is None:
        raise CommandError("the job has no execution")
    click.echo(f"sending as {execution.execution_id}; after Ctrl-C the delivery continues", err=True)
    with progress("waiting for the end of the execution"):
        return executions_tail.until_its_end(database, execution.execution_id)


def _show(rendered: RenderedRequest) -> None:
    endpoint = rendered.endpoint
    about = {"endpoint": endpoint.name, "version": endpoint.version, "type": endpoint.type}
    show_fields(about | {"target": rendered.target, "queue": endpoint.queue_in_effect})
    show_line("")
    for line in json.dumps(rendered.spec, indent=2, ensure_ascii=False).splitlines():
        show_line(line)


def _shape(rendered: RenderedRequest, sent: ExecutionWithInput | None) -> dict[str, Any]:
    endpoint = rendered.endpoint
    shaped = {"endpoint": endpoint.name, "version": endpoint.version, "type": endpoint.type}
    shaped |= {"target": rendered.target, "spec": rendered.spec, "sent": None}
    if sent is not None:
        names = ("execution_id", "status", "output", "last_error", "duration_ms")
        shaped["sent"] = {each: getattr(sent, each) for each in names}
    return shaped
