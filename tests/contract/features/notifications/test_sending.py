"""From failures to messages: each event counted once, one message for each group and channel, whoever dies or races."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, event, text

from app.feature import completion_handlers
from app.features import FEATURES
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
from app.kernel.metrics.values import Values
from app.queue.ending.handler import Brought, Handler
from app.queue.ending.outbox_processor import OutboxProcessor
from app.queue.ending.outbox_rows import End
from app.scheduler.chore import ChoreContext
from schema.states import Followed
from tests import rows
from tests.chores import chores_of
from tests.contract.features.notifications.telling import (
    CHANNEL,
    add_rule,
    fail,
    fill_rules,
    handle,
    messages,
    pass_time,
    tell,
)
from tests.contract.races.racing import WAYS, schedulers
from tests.racing import at_once

NOTE = (
    "INSERT INTO notification_conditions (event, rule, subject, details) VALUES (:event, :rule, 's', '{}') "
    "RETURNING event"
)


@pytest.mark.parametrize("way", [way for way in WAYS if "without" not in way])
def test_a_storm_is_one_message_for_each_rule(database: Database, database_url: str, way: str) -> None:
    rows.add_endpoint(database, "other")
    add_rule(database, group_seconds=60)
    add_rule(database, "all", group_seconds=60, endpoint=None, all=True)
    ends = fail(database, 9_000) + fail(database, 1_000, endpoint="other")

    def gather(one: Database, rule: str) -> None:
        for _ in range(20):
            advance(one, rule)

    with schedulers(database_url, way, 4) as others:
        handlers = [
            partial(OutboxProcessor(one, handlers=completion_handlers(FEATURES)).handle, ends) for one in others[:2]
        ]
        at_once(*handlers, *(partial(gather, one, rule) for one in others[2:] for rule in ("r", "all")))
        # Who met a serialization failure to the last left ends for the chore.
        left = [row.end_id for row in database.fetch(text("SELECT end_id FROM execution_ends ORDER BY end_id"))]
        for end_id in left:
            OutboxProcessor(database, handlers=completion_handlers(FEATURES)).handle_alone(end_id)
        for rule in ("r", "all"):
            tell(database, rule)
        pass_time(database, 60)
        at_once(*(partial(advance, one, rule) for one in others for rule in ("r", "all")))
    told = {message["rule"]: message for message in messages(database)}
    assert len(messages(database)) == 2
    assert (told["r"]["count"], told["all"]["count"]) == (9_000, 10_000)
    assert told["all"]["subjects"] == [{"name": "target", "count": 9_000}, {"name": "other", "count": 1_000}]
    assert len(told["r"]["examples"]) == 5
    assert waiting(database) == []


def test_a_scheduler_that_dies_while_it_sends_has_sent_nothing_or_all(database: Database) -> None:
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
    assert tell(database).messages == 2
    assert [message["count"] for message in messages(database) + messages(database, "second")] == [3, 3]
    assert tell(database).messages == 0


def test_what_a_notification_causes_is_not_told_and_is_a_dead_letter(database: Database) -> None:
    add_rule(database)
    add_rule(database, "all", endpoint=None, all=True)
    handle(database, fail(database))
    tell(database)
    tell(database, "all")
    assert len(messages(database)) == 2
    assert {row.followed for row in database.fetch(text("SELECT followed FROM executions WHERE endpoint = 'ops'"))} == {
        int(Followed.NOTIFICATION)
    }
    handle(database, fail(database, 2, endpoint=CHANNEL, followed=int(Followed.NOTIFICATION)))
    assert waiting(database) == []
    assert len(database.fetch(text("SELECT 1 FROM dead_letters WHERE endpoint = 'ops'"))) == 2


@pytest.mark.postgresql_only
def test_what_is_counted_is_counted_once_however_often_the_transaction_runs(database: Database) -> None:
    add_rule(database)
    found = fail(database, 3) + fail(database, 2, endpoint=CHANNEL, followed=int(Followed.NOTIFICATION))
    values, runs = Values(), list[int]()

    def repeat(connection: Connection, ends: Sequence[End]) -> Brought:
        runs.append(len(ends))
        if len(runs) < 3:
            connection.execute(text("DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$"))
        return Brought()

    effects = [NOTIFICATIONS, Handler("repeat", lambda _end: True, repeat)]
    assert OutboxProcessor(database, handlers=effects, values=values).handle(found).ends == 5
    assert runs == [5, 5, 5]
    counted = {name: count for name, count in values.totals().items() if name.startswith("notification")}
    assert counted == {"notification_events_total": 3, "notifications_failed_total": 2}


def test_what_is_beyond_the_rate_waits_for_the_next_message(database: Database) -> None:
    add_rule(database, max_per_hour=2)
    for count in (1, 2, 3, 4):
        handle(database, fail(database, count))
        tell(database)
    assert [message["count"] for message in messages(database)] == [1, 2]
    assert waiting(database) == ["r"]
    waits, *sent = page_of_messages(database, "r", PageRequest(9)).items
    assert (waits["waits_for"], waits["count"], [each["count"] for each in sent]) == (Wait.RATE, 7, [2, 1])
    assert waits["waits_until"] is not None
    pass_time(database, 3601)
    tell(database)
    assert [message["count"] for message in messages(database)] == [1, 2, 7]


def test_a_subject_that_was_told_of_is_not_told_of_again_for_a_while(database: Database) -> None:
    rows.add_endpoint(database, "other")
    add_rule(database, endpoint=None, all=True, repeat_after_seconds=600)
    handle(database, fail(database, 2))
    assert tell(database).messages == 1
    handle(database, fail(database, 3) + fail(database, 1, endpoint="other"))
    done = tell(database)
    assert (done.messages, done.repeated) == (1, 3)
    assert messages(database)[-1]["subjects"] == [{"name": "other", "count": 1}]
    handle(database, fail(database, 1))
    assert tell(database).messages == 0
    pass_time(database, 601)
    handle(database, fail(database, 1))
    assert tell(database).messages == 1


def test_a_message_that_a_channel_refuses_is_told_by_the_others(database: Database) -> None:
    rows.add_endpoint(database, "second")
    add_rule(database, channels=[CHANNEL, "second"])
    handle(database, fail(database))
    database.fetch(text("UPDATE endpoints SET deleted_at = now() WHERE name = 'second'"))
    done = tell(database)
    assert (done.messages, done.refused) == (1, 1)
    (group,) = database.fetch(text("SELECT messages FROM notification_groups"))
    assert [(each["channel"], each["job_id"] is None, each["fault"]) for each in group.messages] == [
        (CHANNEL, False, None),
        ("second", True, "the endpoint no longer exists"),
    ]


@pytest.mark.parametrize("way", [way for way in WAYS if "without" not in way])
def test_of_those_who_add_rules_at_once_no_more_get_one_than_there_may_be(
    database: Database, database_url: str, way: str
) -> None:
    add_rule(database)
    fill_rules(database, MAX_RULES - 3)

    def add(one: Database, name: str) -> bool:
        try:
            add_rule(one, name)
        except ConflictError:
            return False
        return True

    with schedulers(database_url, way, 6) as others:
        added = at_once(*(partial(add, one, f"r{number}") for number, one in enumerate(others)))
    assert sum(added) == 2
    assert len(database.fetch(text("SELECT 1 FROM notification_rules"))) == MAX_RULES


def test_a_rule_that_is_deleted_forgets_what_it_has_gathered(database: Database) -> None:
    add_rule(database, group_seconds=60)
    handle(database, fail(database))
    tell(database)
    handle(database, fail(database))
    RULES.delete(database, "r", AuditedChange(SYSTEM))
    add_rule(database)
    assert waiting(database) == []


def test_what_only_a_newer_release_can_read_holds_up_no_other_rule(database: Database) -> None:
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
        database.fetch(text(NOTE), {"event": "worker.lost", "rule": rule})
        database.fetch(text(NOTE), {"event": "job.failing", "rule": rule})
    handle(database, fail(database, 2))
    Detector(database).poll()
    chores_of(ChoreContext(database, Settings(), hint=lambda _: None, stopping=lambda: False)).notify()
    assert [(message["rule"], message["count"]) for message in messages(database)] == [("r", 2)]
    left = database.fetch(text("SELECT event, rule FROM notification_conditions ORDER BY event, rule"))
    assert [tuple(row) for row in left] == [("job.failing", "a"), ("worker.lost", "a")]
    with pytest.raises(UnavailableError, match="cannot read the notification rule a"):
        get(database, "a")
