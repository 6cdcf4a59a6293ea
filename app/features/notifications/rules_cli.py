"""`flask notifications list`, `show`, `preview` and `delete`: the rules by which people are told."""

from typing import Any, TextIO

import click
import yaml
from flask.cli import with_appcontext

from app.cli.command_session import actor, confirm, ready_database, yes_option
from app.cli.commands import Group, command
from app.cli.console import json_option, print_json, show_fields, show_line, show_table
from app.cli.exit_statuses import CommandError
from app.cli.options import gather, limit_option, tell_more
from app.features.notifications import store as notifications_store
from app.features.notifications.rule_preview import preview
from app.features.notifications.rules import Rule
from app.features.notifications.rules_api import shape, shape_preview, value_of
from app.features.notifications.schemas import (
    NotificationPreviewSchema,
    NotificationQuestionSchema,
    NotificationRuleSchema,
)
from app.features.notifications.store import RULES
from app.kernel.audit.change import AuditedChange
from app.kernel.errors import InvalidNotificationRuleError, InvalidRequestError
from app.kernel.formats import compact_json, marshmallow_faults, pointer
from app.web.http.body import parse_json


def add_to(group: Group) -> None:
    """Add the commands of rules to a group."""
    for each in (list_, show, preview_, delete):
        group.add_command(each)


@command("list")
@limit_option
@json_option
@with_appcontext
def list_(limit: int, as_json: bool) -> None:
    """List notification rules, newest first."""
    with ready_database() as database:
        found, is_more = gather(lambda page: RULES.page(database, page), limit)
    shown = [NotificationRuleSchema().dump(shape(row)) for row in found]
    if as_json:
        return print_json({"items": shown, "more": is_more})
    rows = [
        (each["name"], " ".join(each["events"]), _conditions(each), " ".join(each["channels"]), each["updated_at"])
        for each in shown
    ]
    show_table(("RULE", "EVENTS", "WHERE", "CHANNELS", "CHANGED"), rows)
    tell_more(is_more)
    return None


@command("show")
@click.argument("name")
@json_option
@with_appcontext
def show(name: str, as_json: bool) -> None:
    """Show a notification rule. Exits with 3 when there is no such rule."""
    with ready_database() as database:
        found = NotificationRuleSchema().dump(shape(RULES.get(database, name)))
    if as_json:
        return print_json(found)
    show_fields(found)
    return None


@command("preview")
@click.argument("name", required=False)
@click.option("--file", type=click.File("r", encoding="utf-8"), help="a rule in YAML or JSON that need not be stored")
@json_option
@with_appcontext
def preview_(name: str | None, file: TextIO | None, as_json: bool) -> None:
    """Show which messages a rule, or one in a file, would have sent within the last day; nothing is sent.

    Exits with 3 when there is no such rule.
    """
    if (name is None) == (file is None):
        raise click.UsageError("Give the name of a rule, or --file.")
    with ready_database() as database:
        rule = notifications_store.get(database, name) if name is not None else _read(file)
        found = NotificationPreviewSchema().dump(shape_preview(rule, preview(database, rule)))
    if as_json:
        return print_json(found)
    rows = [
        (each["opened_at"], each["sent_at"] or f"waits: {each['waits_for']}", each["count"], each["title"])
        for each in found["messages"]
    ]
    show_table(("FIRST EVENT", "SENT", "EVENTS", "TITLE"), rows, right=["EVENTS"])
    show_line(f"{found['message_count']:,} messages of {found['events']:,} events since {found['since']}")
    if found["truncated"]:
        click.echo("more has happened than is looked at: this is about less than a day", err=True)
    if found["not_previewed"]:
        click.echo(f"nothing is known of {', '.join(found['not_previewed'])} in the past", err=True)
    return None


@command("delete")
@click.argument("name")
@yes_option
@json_option
@with_appcontext
def delete(name: str, yes: bool, as_json: bool) -> None:
    """Delete a notification rule, with what it has gathered and not told yet. Exits with 3 when there is none."""
    with ready_database() as database:
        RULES.get(database, name)
        confirm(f"Delete the notification rule {name!r}?", yes=yes)
        RULES.delete(database, name, AuditedChange(actor()))
    if as_json:
        return print_json({"name": name})
    show_line(f"{name} is deleted")
    return None


def _read(file: Any) -> Rule:
    try:
        value = parse_json(compact_json(yaml.safe_load(file.read())))
    except (yaml.YAMLError, TypeError, ValueError, RecursionError, InvalidRequestError) as error:
        raise CommandError(f"{file.name} is not valid: {' '.join(str(error).split())}") from None
    if not isinstance(value, dict):
        raise CommandError(f"{file.name} holds no rule")
    faults = NotificationQuestionSchema().validate(value)
    if faults:
        told = "; ".join(f"{pointer(path) or '/'}: {fault}" for path, fault in marshmallow_faults(faults))
        raise CommandError(f"{file.name}: {told}")
    body = NotificationQuestionSchema().load(value)
    try:
        return notifications_store.check(body.get("name", "preview"), value_of(body))
    except InvalidNotificationRuleError as error:
        raise CommandError(f"{file.name}: {error.message}") from None


def _conditions(rule: dict[str, Any]) -> str:
    if rule["all"]:
        return "all"
    return " ".join(f"{name}={rule[name]}" for name in ("endpoint", "label", "queue") if rule[name] is not None)
