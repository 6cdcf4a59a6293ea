"""From failures to messages: each event counts once, and each group is one message per channel.

Both hold when schedulers die or run concurrently.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, event, text

from app.feature import completion_handlers
from app.features import FEATURES
from app.features.notifications import checks
from app.features.notifications.api import page_of_messages
from app.features.notifications.group_sending import advance, waiting
from app.features.notifications.handlers import NOTIFICATIONS
from app.features.notifications.pacing import Wait
from app.features.notifications.store import MAX_RULES, RULES, get
from app.features.notifications.watching import Detector
from app.kernel.audit import SYSTEM
from app.kernel.audit.change import AuditedChange
from app.kernel.config import Settings
from app.kernel.db import Database
from app.kernel.db.paging import PageRequest
from app.kernel.errors import ConflictError, UnavailableError
from app.kernel.function_types import never
from app.kernel.metrics import PROCESS
from app.kernel.metrics.values import Values
from app.queue.ending.handler import Handler, HandlerResult
from app.queue.ending.outbox_processor import OutboxProcessor
from app.queue.ending.outbox_rows import End
from app.scheduler.chore import ChoreContext
from schema.states import Followed
from tests import rows
from tests.chores import chores_of
from tests.contract.features.notifications.notification_rows import (
    CHANNEL,
    add_rule,
    fail,
    fill_rules,
    handle,
    messages,
    pass_time,
    send_due,
)
from tests.contract.races.racing import WAYS, schedulers
from tests.contract.scheduler.conftest import holding
from tests.racing import at_once

OPEN_ALERT = (
    "INSERT INTO notification_conditions (event, rule, subject, details) VALUES (:event, :rule, 's', '{}') "
    "RETURNING event"
)


@pytest.mark.parametrize("way", [way for way in WAYS if "without" not in way])
def test_thousands_of_failures_become_one_message_per_rule(database: Database, database_url: str, way: str) -> None:
    rows.add_endpoint(database, "other")
    add_rule(database, group_seconds=60)
    add_rule(database, "all", group_seconds=60, endpoint=None, all=True)
    ends = fail(database, 9_000) + fail(database, 1_000, endpoint="other")

    def gather(scheduler: Database, rule: str) -> None:
        for _ in range(20):
            advance(scheduler, rule)

    with schedulers(database_url, way, 4) as databases:
        handlers = [
            partial(OutboxProcessor(each, handlers=completion_handlers(FEATURES)).handle, ends)
            for each in databases[:2]
        ]
        at_once(*handlers, *(partial(gather, each, rule) for each in databases[2:] for rule in ("r", "all")))
        # After too many serialization failures, completion events are left to the chore.
        left = [row.end_id for row in database.fetch(text("SELECT end_id FROM execution_ends ORDER BY end_id"))]
        for end_id in left:
            OutboxProcessor(database, handlers=completion_handlers(FEATURES)).handle_alone(end_id)
        for rule in ("r", "all"):
            send_due(database, rule)
        pass_time(database, 60)
        at_once(*(partial(advance, each, rule) for each in databases for rule in ("r", "all")))
    by_rule = {message["rule"]: message for message in messages(database)}
    assert len(messages(database)) == 2
    assert (by_rule["r"]["count"], by_rule["all"]["count"]) == (9_000, 10_000)
    assert by_rule["all"]["subjects"] == [{"name": "target", "count": 9_000}, {"name": "other", "count": 1_000}]
    assert len(by_rule["r"]["examples"]) == 5
    assert waiting(database) == []


def test_scheduler_that_dies_while_it_sends_has_sent_no_message(database: Database) -> None:
    rows.add_endpoint(database, "second")
    add_rule(database, channels=[CHANNEL, "second"])
    handle(database, fail(database, 3))

    def die(_connection: Any, _cursor: Any, sql: str, *_more: Any) -> None:
        if "closed_at = CASE" in sql:  # the last statement of the step
            raise SystemExit

    event.listen(database.engine, "before_cursor_execute", die)
    with pytest.raises(SystemExit):
        advance(database, "r")
    event.remove(database.engine, "before_cursor_execute", die)
    assert messages(database) == messages(database, "second") == []
    assert send_due(database).messages == 2
    assert [message["count"] for message in messages(database) + messages(database, "second")] == [3, 3]
    assert send_due(database).messages == 0


def test_message_is_sent_whatever_keys_other_jobs_of_the_channel_have(database: Database) -> None:
    add_rule(database, group_seconds=60)
    handle(database, fail(database))
    send_due(database)
    group = database.fetch(text("SELECT group_id FROM notification_groups"))[0].group_id
    for key in (f"notification:{group}", f"te:notification:{group}"):
        (execution_id,) = rows.add_executions(database, endpoint=CHANNEL)
        params = {"key": key, "execution_id": execution_id}
        for table in ("jobs", "executions"):
            job = "job_id = (SELECT job_id FROM executions WHERE execution_id = :execution_id)"
            database.fetch(text(f"UPDATE {table} SET idempotency_key = :key WHERE {job}"), params)
    pass_time(database, 60)
    assert send_due(database).messages == 1
    assert [message["count"] for message in messages(database)] == [1]


def test_message_to_a_channel_that_keeps_changing_is_late_counted_and_logged(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    add_rule(database)
    handle(database, fail(database))
    database.fetch(text("UPDATE notification_parts SET created_at = now() - INTERVAL '1 hour'"))

    def change(_connection: Connection, _cursor: Any, sql: str, *_more: Any) -> None:
        if "INSERT INTO jobs" in sql:
            with database.engine.begin() as other:
                other.execute(text(f"UPDATE endpoints SET flow_revision = flow_revision + 1 WHERE name = '{CHANNEL}'"))

    before = PROCESS.totals().get("notification_conflicts_total", 0)
    event.listen(database.engine, "before_cursor_execute", change)
    assert send_due(database).messages == 0
    event.remove(database.engine, "before_cursor_execute", change)
    assert PROCESS.totals()["notification_conflicts_total"] == before + 1
    assert "could not send messages of notification rule r: " in caplog.text
    assert messages(database) == []
    settings = Settings.from_env({"TE_DATABASE_URL": "postgresql://x"})
    context = ChoreContext(database, settings, hint=lambda _queue: None, stopping=never)
    assert [finding.problem for finding in checks.messages(context)] == [
        "messages of 1 notification rule are late by more than 60 s: r"
    ]
    assert send_due(database).messages == 1
    assert list(checks.messages(context)) == []


def test_log_quotes_no_message_that_a_channel_refuses(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    add_rule(database)
    handle(database, fail(database))
    spec = """INSERT INTO payload_specs (name, schema_json) VALUES ('s', '{"properties": {"title": {"maxLength": 3}}}')
              RETURNING name"""
    database.fetch(text(spec.replace(":", r"\:")))
    database.fetch(
        text("UPDATE endpoints SET payload_spec_ref = 's', flow_revision = flow_revision + 1 RETURNING name")
    )
    assert send_due(database).refused == 1
    (sent,) = page_of_messages(database, "r", PageRequest(9)).items
    assert "/title" in str(sent)
    assert "could not send a message of notification rule r to endpoint ops: " in caplog.text
    assert "target" not in caplog.text


def test_failed_notification_is_a_dead_letter_but_is_not_reported(database: Database) -> None:
    add_rule(database)
    add_rule(database, "all", endpoint=None, all=True)
    handle(database, fail(database))
    send_due(database)
    send_due(database, "all")
    assert len(messages(database)) == 2
    assert {row.followed for row in database.fetch(text("SELECT followed FROM executions WHERE endpoint = 'ops'"))} == {
        int(Followed.NOTIFICATION)
    }
    handle(database, fail(database, 2, endpoint=CHANNEL, followed=int(Followed.NOTIFICATION)))
    assert waiting(database) == []
    assert len(database.fetch(text("SELECT 1 FROM dead_letters WHERE endpoint = 'ops'"))) == 2


@pytest.mark.postgresql_only
def test_event_is_counted_once_when_the_transaction_is_repeated(database: Database) -> None:
    add_rule(database)
    found = fail(database, 3) + fail(database, 2, endpoint=CHANNEL, followed=int(Followed.NOTIFICATION))
    values, runs = Values(), list[int]()

    def repeat(connection: Connection, ends: Sequence[End]) -> HandlerResult:
        runs.append(len(ends))
        if len(runs) < 3:
            connection.execute(text("DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$"))
        return HandlerResult()

    handlers = [NOTIFICATIONS, Handler("repeat", lambda _end: True, repeat)]
    assert OutboxProcessor(database, handlers=handlers, values=values).handle(found).ends == 5
    assert runs == [5, 5, 5]
    counted = {name: count for name, count in values.totals().items() if name.startswith("notification")}
    assert counted == {"notification_events_total": 3, "notifications_failed_total": 2}


def test_events_beyond_the_rate_wait_for_the_next_message(database: Database) -> None:
    add_rule(database, max_per_hour=2)
    for count in (1, 2, 3, 4):
        handle(database, fail(database, count))
        send_due(database)
    assert [message["count"] for message in messages(database)] == [1, 2]
    assert waiting(database) == ["r"]
    waits, *sent = page_of_messages(database, "r", PageRequest(9)).items
    assert (waits["waits_for"], waits["count"], [each["count"] for each in sent]) == (Wait.RATE, 7, [2, 1])
    assert waits["waits_until"] is not None
    pass_time(database, 3601)
    send_due(database)
    assert [message["count"] for message in messages(database)] == [1, 2, 7]


def test_reported_subject_is_not_reported_again_until_repeat_after_has_passed(database: Database) -> None:
    rows.add_endpoint(database, "other")
    add_rule(database, endpoint=None, all=True, repeat_after_seconds=600)
    handle(database, fail(database, 2))
    assert send_due(database).messages == 1
    handle(database, fail(database, 3) + fail(database, 1, endpoint="other"))
    done = send_due(database)
    assert (done.messages, done.repeated) == (1, 3)
    assert messages(database)[-1]["subjects"] == [{"name": "other", "count": 1}]
    handle(database, fail(database, 1))
    assert send_due(database).messages == 0
    pass_time(database, 601)
    handle(database, fail(database, 1))
    assert send_due(database).messages == 1


def test_message_refused_by_one_channel_is_sent_to_the_other_channels(database: Database) -> None:
    rows.add_endpoint(database, "second")
    add_rule(database, channels=[CHANNEL, "second"])
    handle(database, fail(database))
    database.fetch(text("UPDATE endpoints SET deleted_at = now() WHERE name = 'second'"))
    done = send_due(database)
    assert (done.messages, done.refused) == (1, 1)
    (group,) = database.fetch(text("SELECT messages FROM notification_groups"))
    assert [(each["channel"], each["job_id"] is None, each["fault"]) for each in group.messages] == [
        (CHANNEL, False, None),
        ("second", True, "the endpoint no longer exists"),
    ]


@pytest.mark.parametrize("way", [way for way in WAYS if "without" not in way])
def test_concurrent_creation_does_not_exceed_the_maximum_number_of_rules(
    database: Database, database_url: str, way: str
) -> None:
    add_rule(database)
    fill_rules(database, MAX_RULES - 3)

    def add(client: Database, name: str) -> bool:
        try:
            add_rule(client, name)
        except ConflictError:
            return False
        return True

    with schedulers(database_url, way, 6) as databases:
        added = at_once(*(partial(add, each, f"r{number}") for number, each in enumerate(databases)))
    assert sum(added) == 2
    assert len(database.fetch(text("SELECT 1 FROM notification_rules"))) == MAX_RULES


def test_new_rule_does_not_inherit_events_of_a_deleted_rule_of_the_same_name(database: Database) -> None:
    add_rule(database, group_seconds=60)
    handle(database, fail(database))
    send_due(database)
    handle(database, fail(database))
    RULES.delete(database, "r", AuditedChange(SYSTEM))
    add_rule(database)
    assert waiting(database) == []


def test_rule_of_a_newer_release_does_not_delay_other_rules(database: Database) -> None:
    add_rule(database)
    add_rule(database, "b")
    database.fetch(
        text(
            "INSERT INTO notification_rules (name, rule_json) "
            """VALUES ('a', '{"events": ["moon.full"], "channels": ["ops"], "endpoint": "target"}') RETURNING name"""
        )
    )
    for rule in ("a", "b"):
        database.fetch(
            text(
                "INSERT INTO notification_parts (rule, part_id, tallies) VALUES (:rule, 'p', CAST(:t AS JSONB)) "
                "RETURNING part_id"
            ),
            {"rule": rule, "t": '[{"event": "moon.full", "subject": "s"}]'},
        )
        database.fetch(text(OPEN_ALERT), {"event": "worker.lost", "rule": rule})
        database.fetch(text(OPEN_ALERT), {"event": "job.failing", "rule": rule})
    handle(database, fail(database, 2))
    Detector(database).poll()
    chores_of(ChoreContext(database, Settings(), hint=lambda _: None, stopping=lambda: False)).notify()
    assert [(message["rule"], message["count"]) for message in messages(database)] == [("r", 2)]
    left = database.fetch(text("SELECT event, rule FROM notification_conditions ORDER BY event, rule"))
    assert [tuple(row) for row in left] == [("job.failing", "a"), ("worker.lost", "a")]
    with pytest.raises(UnavailableError, match="cannot read the notification rule a"):
        get(database, "a")


@pytest.mark.parametrize(
    "lock",
    ["notification_rules WHERE name = 'a'", "notification_groups WHERE rule = 'a'"],
    ids=["rule", "group"],
)
def test_locked_rule_delays_the_messages_of_no_other_rule(
    database: Database, lock: str, caplog: pytest.LogCaptureFixture
) -> None:
    for rule in ("a", "b"):
        add_rule(database, rule, group_seconds=0 if rule == "b" else 60)
    handle(database, fail(database, 1))
    advance(database, "a")
    handle(database, fail(database, 1))
    notify = chores_of(ChoreContext(database, Settings(), hint=lambda _: None, stopping=lambda: False)).notify
    with holding(database, f"SELECT 1 FROM {lock}"):
        notify()
        notify()
    assert {message["rule"] for message in messages(database)} == {"b"}
    warning = "notification rule a or a row of it is locked by another transaction; its messages wait until it is"
    assert warning in caplog.text
    pass_time(database, 60)
    notify()
    assert {message["rule"] for message in messages(database)} == {"a", "b"}
