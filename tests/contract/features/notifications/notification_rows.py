"""Rows of notification rules, failed executions and messages, written and read in the database directly."""

from typing import Any

from sqlalchemy import text

from app.feature import completion_handlers
from app.features import FEATURES
from app.features.notifications.group_sending import Step, advance
from app.features.notifications.store import RULES
from app.kernel.audit import SYSTEM
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from app.queue.ending.outbox_processor import OutboxProcessor
from tests import rows

CHANNEL = "ops"


def add_rule(database: Database, name: str = "r", **values: Any) -> None:
    """Store a rule that sends one message at once for failures of `target`; `values` change its fields."""
    found = database.fetch(text("SELECT 1 FROM endpoints WHERE name = :name"), {"name": CHANNEL})
    if not found:
        rows.add_endpoint(database, CHANNEL)
    given = {"events": ["execution.failed"], "channels": [CHANNEL], "endpoint": "target", "group_seconds": 0}
    RULES.create(database, name, {**given, **values}, AuditedChange(SYSTEM))


def fill_rules(database: Database, count: int) -> None:
    """Store rules that match nothing, bypassing the checks of rules."""
    value = '{"events": ["execution.failed"], "channels": ["ops"], "endpoint": "nobody"}'
    insert = "INSERT INTO notification_rules (name, rule_json) SELECT 'fill-' || n, CAST(:value AS JSONB) "
    database.fetch(text(f"{insert} FROM generate_series(1, :count) AS n"), {"value": value, "count": count})


def fail(database: Database, count: int = 1, *, endpoint: str = "target", followed: int | None = None) -> list[str]:
    """Create executions that failed without an attempt; returns the ids of their completion events in the outbox."""
    params = {"ids": rows.add_executions(database, count, endpoint=endpoint), "followed": followed}
    database.fetch(
        text(
            "UPDATE executions SET status = 'FAILED', completed_at = now(), followed = CAST(:followed AS BIGINT) "
            "WHERE execution_id = ANY (:ids)"
        ),
        params,
    )
    found = database.fetch(
        text(
            "INSERT INTO execution_ends (end_id, shard, execution_id, endpoint, status, attempt, followed, reason, "
            "  ended_at, due_at) "
            "SELECT 'end_' || execution_id, shard, execution_id, endpoint, status, 0, COALESCE(followed, 0), "
            "  'EXPIRED', completed_at, now() - INTERVAL '1 minute' "
            "FROM executions WHERE execution_id = ANY (:ids) RETURNING end_id"
        ),
        params,
    )
    return sorted(row.end_id for row in found)


def handle(database: Database, ends: list[str]) -> None:
    """Run all handlers of these completion events."""
    assert OutboxProcessor(database, handlers=completion_handlers(FEATURES)).handle(ends).ends == len(ends)


def send_due(database: Database, rule: str = "r") -> Step:
    """Group all event batches of a rule and send the messages that are due; returns the sum of the steps."""
    total = Step(is_all=False)
    while not total.is_all:
        done = advance(database, rule)
        total = Step(
            done.is_all,
            total.messages + done.messages,
            total.refused + done.refused,
            total.repeated + done.repeated,
            total.queues | done.queues,
        )
    return total


def messages(database: Database, channel: str = CHANNEL) -> list[dict[str, Any]]:
    """Return the messages to a channel, earliest first."""
    found = database.fetch(
        text(
            "SELECT j.input FROM jobs AS j JOIN executions AS e ON e.job_id = j.job_id "
            "WHERE j.endpoint = :channel AND j.input ? 'rule' ORDER BY j.created_at, j.job_id"
        ),
        {"channel": channel},
    )
    return [row.input for row in found]


def pass_time(database: Database, seconds: int) -> None:
    """Make all groups older by this number of seconds."""
    database.fetch(
        text(
            "UPDATE notification_groups SET opened_at = opened_at - :s * INTERVAL '1 second', "
            "closed_at = closed_at - :s * INTERVAL '1 second'"
        ),
        {"s": seconds},
    )
