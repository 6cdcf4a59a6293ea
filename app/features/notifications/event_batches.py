"""Event batches: counted events of a rule (`notification_parts`), and open alerts (`notification_conditions`).

A batch is one row per transaction and rule, so 10,000 failures are about fifty rows and writers never wait for each
other. Only app.features.notifications.group_sending writes the group of a rule.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.features.notifications.grouping import count_by_subject, counts_as_json
from app.features.notifications.rules import Occurrence
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
# Of several processes that detect the same condition, only the process that inserts the row reports it.
OPEN = statement(
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
CLOSE = statement(
    "notifications.end_conditions",
    """
    DELETE FROM notification_conditions AS c
     USING unnest(CAST(:events AS TEXT[]), CAST(:rules AS TEXT[]), CAST(:subjects AS TEXT[]))
           AS u (event, rule, subject)
     WHERE c.event = u.event AND c.rule = u.rule AND c.subject = u.subject
    RETURNING c.event, c.rule, c.subject
    """,
)

OpenAlert = tuple[NotificationEvent, str, str]
"""Event, rule and subject of an open alert."""


def add_batches(run: Run, matched: Mapping[str, Sequence[Occurrence]]) -> int:
    """Store the occurrences of each rule as an event batch; return the number of occurrences."""
    names = sorted(name for name, found in matched.items() if found)
    if names:
        params = {
            "rules": names,
            "ids": [ids.part_id() for _ in names],
            "tallies": [json.dumps(counts_as_json(count_by_subject(matched[name]))) for name in names],
        }
        run(PUT, params)
    return sum(map(len, matched.values()))


def open_alerts(run: Run, alerts: Mapping[OpenAlert, Mapping[str, Any] | None]) -> set[OpenAlert]:
    """Open alerts, each with the details that its recovery event needs; return the new alerts."""
    if not alerts:
        return set()
    ordered = sorted(alerts)
    details = [None if alerts[each] is None else json.dumps(alerts[each]) for each in ordered]
    return {_alert(row) for row in run(OPEN, _columns(ordered) | {"details": details})}


def close_alerts(run: Run, alerts: Iterable[OpenAlert]) -> set[OpenAlert]:
    """Close alerts; return the alerts that this transaction closed."""
    ordered = sorted(alerts)
    return {_alert(row) for row in run(CLOSE, _columns(ordered))} if ordered else set()


def _columns(ordered: Sequence[OpenAlert]) -> dict[str, Any]:
    return {
        "events": [event.value for event, _, _ in ordered],
        "rules": [rule for _, rule, _ in ordered],
        "subjects": [subject for _, _, subject in ordered],
    }


def _alert(row: Any) -> OpenAlert:
    return NotificationEvent(row.event), row.rule, row.subject
