"""Group sending: adds the event batches of a rule to its open group, which becomes a job of each channel.

A step is one transaction. It locks the rule against other schedulers and deletes the event batches that it adds, so
each is counted once. A step that closes the group inserts the jobs, with idempotency keys made of the group's id.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Executable, Row

from app.features.notifications import store as notifications_store
from app.features.notifications.grouping import EventGroup, SubjectCounts, add_count, counts_from_json
from app.features.notifications.message_jobs import ChannelChangedError, insert_jobs
from app.features.notifications.pacing import HeldGroup, held, is_repeated
from app.features.notifications.rules import Rule
from app.kernel import ids
from app.kernel.db import Database
from app.kernel.metrics import PROCESS, series
from app.kernel.sql import statement

MAX_BATCHES = 100  # in one transaction

WAITING = statement(
    "notifications.waiting",
    """
    SELECT r.name FROM notification_rules AS r
     WHERE EXISTS (SELECT 1 FROM notification_parts AS p WHERE p.rule = r.name)
        OR EXISTS (SELECT 1 FROM notification_groups AS g WHERE g.rule = r.name AND g.closed_at IS NULL)
     ORDER BY r.name
    """,
)
LOCK = statement(
    "notifications.lock_rule",
    "SELECT name, rule_json, now() AS now FROM notification_rules WHERE name = :rule FOR UPDATE",
)
OPEN_GROUP = statement(
    "notifications.open_group",
    """
    SELECT group_id, told, opened_at, waits_for, waits_until FROM notification_groups
     WHERE rule = :rule AND closed_at IS NULL
    """,
)
TAKE = statement(
    "notifications.take_parts",
    """
    WITH found AS MATERIALIZED (
      SELECT part_id FROM notification_parts WHERE rule = :rule
       ORDER BY rule, part_id LIMIT :limit FOR UPDATE SKIP LOCKED)
    DELETE FROM notification_parts WHERE rule = :rule AND part_id IN (SELECT part_id FROM found)
    RETURNING part_id, tallies
    """,
)
# A rule has one open group at a time, so the order of opening is the order of closing.
SENT = statement(
    "notifications.sent",
    """
    SELECT closed_at FROM notification_groups WHERE rule = :rule AND closed_at IS NOT NULL
     ORDER BY opened_at DESC, group_id DESC LIMIT :most
    """,
)
TOLD = statement(
    "notifications.told_subjects",
    """
    SELECT s.event, s.subject, g.closed_at
      FROM unnest(CAST(:events AS TEXT[]), CAST(:subjects AS TEXT[])) AS u (event, subject)
      JOIN notification_subjects AS s ON s.rule = :rule AND s.event = u.event AND s.subject = u.subject
      JOIN notification_groups AS g ON g.group_id = s.group_id
    """,
)
NOTE_SUBJECTS = statement(
    "notifications.note_subjects",
    """
    INSERT INTO notification_subjects (rule, event, subject, group_id)
    SELECT :rule, u.event, u.subject, :group_id
      FROM unnest(CAST(:events AS TEXT[]), CAST(:subjects AS TEXT[])) AS u (event, subject)
    ON CONFLICT (rule, event, subject) DO UPDATE SET group_id = excluded.group_id, noted_at = now()
    """,
)
OPEN = statement(
    "notifications.begin_group",
    """
    INSERT INTO notification_groups (group_id, rule, told, events, waits_for, waits_until)
    VALUES (:group_id, :rule, CAST(:told AS JSONB), :events, :waits_for, CAST(:waits_until AS TIMESTAMPTZ))
    ON CONFLICT (rule) WHERE closed_at IS NULL DO NOTHING
    RETURNING group_id
    """,
)
KEEP = statement(
    "notifications.keep_group",
    """
    UPDATE notification_groups
       SET told = CAST(:told AS JSONB), events = :events, waits_for = :waits_for,
           waits_until = CAST(:waits_until AS TIMESTAMPTZ)
     WHERE group_id = :group_id AND closed_at IS NULL
    RETURNING group_id
    """,
)
CLOSE = statement(
    "notifications.close_group",
    """
    UPDATE notification_groups
       SET closed_at = now(), waits_for = NULL, waits_until = NULL, messages = CAST(:messages AS JSONB)
     WHERE group_id = :group_id AND closed_at IS NULL
    RETURNING group_id
    """,
)


class _ChangedError(Exception):
    """Another transaction changed the group, which happens only above READ COMMITTED; the next run tries again."""


@dataclass(frozen=True, slots=True)
class Step:
    """Result of one transaction; `is_all` if no event batch is left."""

    is_all: bool = True
    messages: int = 0
    refused: int = 0
    repeated: int = 0
    queues: frozenset[str] = field(default_factory=frozenset)


def waiting(database: Database) -> list[str]:
    """Return the names of the rules with event batches or an open group."""
    return [row.name for row in database.fetch(WAITING)]


def advance(database: Database, rule: str) -> Step:
    """Add the event batches of a rule to its group, and send the group if it is due."""
    try:
        done = database.transact(lambda connection: _step(connection, rule))
    except (_ChangedError, ChannelChangedError):
        return Step()
    PROCESS.add(series.NOTIFICATIONS_SENT, amount=done.messages)
    PROCESS.add(series.NOTIFICATIONS_SUPPRESSED, "refused", amount=done.refused)
    PROCESS.add(series.NOTIFICATIONS_SUPPRESSED, "repeated", amount=done.repeated)
    return done


def _step(connection: Connection, name: str) -> Step:
    row = connection.execute(LOCK, {"rule": name}).first()
    if row is None:
        return Step()
    rule = notifications_store.readable(name, row.rule_json)
    if rule is None:
        return Step()
    opened = connection.execute(OPEN_GROUP, {"rule": name}).first()
    parts = connection.execute(TAKE, {"rule": name, "limit": MAX_BATCHES}).all()
    is_all = len(parts) < MAX_BATCHES
    fresh, repeated = _without_repeated(connection, rule, _sum_batches(parts), row.now)
    if opened is None and not fresh:
        return Step(is_all, repeated=repeated)
    group = EventGroup() if opened is None else EventGroup.from_json(opened.told)
    group.add(fresh)
    opened_at = row.now if opened is None else opened.opened_at
    waits = held(rule, opened_at, _earlier(connection, rule), row.now)
    group_id = ids.group_id() if opened is None else opened.group_id
    if opened is None or fresh or _differs(waits, opened):
        params = {"group_id": group_id, "told": json.dumps(group.as_json()), "events": group.count}
        params |= {"waits_for": waits and waits.wait.value, "waits_until": waits and waits.until}
        _write(connection, KEEP if opened else OPEN, params if opened else params | {"rule": name})
    if rule.repeat_after and fresh:
        connection.execute(NOTE_SUBJECTS, {"rule": name, "group_id": group_id} | _columns(fresh))
    if waits is not None or not is_all:
        return Step(is_all, repeated=repeated)
    messages, queues = insert_jobs(connection, rule, group_id, group)
    _write(connection, CLOSE, {"group_id": group_id, "messages": json.dumps(messages)})
    refused = sum(each["job_id"] is None for each in messages)
    return Step(is_all, len(messages) - refused, refused, repeated, queues)


def _sum_batches(parts: Sequence[Row[Any]]) -> SubjectCounts:
    gathered: SubjectCounts = {}
    for part in sorted(parts, key=lambda part: str(part.part_id)):
        for subject, counted in counts_from_json(part.tallies).items():
            add_count(gathered, subject, counted)
    return gathered


def _without_repeated(
    connection: Connection, rule: Rule, found: SubjectCounts, now: datetime
) -> tuple[SubjectCounts, int]:
    """Return the counts without subjects reported within `repeat_after`, and the number of events left out."""
    if not rule.repeat_after or not found:
        return found, 0
    rows = connection.execute(TOLD, {"rule": rule.name} | _columns(found))
    told_at = {(row.event, row.subject): row.closed_at for row in rows}
    again = {subject for subject in found if is_repeated(rule, told_at.get(subject), now)}
    fresh = {subject: counted for subject, counted in found.items() if subject not in again}
    return fresh, sum(found[subject].count for subject in again)


def _earlier(connection: Connection, rule: Rule) -> datetime | None:
    rows = connection.execute(SENT, {"rule": rule.name, "most": rule.max_per_hour}).all()
    return rows[-1].closed_at if len(rows) == rule.max_per_hour else None


def _write(connection: Connection, change: Executable, params: Mapping[str, Any]) -> None:
    if connection.execute(change, params).first() is None:
        raise _ChangedError


def _differs(waits: HeldGroup | None, opened: Row[Any]) -> bool:
    return waits is not None and (waits.wait, waits.until) != (opened.waits_for, opened.waits_until)


def _columns(found: SubjectCounts) -> dict[str, Any]:
    ordered = sorted(found)
    return {"events": [event.value for event, _ in ordered], "subjects": [name for _, name in ordered]}
