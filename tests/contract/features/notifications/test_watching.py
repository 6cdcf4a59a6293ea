"""Open alerts: one of several schedulers reports a condition once, and again only after the condition has ended."""

import re
from typing import Any

import pytest
from sqlalchemy import text

from app.features.notifications import facts
from app.features.notifications import store as notifications_store
from app.features.notifications.group_sending import waiting
from app.features.notifications.rule_preview import Preview
from app.features.notifications.rules import EVENTS
from app.features.notifications.watching import Detector
from app.kernel import ids
from app.kernel.db import Database
from app.kernel.processes import worker_lease
from schema.states import NotificationEvent
from tests import rows
from tests.contract.features.notifications.notification_rows import add_rule, fail, handle, messages, send_due
from tests.contract.races.racing import WAYS, schedulers
from tests.contract.scheduler.conftest import holding
from tests.racing import at_once

LATE = "now() - INTERVAL '10 minutes'"


def lose_worker(database: Database, worker_id: str) -> None:
    about: dict[str, Any] = {"host": "box", "pid": 1, "queues": ["http"], "capacity": 9, "lease_ms": 0}
    worker_lease.register(database, worker_id=worker_id, **about)


def add_repeating(database: Database, *, next_run: str = "NULL", name: str = "Report") -> str:
    """Add an interval job of `target`; `next_run` is an SQL expression for the time of its next tick."""
    job_id = ids.job_id()
    database.fetch(
        text(
            "INSERT INTO jobs (job_id, endpoint, endpoint_version, endpoint_type, trigger_type, interval_ms, name, "
            f"  labels, cron_next_run_at) VALUES (:id, 'target', 1, 'HTTP', 'INTERVAL', 60000, :name, "
            f'  CAST(\'{{"team": "pay"}}\' AS JSONB), {next_run})'
        ),
        {"id": job_id, "name": name},
    )
    return job_id


def fail_tick(database: Database, job_id: str) -> None:
    """Add a failed tick of a job and run all handlers of its completion event."""
    execution_id = rows.add_tick(database, job_id, "FAILED")
    database.fetch(
        text(
            "INSERT INTO execution_ends (end_id, shard, execution_id, endpoint, status, attempt, ended_at) "
            "VALUES (:id, 0, :id, 'target', 'FAILED', 1, now())"
        ),
        {"id": execution_id},
    )
    handle(database, [execution_id])


def new_messages(database: Database, rule: str = "r") -> list[tuple[str, list[str]]]:
    """Send the due messages of a rule; returns the event and the subjects of each new message."""
    before = len(messages(database))
    send_due(database, rule)
    return [(each["event"], [subject["name"] for subject in each["subjects"]]) for each in messages(database)[before:]]


def poll(database: Database) -> None:
    Detector(database).poll()


@pytest.mark.parametrize("way", [way for way in WAYS if "without" not in way])
def test_several_schedulers_report_each_condition_once(database: Database, database_url: str, way: str) -> None:
    add_rule(database, endpoint=None, all=True, events=list(EVENTS))
    add_rule(database, "queue", endpoint=None, queue="ht*", events=["worker.lost", "queue.late"], late_seconds=60)
    add_rule(database, "bulk", endpoint=None, queue="bulk", events=["worker.lost", "queue.late"])
    add_rule(database, "breaker", events=["breaker.opened"])
    for number in range(3):
        lose_worker(database, f"wrk_{number}")
    rows.add_executions(database)
    database.fetch(text(f"UPDATE executions SET run_at = {LATE}"))
    add_repeating(database, next_run=LATE)
    database.fetch(
        text(
            "INSERT INTO breakers (target, state, open_until, watched_until) "
            "VALUES ('http:h:80', 'open', now(), now()), ('http:x:80', 'closed', NULL, now())"
        )
    )
    database.fetch(text("INSERT INTO breaker_endpoints (target, endpoint) VALUES ('http:h:80', 'target')"))
    with schedulers(database_url, way, 3) as databases:
        for _ in range(3):
            at_once(*(Detector(each).poll for each in databases))
    assert waiting(database) == ["breaker", "queue", "r"]
    ((_, subjects),) = new_messages(database)
    lost = [f"wrk_{number} on box" for number in range(3)]
    assert sorted(subjects) == ["Report", "http", "http:h:80", *lost]
    ((event, subjects),) = new_messages(database, "queue")
    assert (event, sorted(subjects)) == ("worker.lost", ["http", *lost])
    assert new_messages(database, "breaker") == [("breaker.opened", ["http:h:80"])]
    assert {message["count"] for message in messages(database)} == {6, 4, 1}

    database.fetch(text("UPDATE breakers SET state = 'half_open' WHERE target = 'http:h:80'"))
    poll(database)
    assert waiting(database) == [], "a half-open breaker is still the same condition"


def test_alert_of_a_changed_rule_is_closed_and_opened_again(database: Database) -> None:
    """Otherwise a rule that was narrowed during a maintenance would miss conditions that began earlier."""
    add_rule(database, endpoint=None, all=True, events=["worker.lost", "job.failing"], failing_after=1)
    fail_tick(database, add_repeating(database))
    lose_worker(database, "wrk_1")
    poll(database)
    alerts = text("SELECT event FROM notification_conditions ORDER BY event")
    assert [row.event for row in database.fetch(alerts)] == ["job.failing", "worker.lost"]
    new_messages(database)
    change = text("UPDATE notification_rules SET rule_json = rule_json || CAST(:change AS JSONB) RETURNING 1")
    for change_to in ('{"events": ["queue.late"]}', '{"events": ["worker.lost", "job.failing"]}'):
        database.fetch(change, {"change": change_to})
        poll(database)
    assert new_messages(database) == [("worker.lost", ["wrk_1 on box"])]
    assert [row.event for row in database.fetch(alerts)] == ["worker.lost"]


@pytest.mark.parametrize("event", ["worker.lost", "job.failing"])
def test_locked_alert_delays_the_end_of_no_other_alert(database: Database, event: str) -> None:
    add_rule(database, endpoint=None, all=True, events=["worker.lost", "job.failing"])
    insert = (
        "INSERT INTO notification_conditions (event, rule, subject, details) SELECT :event, 'r', id, '{}' "
        "  FROM unnest(CAST(ARRAY['a', 'b', 'c'] AS TEXT[])) AS u (id)"
    )
    database.fetch(text(insert), {"event": event})
    subjects = text("SELECT subject FROM notification_conditions ORDER BY subject")
    with holding(database, "SELECT 1 FROM notification_conditions WHERE subject = 'b'"):
        poll(database)
        assert [row.subject for row in database.fetch(subjects)] == ["b"]
    poll(database)
    assert database.fetch(subjects) == []


def test_many_alerts_are_opened_and_closed_by_statements_of_bounded_size(database: Database) -> None:
    for number in range(3):
        lose_worker(database, f"wrk_{number}")
    names = ["a", "b", "c"]
    for name in names:
        add_rule(database, name, endpoint=None, all=True, events=["worker.lost"])
    detector, left = Detector(database, max_alerts=4), list[int]()
    for opened in (4, 8, 9):
        detector.poll()
        assert len(database.fetch(text("SELECT 1 FROM notification_conditions"))) == opened
    assert len(database.fetch(text("SELECT 1 FROM notification_conditions"))) == 9
    assert [len(new_messages(database, name)[0][1]) for name in names] == [3, 3, 3]
    database.fetch(text("UPDATE workers SET status = 'DEAD'"))
    for _ in range(3):
        detector.poll()
        left.append(len(database.fetch(text("SELECT 1 FROM notification_conditions"))))
    assert left == [5, 1, 0]
    assert [new_messages(database, name) for name in names] == [[], [], []]


def test_each_poll_checks_some_failing_jobs_and_the_next_poll_continues(database: Database) -> None:
    add_rule(database, events=["job.failing", "job.recovered"], failing_after=1)
    jobs = sorted(add_repeating(database, name=f"job {number}") for number in range(5))
    for job_id in jobs:
        fail_tick(database, job_id)
    ((_, subjects),) = new_messages(database)
    assert len(subjects) == 5
    for job_id in jobs[2:]:
        rows.add_tick(database, job_id, "SUCCESS")
    detector = Detector(database, max_streaks=2)
    assert [detector.poll()["noted"] for _ in range(4)] == [0, 2, 1, 0]
    ((event, subjects),) = new_messages(database)
    assert (event, len(subjects)) == ("job.recovered", 3)


MANY = {
    "worker.lost": (
        (
            "INSERT INTO workers (worker_id, host, pid, queues, capacity, status, lease_expires_at) "
            "SELECT 'wrk_' || n, 'box', 1, '[\"http\"]', 9, 'ALIVE', now() - (1000 - n) * INTERVAL '1 second' "
        ),
        "UPDATE workers SET status = 'DEAD' WHERE worker_id = 'wrk_' || :n",
    ),
    "breaker.opened": (
        (
            "INSERT INTO breakers (target, state, open_until, watched_until, changed_at) "
            "SELECT 'h:' || n, 'open', now(), now(), now() - (1000 - n) * INTERVAL '1 second' "
        ),
        "DELETE FROM breakers WHERE target = 'h:' || :n",
    ),
    "schedule.overdue": (
        (
            "INSERT INTO jobs (job_id, endpoint, endpoint_version, endpoint_type, trigger_type, interval_ms, "
            "  cron_next_run_at) "
            "SELECT 'job_' || n, 'target', 1, 'HTTP', 'INTERVAL', 60000, now() - (4000 + n) * INTERVAL '1 second' "
        ),
        "UPDATE jobs SET cron_next_run_at = now() WHERE job_id = 'job_' || :n",
    ),
}


@pytest.mark.parametrize("event", MANY)
def test_alerts_beyond_the_maximum_per_poll_are_closed_too(database: Database, event: str) -> None:
    """A poll reads at most MAX_FACTS conditions: the rows with the highest numbers."""
    add_rule(database, endpoint=None, all=True, events=[event])
    insert, end = MANY[event]

    def add(first: int, last: int) -> None:
        database.fetch(text(f"{insert} FROM generate_series({first}, {last}) AS n"))

    def open_alerts() -> set[int]:
        alerts = database.fetch(text("SELECT subject FROM notification_conditions"))
        return {int(re.split("[_:]", row.subject)[-1]) for row in alerts}

    add(1, facts.MAX_FACTS)
    poll(database)
    add(facts.MAX_FACTS + 1, facts.MAX_FACTS + 3)
    poll(database)
    assert open_alerts() == set(range(1, facts.MAX_FACTS + 4)), "an alert beyond the maximum per poll stays open"
    for number in (2, facts.MAX_FACTS):
        database.fetch(text(end), {"n": str(number)})
    poll(database)
    assert open_alerts() == set(range(1, facts.MAX_FACTS + 4)) - {2, facts.MAX_FACTS}


def test_condition_is_reported_again_when_it_recurs_after_its_end(database: Database) -> None:
    add_rule(database, endpoint=None, all=True, events=["queue.late"])
    for _ in range(2):
        rows.add_executions(database)
        database.fetch(text(f"UPDATE executions SET run_at = {LATE} WHERE status = 'QUEUED'"))
        poll(database)
        poll(database)
        assert new_messages(database) == [("queue.late", ["http"])]
        database.fetch(text("UPDATE executions SET status = 'CANCELLED', completed_at = now() WHERE status = 'QUEUED'"))
        poll(database)
        assert new_messages(database) == []


def test_job_is_failing_from_the_configured_number_of_failures_until_a_success(database: Database) -> None:
    add_rule(database, events=["job.failing", "job.recovered"], failing_after=3, endpoint=None, label="team=pay")
    add_rule(database, "recovered", events=["job.recovered"], failing_after=2)
    job_id = add_repeating(database)
    fail_tick(database, job_id)
    fail_tick(database, job_id)
    rows.add_tick(database, job_id, "SUCCESS")
    poll(database)
    assert waiting(database) == ["recovered"], "two failures in a row open the alert of this rule"
    assert new_messages(database, "recovered") == [("job.recovered", ["Report"])]
    for _ in range(5):
        fail_tick(database, job_id)
        poll(database)
    assert new_messages(database) == [("job.failing", ["Report"])]
    rows.add_tick(database, job_id, "QUEUED")
    poll(database)
    assert new_messages(database) == []
    rows.add_tick(database, job_id, "SUCCESS")
    poll(database)
    poll(database)
    assert new_messages(database) == [("job.recovered", ["Report"])]
    assert new_messages(database, "recovered") == [("job.recovered", ["Report"])]


def test_one_shot_job_is_never_failing_and_a_retired_job_never_recovers(database: Database) -> None:
    add_rule(database, events=["job.failing", "job.recovered"], failing_after=1)
    handle(database, fail(database, 3))
    assert new_messages(database) == []
    job_id = add_repeating(database)
    fail_tick(database, job_id)
    assert new_messages(database) == [("job.failing", ["Report"])]
    database.fetch(text("UPDATE jobs SET status = 'RETIRED', retired_at = now(), cron_next_run_at = NULL"))
    poll(database)
    assert database.fetch(text("SELECT 1 FROM notification_conditions")) == []
    assert new_messages(database) == []


def test_preview_counts_past_events_of_each_kind(database: Database) -> None:
    every = list(EVENTS)
    add_rule(database, endpoint=None, all=True, events=every, failing_after=2, group_seconds=3600)
    job_id = add_repeating(database)
    handle(database, fail(database, 7))
    for _ in range(3):
        fail_tick(database, job_id)
    rows.add_tick(database, job_id, "SUCCESS")
    lose_worker(database, "wrk_1")
    database.fetch(
        text(
            "INSERT INTO breaker_events (event_id, target, from_state, to_state, reason) "
            "VALUES ('e1', 'http:h:80', 'closed', 'open', 'x'), ('e2', 'http:h:80', 'half_open', 'open', 'x')"
        )
    )
    found = Preview(database, notifications_store.get(database, "r"))
    (sent,) = found.simulation.groups
    assert not found.is_truncated
    assert sent.sent_at is None
    assert {event.value: count for event, count in sent.group.counts.items()} == {
        "execution.failed": 10,
        "job.failing": 1,
        "job.recovered": 1,
        "worker.lost": 1,
        "breaker.opened": 1,
    }
    assert found.simulation.events == 14


def test_preview_of_too_many_events_covers_the_latest_only(database: Database) -> None:
    add_rule(database, endpoint=None, all=True)
    handle(database, fail(database, 550))
    database.fetch(
        text(
            "UPDATE dead_letters AS d SET failed_at = now() - place * INTERVAL '1 second' "
            "FROM (SELECT letter_id, row_number() OVER (ORDER BY letter_id) AS place FROM dead_letters) AS p "
            "WHERE p.letter_id = d.letter_id"
        )
    )
    found = Preview(database, notifications_store.get(database, "r"), max_letters=500)
    assert found.is_truncated
    assert found.simulation.events == 500
    assert (found.until - found.since).total_seconds() == pytest.approx(500, abs=60)
    assert found.simulation.groups[0].group.event is NotificationEvent.EXECUTION_FAILED
