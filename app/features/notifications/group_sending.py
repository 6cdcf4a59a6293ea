"""Group sending: adds the event batches of a rule to its open group, which becomes a job of each channel.

A step is one transaction. It locks the rule against other schedulers and deletes the event batches that it adds, so
each is counted once. A step that closes the group inserts the jobs, in the same transaction.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection

from app.features.notifications import store as notifications_store
from app.features.notifications.grouping import EventGroup, SubjectCounts, add_counts, counts_from_json
from app.features.notifications.message import message_of
from app.features.notifications.metrics import (
    NOTIFICATION_CONFLICTS,
    NOTIFICATIONS_SENT,
    NOTIFICATIONS_SUPPRESSED,
)
from app.features.notifications.pacing import held, is_repeated
from app.features.notifications.rules import Rule
from app.kernel import ids
from app.kernel.db import Database, hardly_wait
from app.kernel.errors import LockedError, clause
from app.kernel.metrics import PROCESS
from app.kernel.sql import hot_statement, statement
from app.queue.jobs import job_insertion
from app.queue.jobs.endpoint_cache import CachedEndpoint, read_targets
from app.queue.jobs.job_model import NewJob, own_key
from schema.states import Followed, Trigger

log = logging.getLogger(__name__)

MAX_BATCHES = 100  # in one transaction

WAITING = hot_statement(
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
     ORDER BY opened_at DESC, group_id DESC LIMIT 1 OFFSET :later
    """,
)
REPORTED = statement(
    "notifications.reported_subjects",
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
    INSERT INTO notification_groups (group_id, rule, told) VALUES (:group_id, :rule, '{}')
    ON CONFLICT (rule) WHERE closed_at IS NULL DO NOTHING
    RETURNING group_id, told, opened_at, waits_for, waits_until
    """,
)
KEEP = statement(
    "notifications.keep_group",
    """
    UPDATE notification_groups
       SET told = CAST(:told AS JSONB), events = :events, waits_for = :waits_for,
           waits_until = CAST(:waits_until AS TIMESTAMPTZ), messages = CAST(:messages AS JSONB),
           closed_at = CASE WHEN CAST(:messages AS JSONB) IS NOT NULL THEN now() END
     WHERE group_id = :group_id AND closed_at IS NULL
    RETURNING group_id
    """,
)


class _ChangedError(Exception):
    """Another transaction changed the group (only above READ COMMITTED) or a channel; the next run tries again."""


@dataclass(slots=True)
class Step:
    """Result of one transaction; `is_all` if no event batch is left, `is_locked` if it changed nothing for a lock."""

    is_all: bool = True
    messages: int = 0
    refused: int = 0
    repeated: int = 0
    queues: set[str] = field(default_factory=set)
    is_locked: bool = False


def waiting(database: Database) -> list[str]:
    """Return the names of the rules with event batches or an open group."""
    return [row.name for row in database.fetch(WAITING)]


def advance(database: Database, rule: str) -> Step:
    """Add the event batches of a rule to its group, and send the group if it is due."""
    try:
        done = database.transact(partial(_step, name=rule))
    except LockedError:
        return Step(is_locked=True)
    except _ChangedError:
        PROCESS.add(NOTIFICATION_CONFLICTS)
        log.warning(
            "could not send messages of notification rule %s: a channel or the group is changing; retrying", rule
        )
        return Step()
    PROCESS.add(NOTIFICATIONS_SENT, amount=done.messages)
    PROCESS.add(NOTIFICATIONS_SUPPRESSED, "refused", amount=done.refused)
    PROCESS.add(NOTIFICATIONS_SUPPRESSED, "repeated", amount=done.repeated)
    return done


def _step(connection: Connection, name: str) -> Step:
    hardly_wait(connection)  # other rules wait for this rule
    row = connection.execute(LOCK, {"rule": name}).first()
    rule = None if row is None else notifications_store.readable(name, row.rule_json)
    if row is None or rule is None:
        return Step()
    opened = connection.execute(OPEN_GROUP, {"rule": name}).first()
    batches = connection.execute(TAKE, {"rule": name, "limit": MAX_BATCHES}).all()
    step, fresh = Step(is_all=len(batches) < MAX_BATCHES), SubjectCounts()
    for batch in sorted(batches, key=lambda batch: str(batch.part_id)):
        add_counts(fresh, counts_from_json(batch.tallies))
    step.repeated = _remove_repeated(connection, rule, fresh, row.now)
    if opened is None:
        if not fresh:
            return step
        opened = connection.execute(OPEN, {"group_id": ids.group_id(), "rule": name}).first()
        if opened is None:
            raise _ChangedError
    group = EventGroup.from_json(opened.told)
    group.add(fresh)
    if rule.repeat_after_seconds and fresh:
        connection.execute(NOTE_SUBJECTS, {"rule": name, "group_id": opened.group_id} | _columns(fresh))
    earlier = connection.execute(SENT, {"rule": name, "later": rule.max_per_hour - 1}).scalar()
    waits_for, waits_until = held(rule, opened.opened_at, earlier, row.now) or (None, None)
    messages = _send(connection, rule, group, step) if waits_for is None and step.is_all else None
    if fresh or messages is not None or (waits_for, waits_until) != (opened.waits_for, opened.waits_until):
        params = {"group_id": opened.group_id, "told": json.dumps(group.as_json()), "events": group.count}
        params |= {"waits_for": waits_for, "waits_until": waits_until, "messages": messages and json.dumps(messages)}
        if connection.execute(KEEP, params).first() is None:
            raise _ChangedError
    return step


def _remove_repeated(connection: Connection, rule: Rule, counts: SubjectCounts, now: datetime) -> int:
    """Remove the subjects reported within `repeat_after_seconds`; return the number of their events."""
    if not rule.repeat_after_seconds or not counts:
        return 0
    rows = connection.execute(REPORTED, {"rule": rule.name} | _columns(counts))
    again = [(row.event, row.subject) for row in rows if is_repeated(rule, row.closed_at, now)]
    return sum(counts.pop(subject).count for subject in again)


def _columns(counts: SubjectCounts) -> dict[str, Any]:
    ordered = sorted(counts)
    return {"events": [event.value for event, _ in ordered], "subjects": [name for _, name in ordered]}


def _send(connection: Connection, rule: Rule, group: EventGroup, step: Step) -> list[dict[str, Any]]:
    """Insert a job for each channel; return the job or fault of each channel."""
    message = message_of(rule.name, group)
    targets = read_targets(connection, set(rule.channels))
    messages, made = list[dict[str, Any]](), list[Mapping[str, Any]]()
    for channel in dict.fromkeys(rule.channels):
        fault, job_id = _fault(targets.get(channel), message), None
        if fault is None:
            made.append(_job_params(targets[channel], rule, message))
            job_id = made[-1]["job_id"]
        else:
            # The message of a fault may quote a receiver's answer: see GET /notification-rules/{name}/messages.
            log.warning(
                "could not send a message of notification rule %s to endpoint %s: "
                "the endpoint is deleted or rejects the message; leaving it out",
                rule.name,
                channel,
            )
        messages.append({"channel": channel, "job_id": job_id, "fault": fault})
    rows = connection.execute(job_insertion.ONE_SHOTS, job_insertion.params_of_several(made)).all() if made else ()
    if len(rows) < len(made):
        raise _ChangedError
    step.messages, step.refused = len(made), len(messages) - len(made)
    step.queues = {row.execution_queue for row in rows}
    return messages


def _fault(target: CachedEndpoint | None, message: Mapping[str, Any]) -> str | None:
    if target is None:
        return "the endpoint no longer exists"
    if not (found := target.faults(message)):
        return None
    return f"its payload spec rejects the message: {found[0]['pointer'] or '/'}: {clause(found[0]['message'])}"


def _job_params(target: CachedEndpoint, rule: Rule, message: dict[str, Any]) -> dict[str, Any]:
    # Not derived from the group, which is closed in the same transaction: nobody can take this key.
    job_id = ids.job_id()
    new = NewJob(
        endpoint=target.name,
        trigger=Trigger.IMMEDIATE,
        input=message,
        name=f"notification of {rule.name}",
        idempotency_key=own_key("notification", job_id),
    )
    params = job_insertion.params_of(new, target, job_id, shards=1)
    return params | {"followed": int((params["followed"] or 0) | Followed.NOTIFICATION), "look_ahead_ms": 0}
