"""Stored rules: create, replace, delete and read."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Executable, Row

from app.catalog import validation
from app.catalog.endpoints.callback_targets import LOCK_NAMED
from app.catalog.named_table import Named, NamedTable
from app.features.notifications.grouping import EventGroup, count_by_subject
from app.features.notifications.message import message_of
from app.features.notifications.rules import DEFAULTS, Occurrence, Rule, faults
from app.kernel.audit import ResourceType
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from app.kernel.errors import (
    ConflictError,
    Detail,
    InvalidNotificationRuleError,
    NotificationRuleNotFoundError,
    UnavailableError,
)
from app.kernel.formats import EPOCH
from app.kernel.sql import statement
from schema import tables

log = logging.getLogger(__name__)

MAX_RULES = 200

Run = Callable[[Executable, Mapping[str, Any]], Iterable[Row[Any]]]
"""Runs a statement in the ambient transaction."""

ALL = statement("notifications.rules", "SELECT name, rule_json FROM notification_rules ORDER BY name")
# Serialises the creation of rules, so that MAX_RULES holds; a scheduler that polls skips while the row is locked.
LOCK = statement("notifications.lock_rules", "SELECT id FROM catalog_revision WHERE id = 'notifications' FOR UPDATE")
COUNT = statement("notifications.count_rules", "SELECT count(*) AS n FROM notification_rules")
DELETE_ROWS = [
    statement(
        f"notifications.forget_{table}",
        f"DELETE FROM notification_{table} WHERE rule = :rule {condition}",  # noqa: S608 - constants of this module
    )
    for table, condition in (
        ("parts", ""),
        ("subjects", ""),
        ("conditions", ""),
        ("groups", "AND closed_at IS NULL"),
    )
]


def _check_references(connection: Connection, name: str, value: Mapping[str, Any], *, is_new: bool) -> None:
    """Check the number of rules and the channels; lock the channels against deletion until the transaction ends."""
    if is_new:
        connection.execute(LOCK)
        if connection.execute(COUNT).scalar_one() >= MAX_RULES:
            raise ConflictError(f"The limit of {MAX_RULES} notification rules is reached. Delete a rule first.")
    rule = Rule.from_json(name, value)
    rows = connection.execute(LOCK_NAMED, {"names": sorted(set(rule.channels))})
    schemas = {row.name: row.schema_json for row in rows}
    _refuse(_channel_faults(rule, schemas))


def _forget(connection: Connection, name: str) -> None:
    for forget in DELETE_ROWS:
        connection.execute(forget, {"rule": name})


RULES = NamedTable(
    table=tables.notification_rules,
    value=tables.notification_rules.c.rule_json,
    noun="notification rule",
    resource_type=ResourceType.NOTIFICATION_RULE,
    not_found=NotificationRuleNotFoundError,
    dependents=None,
    is_cached=False,
    check=_check_references,
    forget=_forget,
)


def create(database: Database, name: str, value: Mapping[str, Any], change: AuditedChange) -> Named:
    """Store a rule; raise InvalidNotificationRuleError or ConflictError."""
    check(name, value)
    return RULES.create(database, name, without_defaults(value), change)


def replace(database: Database, name: str, value: Mapping[str, Any], change: AuditedChange) -> Named:
    """Replace a rule, also for events that are not sent yet; raise InvalidNotificationRuleError, as NamedTable does."""
    check(name, value)
    return RULES.replace(database, name, without_defaults(value), change)


def check(name: str, value: Mapping[str, Any]) -> Rule:
    """Return the rule of a request; raise InvalidNotificationRuleError."""
    rule = Rule.from_json(name, value)
    _refuse(faults(rule))
    return rule


def get(database: Database, name: str) -> Rule:
    """Read a rule; raise NotificationRuleNotFoundError, or UnavailableError if this process cannot read it."""
    rule = readable(name, RULES.get(database, name).value)
    if rule is None:
        raise UnavailableError(
            f"This process cannot read the notification rule {name}: it is of a newer release, or its time zone is "
            "unknown here. Try again later."
        )
    return rule


def read_all(run: Run) -> list[Rule]:
    """Return all rules that this process can read."""
    return [rule for rule in read_each(run).values() if rule is not None]


def read_each(run: Run) -> dict[str, Rule | None]:
    """Return all rules by name; None for a rule that this process cannot read."""
    return {row.name: readable(row.name, row.rule_json) for row in run(ALL, {})}


def readable(name: str, value: Mapping[str, Any]) -> Rule | None:
    """Return a stored rule; None for a rule of a newer release, or with a time zone that is unknown here."""
    try:
        return Rule.from_json(name, value)
    except (LookupError, ValueError) as error:
        log.warning("could not read notification rule %s: %s; leaving the rule to other processes", name, error)
        return None


def without_defaults(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a rule that differ from their defaults, as they are stored."""
    return {name: each for name, each in value.items() if name not in DEFAULTS or each != DEFAULTS[name]}


def _channel_faults(rule: Rule, schemas: Mapping[str, Mapping[str, Any] | None]) -> list[Detail]:
    group = EventGroup()
    group.add(count_by_subject([Occurrence(event=event, subject="x", at=EPOCH) for event in sorted(rule.events)]))
    message, found = message_of(rule.name, group), list[Detail]()
    for index, channel in enumerate(rule.channels):
        pointer, schema = f"/channels/{index}", schemas.get(channel)
        if channel not in schemas:
            found.append(Detail(pointer=pointer, message=f"There is no endpoint named {channel!r}."))
        elif schema is not None and (refused := validation.compiled(schema).faults(message)):
            where = refused[0]["pointer"] or "/"
            words = f"The payload spec of {channel!r} rejects messages: {where}: {refused[0]['message']}"
            found.append(Detail(pointer=pointer, message=f"{words} See GET /notifications/schema for their schema."))
    return found


def _refuse(found: Sequence[Detail]) -> None:
    if found:
        first = found[0]
        raise InvalidNotificationRuleError(f"{first['pointer'] or '/'}: {first['message']}", list(found))
