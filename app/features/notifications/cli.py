"""`flask notifications`: rules, their previews, and test messages."""

import time
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, TextIO

import click
import yaml
from marshmallow import ValidationError

from app.catalog.endpoints import versions
from app.cli.catalog_section import CatalogSection
from app.cli.commands import FAILED, REFUSED, CommandError, ServiceGroup, actor, confirm, ready_database, yes_option
from app.cli.console import json_option, print_fields, print_json, print_result, progress, show_line, show_table
from app.cli.options import Number, gather, limit_option, show_list
from app.cli.shell_completion import OF_ENDPOINTS
from app.features.notifications import store as notifications_store
from app.features.notifications.api import shape, shape_preview
from app.features.notifications.rule_preview import Preview
from app.features.notifications.rules import Rule
from app.features.notifications.schemas import (
    ChangedNotificationRuleSchema,
    NotificationPreviewSchema,
    NotificationQuestionSchema,
    NotificationRuleSchema,
)
from app.features.notifications.store import RULES, stored_value
from app.features.notifications.trial_messages_api import channel_faults, trial_job
from app.kernel.audit.change import AuditedChange
from app.kernel.errors import InvalidNotificationRuleError, InvalidRequestError
from app.kernel.formats import compact_json, marshmallow_faults, numbered, pointer
from app.queue.reading.execution_queries import get_execution
from app.web.http.body import parse_json
from app.web.services import services
from schema.states import FINAL, ExecutionStatus

POLL_SECONDS = 0.2

group = ServiceGroup("notifications", help="Manage notification rules, preview their messages, and test a channel.")


@group.command("test")
@click.argument("endpoint", **OF_ENDPOINTS)
@click.option("--wait", type=Number(0, 600), default=30, show_default=True, help="seconds to wait for the execution")
@json_option
def test(endpoint: str, wait: float, as_json: bool) -> None:
    """Send a test message through an endpoint, and show its execution.

    The message is an ordinary job: it needs a worker, is retried, and respects limits, pauses and breakers. Exits with
    1 if the message was not sent within the wait, and with 3 if the endpoint does not exist.
    """
    with ready_database() as database:
        if versions.get(database, endpoint).paused_at is not None:
            raise CommandError(f"the endpoint {endpoint!r} is paused; resume it first", REFUSED)
        with channel_faults(endpoint):
            execution = services().creator.create(trial_job(endpoint)).job.execution
        if execution is None:
            raise CommandError("the job has no execution")
        click.echo(f"sending as {execution.execution_id}", err=True)
        until = time.monotonic() + wait
        with progress("waiting for the execution"):
            while (ended := get_execution(database, execution.execution_id)).status not in FINAL:
                if time.monotonic() >= until:
                    break
                time.sleep(POLL_SECONDS)
    names = ("execution_id", "status", "attempt_count", "output", "last_error", "duration_ms")
    print_fields({name: getattr(ended, name) for name in names}, as_json=as_json)
    if ended.status is not ExecutionStatus.SUCCESS and wait:
        raise click.exceptions.Exit(FAILED)


@group.command("list")
@limit_option
@json_option
def list_(limit: int, as_json: bool) -> None:
    """List notification rules, newest first."""
    with ready_database() as database:
        found, is_more = gather(partial(RULES.page, database), limit)
    shown = [NotificationRuleSchema().dump(shape(row)) for row in found]
    rows = [
        (each["name"], " ".join(each["events"]), _conditions(each), " ".join(each["channels"]), each["updated_at"])
        for each in shown
    ]
    show_list(shown, ("RULE", "EVENTS", "WHERE", "CHANNELS", "CHANGED"), rows, is_more=is_more, as_json=as_json)


@group.command("show")
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> None:
    """Show a notification rule. Exits with 3 if it does not exist."""
    with ready_database() as database:
        found = NotificationRuleSchema().dump(shape(RULES.get(database, name)))
    print_fields(found, as_json=as_json)


@group.command("preview")
@click.argument("name", required=False)
@click.option("--file", type=click.File("r", encoding="utf-8"), help="a rule in YAML or JSON that need not be stored")
@json_option
def preview_(name: str | None, file: TextIO | None, as_json: bool) -> None:
    """Show the messages that a rule, stored or in a file, would have sent within the last day; nothing is sent.

    Exits with 3 if the rule does not exist.
    """
    if (name is None) == (file is None):
        raise click.UsageError("give the name of a rule, or --file")
    with ready_database() as database:
        rule = notifications_store.get(database, name) if name is not None else _read(file)
        found = NotificationPreviewSchema().dump(shape_preview(rule, Preview(database, rule)))
    if as_json:
        return print_json(found)
    rows = [
        (each["opened_at"], each["sent_at"] or f"waits: {each['waits_for']}", each["count"], each["title"])
        for each in found["messages"]
    ]
    show_table(("FIRST EVENT", "SENT", "EVENTS", "TITLE"), rows, right=["EVENTS"])
    show_line(
        f"{numbered(found['message_count'], 'message')} of {numbered(found['events'], 'event')} since {found['since']}"
    )
    if found["truncated"]:
        click.echo("too many events to read: the preview covers less than a day", err=True)
    if found["not_previewed"]:
        click.echo(f"not previewed, because no history is stored: {', '.join(found['not_previewed'])}", err=True)
    return None


@group.command("delete")
@click.argument("name")
@yes_option
@json_option
def delete(name: str, yes: bool, as_json: bool) -> None:
    """Delete a notification rule with its unsent events. Exits with 3 if it does not exist."""
    with ready_database() as database:
        RULES.get(database, name)
        confirm(f"Delete the notification rule {name!r}?", yes=yes)
        RULES.delete(database, name, AuditedChange(actor()))
    print_result({"name": name}, f"{name} is deleted", as_json=as_json)


def _read(file: Any) -> Rule:
    try:
        value = parse_json(compact_json(yaml.safe_load(file.read())), has_places=False)
    except (yaml.YAMLError, TypeError, ValueError, RecursionError, InvalidRequestError) as error:
        raise CommandError(f"{file.name} is not valid: {' '.join(str(error).split())}") from None
    if not isinstance(value, dict):
        raise CommandError(f"{file.name} holds no rule")
    try:
        body = NotificationQuestionSchema().load(value)
        return notifications_store.check(body.get("name", "preview"), stored_value(body))
    except ValidationError as error:
        shown = "; ".join(f"{pointer(path) or '/'}: {fault}" for path, fault in marshmallow_faults(error.messages))
        raise CommandError(f"{file.name}: {shown}") from None
    except InvalidNotificationRuleError as error:
        raise CommandError(f"{file.name}: {error.message}") from None


def _conditions(rule: dict[str, Any]) -> str:
    if rule["all"]:
        return "all"
    return " ".join(f"{name}={rule[name]}" for name in ("endpoint", "label", "queue") if rule[name] is not None)


class RuleSection(CatalogSection):
    """Section `notification_rules` of the catalog document: rules by their names, without their defaults."""

    key = "notification_rules"
    table = RULES
    schema = ChangedNotificationRuleSchema

    def stored_value(self, loaded: dict[str, Any]) -> Mapping[str, Any]:
        return stored_value(loaded)

    def check(self, name: str, value: Mapping[str, Any], endpoints: Collection[str]) -> None:
        """Check a rule; raise CommandError for a channel that is not among the endpoints."""
        for index, channel in enumerate(value["channels"]):
            if channel not in endpoints:
                where = f"/notification_rules/{name}/channels/{index}"
                raise CommandError(f"{where}: there is no endpoint named {channel!r}")
        notifications_store.check(name, value)
