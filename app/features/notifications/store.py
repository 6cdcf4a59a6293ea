"""Rules as they are stored: create, replace, delete, and read all of them."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Executable, Row

from app.catalog import validation
from app.catalog.endpoints.callback_targets import LOCK_NAMED
from app.catalog.named_table import Named, NamedTable
from app.features.notifications.grouping import Group, tallied
from app.features.notifications.matching import Occurrence
from app.features.notifications.rules import DEFAULTS, Rule, faults
from app.features.notifications.wording import message_of
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

MOST_RULES = 200

Run = Callable[[Executable, Mapping[str, Any]], Iterable[Row[Any]]]
"""Runs a statement: what it belongs to is a transaction."""

ALL = statement("notifications.rules", "SELECT name, rule_json FROM notification_rules ORDER BY name")
# Whoever adds a rule waits for others who do, and counts afterwards; a scheduler leaves its look to the next time.
LOCK = statement("notifications.lock_rules", "SELECT id FROM catalog_revision WHERE id = 'notifications' FOR UPDATE")
COUNT = statement("notifications.count_rules", "SELECT count(*) AS n FROM notification_rules")
FORGET = [
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
    """Check what only the database can tell; the channels are locked against deletion until the transaction ends."""
    if is_new:
        connection.execute(LOCK)
        if connection.execute(COUNT).scalar_one() >= MOST_RULES:
            raise ConflictError(f"There are {MOST_RULES} notification rules already, which is all there may be.")
    rule = Rule.from_json(name, value)
    rows = connection.execute(LOCK_NAMED, {"names": sorted(set(rule.channels))})
    schemas = {row.name: row.schema_json for row in rows}
    _refuse(_channel_faults(rule, schemas))


def _forget(connection: Connection, name: str) -> None:
    for forget in FORGET:
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
    """Store a rule; raises InvalidNotificationRuleError or ConflictError."""
    check(name, value)
    return RULES.create(database, name, without_defaults(value), change)


def replace(database: Database, name: str, value: Mapping[str, Any], change: AuditedChange) -> Named:
    """Change a rule, for what happens from then on and what waits to be told; raises as NamedTable.replace, too."""
    check(name, value)
    return RULES.replace(database, name, without_defaults(value), change)


def check(name: str, value: Mapping[str, Any]) -> Rule:
    """Return the rule that a request gives; raises InvalidNotificationRuleError."""
    rule = Rule.from_json(name, value)
    _refuse(faults(rule))
    return rule


def get(database: Database, name: str) -> Rule:
    """Read a rule; raises NotificationRuleNotFoundError, and UnavailableError where only others can read it."""
    rule = readable(name, RULES.get(database, name).value)
    if rule is None:
        raise UnavailableError(
            f"the notification rule {name} is of a newer release than this process, or in a zone "
            "that it does not know; try again"
        )
    return rule


def read_all(run: Run) -> list[Rule]:
    """Read all rules that this process can read."""
    return [rule for rule in read_each(run).values() if rule is not None]


def read_each(run: Run) -> dict[str, Rule | None]:
    """Read all rules by their names; None for one that this process cannot read."""
    return {row.name: readable(row.name, row.rule_json) for row in run(ALL, {})}


def readable(name: str, value: Mapping[str, Any]) -> Rule | None:
    """Return a stored rule; None where this process cannot read it, which keeps it from no other one.

    It may be of a newer release, or of a machine that knows more time zones.
    """
    try:
        return Rule.from_json(name, value)
    except (LookupError, ValueError) as error:
        log.warning("the notification rule %s cannot be read by this process: %s", name, error)
        return None


def without_defaults(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is stored of a rule: what has its default is left out."""
    return {name: each for name, each in value.items() if name not in DEFAULTS or each != DEFAULTS[name]}


def _channel_faults(rule: Rule, schemas: Mapping[str, Mapping[str, Any] | None]) -> list[Detail]:
    group = Group()
    group.add(tallied([Occurrence(event=event, subject="x", at=EPOCH) for event in sorted(rule.events)]))
    message, found = message_of(rule.name, group), list[Detail]()
    for place, channel in enumerate(rule.channels):
        pointer, schema = f"/channels/{place}", schemas.get(channel)
        if channel not in schemas:
            found.append(Detail(pointer=pointer, message=f"There is no endpoint named {channel!r}."))
        elif schema is not None and (refused := validation.compiled(schema).faults(message)):
            where = refused[0]["pointer"] or "/"
            words = f"The payload spec of {channel!r} refuses messages: {where}: {refused[0]['message']}"
            found.append(Detail(pointer=pointer, message=f"{words} GET /notifications/schema has what they are."))
    return found


def _refuse(found: Sequence[Detail]) -> None:
    if found:
        first = found[0]
        raise InvalidNotificationRuleError(f"{first['pointer'] or '/'}: {first['message']}", list(found))
