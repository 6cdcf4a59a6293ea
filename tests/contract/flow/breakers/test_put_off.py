"""What is put off comes back ever more rarely, and is as old as it was: `max_age_ms` ends it."""

import json
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, text

import tests.worker_environment  # noqa: F401 - first
from actors.deliver import Deliveries
from actors.dispatch import Dispatchers
from actors.loop import DeliveryLoop
from app.catalog import secrets
from app.catalog.crypto import SecretBox, generate_key
from app.dev.receiver import Receiver
from app.features.breakers.store import close
from app.kernel.audit import SYSTEM
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from app.queue.claiming.known_rules import FlowRules
from brokers.attempt import Stage
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.contract.broker.delivering import Attempts, catalog_of, claimed
from tests.waiting import eventually

WAITED = "scheduled_at = now() - INTERVAL '1 hour', created_at = now() - INTERVAL '1 hour'"


def nothing_may_be_sent() -> Dispatchers:
    raise AssertionError


def sealed(database: Database, *, max_age_ms: int, due_in: timedelta = timedelta(0)) -> list[str]:
    """An execution that needs a secret of which no process here has the key."""
    stored = SecretBox.from_setting(generate_key()).encrypt("hunter2")
    secrets.SECRETS.create(database, "token", stored, AuditedChange(SYSTEM))
    spec = {"url": "https://h/{{secret.token}}", "method": "POST"}
    rows.add_endpoint(database, "sealed", spec=spec, retry_policy={"max_attempts": 3, "max_age_ms": max_age_ms})
    return rows.add_executions(database, endpoint="sealed", max_attempts=3, due_in=due_in)


@pytest.mark.parametrize(
    ("begins", "status"),
    [
        ("", "FAILED"),
        (", status = 'RETRYING', attempt_count = 1", "FAILED"),
        (", created_at = now()", "QUEUED"),
        (", attempt_count = 3, max_attempts = 6", "RETRYING"),
    ],
    ids=["first attempt", "retry", "a tick that is made up for", "retry by hand"],
)
def test_what_is_put_off_again_and_again_ends_once_it_is_too_late(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, begins: str, status: str
) -> None:
    """Each time it is due anew, and not too late by that: what waits for a secret would wait for ever."""
    (execution_id,) = sealed(database, max_age_ms=60_000)
    set_to = WAITED if "created_at" not in begins else WAITED.partition(",")[0]
    database.fetch(text(f"UPDATE executions SET {set_to}{begins}"))
    attempt = claimed(process)
    Deliveries(catalog_of(database), loop, database).start([attempt])
    eventually(lambda: rows.execution(database, execution_id).status != "RUNNING")
    row = rows.execution(database, execution_id)
    assert row.status == status
    if status == "FAILED":
        (tried,) = rows.attempts(database, execution_id)
        assert (tried.error["type"], tried.error["may_have_been_delivered"]) == ("RETRY_TOO_LATE", False)
    else:
        assert row.run_at >= attempt.claim.claimed_at + timedelta(seconds=40)


def test_what_waits_is_put_off_until_it_is_too_late_at_most(database: Database, process: WorkerProcess) -> None:
    (execution_id,) = sealed(database, max_age_ms=3_601_000, due_in=timedelta(hours=-1))
    attempt = claimed(process)
    Deliveries(catalog_of(database), DeliveryLoop(nothing_may_be_sent), database).start([attempt])
    assert process.finalizer.flush(60)
    row = rows.execution(database, execution_id)
    assert row.status == "QUEUED"
    assert row.run_at < rows.database_now(database) + timedelta(minutes=1)


@pytest.mark.parametrize(
    ("reason", "is_sent"),
    [("HANDED_BACK", False), (None, True), ("RETRIED_BY_HAND", True), ("RUN_BY_HAND", True), ("JOB_RESUMED", True)],
)
def test_a_first_attempt_that_was_put_off_is_as_late_as_it_was(
    database: Database,
    process: WorkerProcess,
    loop: DeliveryLoop,
    receiver: Receiver,
    reason: str | None,
    is_sent: bool,
) -> None:
    """Being queued late, as after an outage of the scheduler, is not being put off; nor is what somebody asks for."""
    path = f"/ok/put-off-{reason}-{process.worker_id}"
    policy = {"max_attempts": 3, "max_age_ms": 60_000}
    rows.add_endpoint(database, "late", spec={"url": receiver.url(path), "method": "POST"}, retry_policy=policy)
    database.fetch(text("UPDATE endpoints SET limits = '{\"max_in_flight\": 1}' WHERE name = 'late'"))
    rules = FlowRules(database)
    rules.refresh()
    (execution_id,) = rows.add_executions(database, endpoint="late", max_attempts=3)
    database.fetch(text(f"UPDATE executions SET {WAITED}"))
    for noted in filter(None, ["HANDED_BACK" if reason else None, reason]):
        database.fetch(
            text(
                "INSERT INTO execution_events (event_id, execution_id, from_status, to_status, attempt_number, reason)"
                " VALUES (:id, :execution, 'QUEUED', 'QUEUED', 1, :reason) ON CONFLICT DO NOTHING"
            ),
            {"id": f"evt_{noted}", "execution": execution_id, "reason": noted},
        )
    Deliveries(catalog_of(database), loop, database, process.targets, rules).start([claimed(process)])
    eventually(lambda: rows.execution(database, execution_id).status != "RUNNING")
    assert rows.execution(database, execution_id).status == ("SUCCESS" if is_sent else "FAILED")
    assert [request.path for request in receiver.requests if request.path == path] == [path] * is_sent


DEAD = "127.0.0.1:9"


def repointed(
    database: Database, receiver: Receiver, open_for: timedelta, count: int, due_in: timedelta, host: str = DEAD
) -> list[str]:
    """An endpoint that led to a dead host, with what that one has left, and whose newest version leads elsewhere."""
    rows.add_endpoint(database, "moved", spec={"url": f"http://{host}/ok/left", "method": "POST"})
    rows.add_breaker(database, f"http:{host}", "open", open_for=open_for)
    old = rows.add_executions(database, count, endpoint="moved", due_in=due_in)
    database.fetch(
        text(
            "INSERT INTO endpoint_versions (endpoint, version, endpoint_type, spec)"
            " VALUES ('moved', 2, 'HTTP', CAST(:spec AS JSONB))"
        ),
        {"spec": json.dumps({"url": receiver.url("/ok/moved"), "method": "POST"})},
    )
    return old


def lead_elsewhere(process: WorkerProcess, receiver: Receiver, host: str = DEAD) -> None:
    """Have a process know that the dead host is shut, and where the newest version leads."""
    process.targets.bind("moved", f"http:{host}", 30_000, has_turns=True)
    eventually(lambda: process.targets.shut, what="the state of the breaker")
    name = f"http:127.0.0.1:{receiver.base_url.rpartition(':')[2]}"
    process.targets.bind("moved", name, 30_000, has_turns=True, as_of=(2, 0))


def test_the_backlog_of_a_host_that_was_given_up_is_claimed_ever_more_rarely(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver
) -> None:
    """Else all of it would be claimed in vain each time that the dead host may be probed."""
    old = repointed(database, receiver, timedelta(seconds=5), 20, timedelta(hours=-1))
    lead_elsewhere(process, receiver)
    attempts, deliveries = Attempts(process), Deliveries(catalog_of(database), loop, database, process.targets)
    deliveries.start([attempts.next() for _ in old])
    assert process.finalizer.flush(60)
    found = [rows.execution(database, one) for one in old]
    assert {(row.status, row.attempt_count) for row in found} == {("QUEUED", 0)}
    assert min(row.run_at for row in found) > rows.database_now(database) + timedelta(minutes=4)
    assert len({row.run_at for row in found}) == len(found), "nor all at once"
    assert database.fetch(text("SELECT 1 FROM execution_events")) == []


def test_one_of_the_backlog_of_a_host_that_was_given_up_is_kept_at_hand_for_the_probe(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver
) -> None:
    old = repointed(database, receiver, timedelta(0), 5, timedelta(hours=-1))
    lead_elsewhere(process, receiver)
    attempts, deliveries = Attempts(process), Deliveries(catalog_of(database), loop, database, process.targets)
    deliveries.start([attempts.next() for _ in old])
    assert process.finalizer.flush(60)
    later = [one for one in old if rows.execution(database, one).run_at > rows.database_now(database)]
    assert len(later) >= len(old) - 1
    while not [one for one in old if rows.attempts(database, one)]:
        attempt = attempts.next()
        deliveries.start([attempt])
        eventually(lambda attempt=attempt: attempt.stage is Stage.ENDED)
        assert process.finalizer.flush(60)


def test_what_is_left_for_a_host_that_was_given_up_ends_once_it_is_too_late(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver
) -> None:
    """Each time it is put off it is due anew."""
    (old,) = repointed(database, receiver, timedelta(hours=1), 1, timedelta(hours=-1))
    database.fetch(
        text("UPDATE endpoint_versions SET retry_policy = '{\"max_age_ms\": 60000}' WHERE endpoint = 'moved'")
    )
    database.fetch(text("UPDATE executions SET run_at = now(), created_at = scheduled_at"))
    lead_elsewhere(process, receiver)
    Deliveries(catalog_of(database), loop, database, process.targets).start([Attempts(process).next()])
    assert process.finalizer.flush(60)
    assert rows.execution(database, old).status == "FAILED"
    assert rows.attempts(database, old)[0].error["type"] == "RETRY_TOO_LATE"


def test_what_was_put_off_for_a_host_that_was_given_up_is_as_old_as_it_was(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver
) -> None:
    """It is due anew each time, and that host may have recovered; its history says once that it was put off."""
    host = f"localhost:{receiver.base_url.rpartition(':')[2]}"
    (old,) = repointed(database, receiver, timedelta(hours=1), 1, timedelta(seconds=-10), host)
    policy = "UPDATE endpoint_versions SET retry_policy = '{\"max_age_ms\": 60000}' WHERE endpoint = 'moved'"
    database.fetch(text(policy))
    lead_elsewhere(process, receiver, host)
    attempts, deliveries = Attempts(process), Deliveries(catalog_of(database), loop, database, process.targets)
    for _ in range(2):
        attempt = attempts.next()
        deliveries.start([attempt])
        assert process.finalizer.flush(60)
        assert rows.execution(database, old).status == "QUEUED"
        database.fetch(text(f"UPDATE executions SET {WAITED}, run_at = now()"))
        database.fetch(text("UPDATE executions SET scheduled_at = now() - INTERVAL '10 seconds'"))
    noted = database.fetch(text("SELECT reason FROM execution_events ORDER BY occurred_at"))
    assert [one.reason for one in noted] == ["CLAIMED", "HANDED_BACK"]
    database.fetch(text(f"UPDATE executions SET {WAITED}"))
    close(database, f"http:{host}", "somebody")
    eventually(lambda: not attempt.target.is_shut)
    deliveries.start([attempts.next()])
    eventually(lambda: rows.execution(database, old).status in {"FAILED", "SUCCESS"})
    assert [tried.error and tried.error["type"] for tried in rows.attempts(database, old)] == ["RETRY_TOO_LATE"]


@pytest.mark.parametrize(("limits", "reads"), [(None, 0), ('{"max_in_flight": 9}', 1)], ids=["free", "limited"])
def test_how_long_ticks_have_waited_that_are_made_up_for_is_read_once_at_most(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver, limits: str | None, reads: int
) -> None:
    """All of a message together, and none where nothing may have made them wait: there may be very many of them."""
    policy = {"max_attempts": 3, "max_age_ms": 60_000}
    rows.add_endpoint(
        database, "late", spec={"url": receiver.url("/ok/made-up"), "method": "POST"}, retry_policy=policy
    )
    database.fetch(text("UPDATE endpoints SET limits = CAST(:limits AS JSONB) WHERE name = 'late'"), {"limits": limits})
    rules = FlowRules(database)
    rules.refresh()
    ticks = rows.add_executions(database, 3, endpoint="late", max_attempts=3)
    database.fetch(text(f"UPDATE executions SET {WAITED.partition(',')[0]}"))
    attempts, asked = Attempts(process), []
    batch = [attempts.next() for _ in ticks]

    @event.listens_for(database.engine, "before_cursor_execute")
    def note(_connection: Any, _cursor: Any, statement: str, *_others: Any) -> None:
        asked.extend([statement] if "was_handed_back" in statement else [])

    Deliveries(catalog_of(database), loop, database, process.targets, rules).start(batch)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": len(ticks)})
    assert len(asked) == reads
