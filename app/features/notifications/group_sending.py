"""Sending: what was noted for a rule is gathered in its open group, which becomes a job of each channel.

All of a step is one transaction: the parts are deleted by it, so each is counted once; the group changes only if it is
still as it was read; and the jobs are inserted by the transaction that closes it, with keys that are made of the id of
the group. So of two schedulers one goes on, and a kill -9 in between leaves either all of it or nothing.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row

from app.features.notifications import store as notifications_store
from app.features.notifications.grouping import Group, Tallies, add_to, tallies_from_json
from app.features.notifications.message_jobs import ChannelChangedError, insert_jobs
from app.features.notifications.pacing import Held, held, is_repeated
from app.features.notifications.rules import Rule
from app.kernel import ids
from app.kernel.db import Database
from app.kernel.metrics import PROCESS, series
from app.kernel.sql import statement

PARTS = 100  # in one transaction

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
    SELECT group_id, told, revision, opened_at, waits_for, waits_until FROM notification_groups
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
# A rule has one group after the other, so those that were opened last were closed last.
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
           waits_until = CAST(:waits_until AS TIMESTAMPTZ), revision = revision + 1
     WHERE group_id = :group_id AND revision = :revision AND closed_at IS NULL
    RETURNING group_id
    """,
)
CLOSE = statement(
    "notifications.close_group",
    """
    UPDATE notification_groups
       SET closed_at = now(), waits_for = NULL, waits_until = NULL, messages = CAST(:messages AS JSONB),
           revision = revision + 1
     WHERE group_id = :group_id AND revision = :revision AND closed_at IS NULL
    RETURNING group_id
    """,
)


class _ChangedError(Exception):
    """Somebody else has changed the group since it was read: the next run goes on."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one transaction did: `is_all` where no part is left."""

    is_all: bool = True
    messages: int = 0
    refused: int = 0
    repeated: int = 0
    queues: frozenset[str] = field(default_factory=frozenset)


def waiting(database: Database) -> list[str]:
    """Return the names of the rules that have something to tell."""
    return [row.name for row in database.fetch(WAITING)]


def go_on(database: Database, rule: str) -> Step:
    """Gather what was noted for a rule, and make a message of its group if its time has come."""
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
    parts = connection.execute(TAKE, {"rule": name, "limit": PARTS}).all()
    is_all = len(parts) < PARTS
    fresh, repeated = _without_repeated(connection, rule, _gathered(parts), row.now)
    if opened is None and not fresh:
        return Step(is_all, repeated=repeated)
    group = Group() if opened is None else Group.from_json(opened.told)
    group.add(fresh)
    opened_at = row.now if opened is None else opened.opened_at
    waits = held(rule, opened_at, _earlier(connection, rule), row.now)
    group_id = ids.group_id() if opened is None else opened.group_id
    revision = 1 if opened is None else opened.revision
    if opened is None or fresh or _differs(waits, opened):
        revision = _keep(connection, name, group_id, opened, group=group, waits=waits)
    if rule.repeat_after and fresh:
        connection.execute(NOTE_SUBJECTS, {"rule": name, "group_id": group_id} | _columns(fresh))
    if waits is not None or not is_all:
        return Step(is_all, repeated=repeated)
    messages, queues = insert_jobs(connection, rule, group_id, group)
    if connection.execute(CLOSE, _closing(group_id, revision, messages)).first() is None:
        raise _ChangedError
    refused = sum(each["job_id"] is None for each in messages)
    return Step(is_all, len(messages) - refused, refused, repeated, queues)


def _gathered(parts: Sequence[Row[Any]]) -> Tallies:
    gathered: Tallies = {}
    for part in sorted(parts, key=lambda part: str(part.part_id)):
        for subject, tally in tallies_from_json(part.tallies).items():
            add_to(gathered, subject, tally)
    return gathered


def _without_repeated(connection: Connection, rule: Rule, found: Tallies, now: datetime) -> tuple[Tallies, int]:
    """Leave out the subjects that a message has told of of late; returns of how many events, too."""
    if not rule.repeat_after or not found:
        return found, 0
    rows = connection.execute(TOLD, {"rule": rule.name} | _columns(found))
    told_at = {(row.event, row.subject): row.closed_at for row in rows}
    again = {subject for subject in found if is_repeated(rule, told_at.get(subject), now)}
    fresh = {subject: tally for subject, tally in found.items() if subject not in again}
    return fresh, sum(found[subject].count for subject in again)


def _earlier(connection: Connection, rule: Rule) -> datetime | None:
    """Return the instant of the message since which there were as many as an hour may have; None if there were not."""
    rows = connection.execute(SENT, {"rule": rule.name, "most": rule.max_per_hour}).all()
    return rows[-1].closed_at if len(rows) == rule.max_per_hour else None


def _keep(
    connection: Connection, rule: str, group_id: str, opened: Row[Any] | None, *, group: Group, waits: Held | None
) -> int:
    """Write the open group, which may be a new one; returns the revision that it has now."""
    params = {
        "group_id": group_id,
        "told": json.dumps(group.as_json()),
        "events": group.count,
        "waits_for": waits and waits.wait.value,
        "waits_until": waits and waits.until,
    }
    if opened is None:
        written = connection.execute(OPEN, params | {"rule": rule})
    else:
        written = connection.execute(KEEP, params | {"revision": opened.revision})
    if written.first() is None:
        raise _ChangedError
    return 1 if opened is None else opened.revision + 1


def _differs(waits: Held | None, opened: Row[Any]) -> bool:
    return waits is not None and (waits.wait, waits.until) != (opened.waits_for, opened.waits_until)


def _closing(group_id: str, revision: int, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"group_id": group_id, "revision": revision, "messages": json.dumps(messages)}


def _columns(found: Tallies) -> dict[str, Any]:
    ordered = sorted(found)
    return {"events": [event.value for event, _ in ordered], "subjects": [name for _, name in ordered]}
