"""Stored rules, event batches (`notification_parts`) and open alerts (`notification_conditions`).

A batch has the counted events of one transaction and rule, so 10,000 failures are about fifty rows and writers never
wait for each other.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from app.catalog import payload_validator
from app.catalog.endpoints.callback_targets import LOCK_NAMED
from app.catalog.named_table import NamedTable
from app.features.notifications.grouping import EventGroup, count_by_subject, counts_as_json
from app.features.notifications.message import message_of, rejection
from app.features.notifications.rules import DEFAULTS, Occurrence, Rule, rule_faults
from app.kernel import ids
from app.kernel.audit import ResourceType
from app.kernel.db import Database
from app.kernel.errors import (
    ConflictError,
    Detail,
    EndpointNotFoundError,
    InvalidNotificationRuleError,
    NotificationRuleNotFoundError,
    UnavailableError,
)
from app.kernel.formats import EPOCH
from app.kernel.sql import statement
from app.kernel.unreadable import report
from schema import tables
from schema.states import NotificationEvent

MAX_RULES = 200

ALL = statement("notifications.rules", "SELECT name, rule_json FROM notification_rules ORDER BY name")
# Serialises the creation of rules, so that MAX_RULES holds; a scheduler that polls skips while the row is locked.
LOCK = statement("notifications.lock_rules", "SELECT id FROM catalog_revision WHERE id = 'notifications' FOR UPDATE")
COUNT = statement("notifications.count_rules", "SELECT count(*) AS n FROM notification_rules")
DELETE_ROWS = [
    statement(
        f"notifications.forget_{table}",
        "DELETE FROM notification_{table} WHERE rule = :rule {condition}",
        table=table,
        condition=condition,
    )
    for table, condition in (
        ("parts", ""),
        ("subjects", ""),
        ("conditions", ""),
        ("groups", "AND closed_at IS NULL"),
    )
]


def _check(connection: Connection, name: str, value: Mapping[str, Any], is_new: bool) -> None:
    """Check a rule and their number; lock the channels against deletion until the transaction ends."""
    rule = check(name, value)
    if is_new:
        connection.execute(LOCK)
        if connection.execute(COUNT).scalar_one() >= MAX_RULES:
            raise ConflictError(f"The limit of {MAX_RULES} notification rules is reached. Delete a rule first.")
    rows = connection.execute(LOCK_NAMED, {"names": sorted(set(rule.channels))})
    _refuse(_channel_faults(rule, {row.name: row.schema_json for row in rows}))


def _forget(connection: Connection, name: str) -> None:
    for forget in DELETE_ROWS:
        connection.execute(forget, {"rule": name})


RULES = NamedTable(
    table=tables.notification_rules,
    value=tables.notification_rules.c.rule_json,
    noun="notification rule",
    resource_type=ResourceType.NOTIFICATION_RULE,
    not_found=NotificationRuleNotFoundError,
    is_cached=False,
    check=_check,
    forget=_forget,
)


def check(name: str, value: Mapping[str, Any]) -> Rule:
    """Return the rule of a request; raise InvalidNotificationRuleError."""
    rule = Rule.from_json(name, value)
    _refuse(rule_faults(rule))
    return rule


def get(database: Database, name: str) -> Rule:
    """Read a rule; raise NotificationRuleNotFoundError, or UnavailableError if this process cannot read it."""
    rule = readable(name, RULES.get(database, name).value)
    if rule is None:
        raise UnavailableError(
            f"This process cannot read the notification rule {name}: it is of a newer release, or its time zone is "
            "unknown here. Retry later."
        )
    return rule


def read_all(connection: Connection) -> list[Rule]:
    """Return all rules that this process can read."""
    found = (readable(row.name, row.rule_json) for row in connection.execute(ALL))
    return [rule for rule in found if rule is not None]


def readable(name: str, value: Mapping[str, Any]) -> Rule | None:
    """Return a stored rule; None for a rule of a newer release, or with a time zone that is unknown here."""
    try:
        return Rule.from_json(name, value)
    except Exception as error:  # noqa: BLE001 - a row may hold anything
        report(f"notification rule {name}", error)
        return None


def stored_value(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored value of a request: no name, no defaults, no duplicate events and channels."""
    value = {name: each for name, each in body.items() if name not in DEFAULTS or each != DEFAULTS[name]}
    value.pop("name", None)
    value |= {name: list(dict.fromkeys(map(str, body[name]))) for name in ("events", "channels")}
    return value | {"min_severity": str(value["min_severity"])} if "min_severity" in value else value


def _channel_faults(rule: Rule, schemas: Mapping[str, Mapping[str, Any] | None]) -> Iterator[tuple[str, str]]:
    group = EventGroup()
    group.add(count_by_subject(Occurrence(event=event, subject="x", at=EPOCH) for event in rule.events))
    message = message_of(rule.name, group)
    for index, channel in enumerate(rule.channels):
        pointer, schema = f"/channels/{index}", schemas.get(channel)
        if channel not in schemas:
            yield pointer, EndpointNotFoundError.fault_of(channel)
        elif schema is not None and (refused := payload_validator.compiled(schema).faults(message)):
            yield pointer, rejection(channel, refused[0]["pointer"], refused[0]["message"])


def _refuse(faults: Iterable[tuple[str, str]]) -> None:
    found = [Detail(pointer=pointer, message=message) for pointer, message in faults]
    if found:
        raise InvalidNotificationRuleError.of_faults(*found)


PUT = statement(
    "notifications.put_parts",
    """
    INSERT INTO notification_parts (rule, part_id, tallies)
    SELECT u.rule, u.part_id, CAST(u.tallies AS JSONB)
      FROM unnest(CAST(:rules AS TEXT[]), CAST(:ids AS TEXT[]), CAST(:tallies AS TEXT[])) AS u (rule, part_id, tallies)
    """,
)
# Of several processes that detect the same condition, only the process that inserts the row reports it.
OPEN = statement(
    "notifications.begin_conditions",
    """
    INSERT INTO notification_conditions (event, rule, subject, details)
    SELECT :event, u.rule, u.subject, CAST(u.details AS JSONB)
      FROM unnest(CAST(:rules AS TEXT[]), CAST(:subjects AS TEXT[]), CAST(:details AS TEXT[]))
           AS u (rule, subject, details)
    ON CONFLICT (event, rule, subject) DO NOTHING
    RETURNING rule, subject
    """,
)

OpenAlert = tuple[str, str]
"""Rule and subject of an open alert of an event."""


def add_batches(connection: Connection, matched: Mapping[str, Sequence[Occurrence]]) -> int:
    """Store the occurrences of each rule as an event batch; return the number of occurrences."""
    names = sorted(name for name, found in matched.items() if found)
    if names:
        tallies = [json.dumps(counts_as_json(count_by_subject(matched[name]))) for name in names]
        connection.execute(PUT, {"rules": names, "ids": [ids.part_id() for _ in names], "tallies": tallies})
    return sum(map(len, matched.values()))


def open_alerts(
    connection: Connection, event: NotificationEvent, alerts: Mapping[OpenAlert, Mapping[str, Any] | None]
) -> list[OpenAlert]:
    """Open alerts, each with the details that its recovery event needs; return the new alerts."""
    ordered = sorted(alerts)
    params = {
        "event": event.value,
        "rules": [rule for rule, _ in ordered],
        "subjects": [subject for _, subject in ordered],
        "details": [alerts[each] and json.dumps(alerts[each]) for each in ordered],
    }
    return [(row.rule, row.subject) for row in connection.execute(OPEN, params)] if ordered else []
