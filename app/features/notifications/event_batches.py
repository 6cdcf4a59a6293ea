"""Parts: what has happened that a rule tells of, noted without waiting for anybody; and conditions that go on.

A part is a row for each batch and rule. So 10,000 failures are as many rows as batches, and whoever writes them never
waits for another: only the one that takes them (app.features.notifications.group_sending) touches the rule's group.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.features.notifications.grouping import tallied, tallies_as_json
from app.features.notifications.matching import Occurrence
from app.features.notifications.store import Run
from app.kernel import ids
from app.kernel.sql import statement
from schema.states import NotificationEvent

PUT = statement(
    "notifications.put_parts",
    """
    INSERT INTO notification_parts (rule, part_id, tallies)
    SELECT u.rule, u.part_id, CAST(u.tallies AS JSONB)
      FROM unnest(CAST(:rules AS TEXT[]), CAST(:ids AS TEXT[]), CAST(:tallies AS TEXT[])) AS u (rule, part_id, tallies)
    """,
)
# Told once: of those who see that it goes on, one has the row.
BEGIN = statement(
    "notifications.begin_conditions",
    """
    INSERT INTO notification_conditions (event, rule, subject, details)
    SELECT u.event, u.rule, u.subject, CAST(u.details AS JSONB)
      FROM unnest(CAST(:events AS TEXT[]), CAST(:rules AS TEXT[]), CAST(:subjects AS TEXT[]), CAST(:details AS TEXT[]))
           AS u (event, rule, subject, details)
    ON CONFLICT (event, rule, subject) DO NOTHING
    RETURNING event, rule, subject
    """,
)
END = statement(
    "notifications.end_conditions",
    """
    DELETE FROM notification_conditions AS c
     USING unnest(CAST(:events AS TEXT[]), CAST(:rules AS TEXT[]), CAST(:subjects AS TEXT[]))
           AS u (event, rule, subject)
     WHERE c.event = u.event AND c.rule = u.rule AND c.subject = u.subject
    RETURNING c.event, c.rule, c.subject
    """,
)

Condition = tuple[NotificationEvent, str, str]
"""An event that goes on, the rule that was told of it, and its subject."""


def put_matched(run: Run, told: Mapping[str, Sequence[Occurrence]]) -> int:
    """Note what the rules of these names tell of."""
    names = sorted(name for name, found in told.items() if found)
    if names:
        params = {
            "rules": names,
            "ids": [ids.part_id() for _ in names],
            "tallies": [json.dumps(tallies_as_json(tallied(told[name]))) for name in names],
        }
        run(PUT, params)
    return sum(map(len, told.values()))


def begin(run: Run, going_on: Mapping[Condition, Mapping[str, Any] | None]) -> set[Condition]:
    """Note what goes on, with what is needed to tell of its end; returns what nobody had noted before."""
    if not going_on:
        return set()
    ordered = sorted(going_on)
    details = [None if going_on[each] is None else json.dumps(going_on[each]) for each in ordered]
    return {_condition(row) for row in run(BEGIN, _columns(ordered) | {"details": details})}


def end(run: Run, over: Iterable[Condition]) -> set[Condition]:
    """Forget what is over; returns what this transaction is the one to have ended."""
    ordered = sorted(over)
    return {_condition(row) for row in run(END, _columns(ordered))} if ordered else set()


def _columns(ordered: Sequence[Condition]) -> dict[str, Any]:
    return {
        "events": [event.value for event, _, _ in ordered],
        "rules": [rule for _, rule, _ in ordered],
        "subjects": [subject for _, _, subject in ordered],
    }


def _condition(row: Any) -> Condition:
    return NotificationEvent(row.event), row.rule, row.subject
