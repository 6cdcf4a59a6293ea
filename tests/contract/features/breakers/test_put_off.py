"""What is put off comes back ever more rarely, and is as old as it was: `max_age_ms` ends it."""

import json
from datetime import timedelta

import pytest
from sqlalchemy import text

import tests.worker_environment  # noqa: F401 - first
from actors.deliver import Deliveries
from actors.dispatch import Dispatchers
from actors.loop import DeliveryLoop
from app.catalog.crypto import SecretBox, generate_key
from app.catalog.named_table import SECRETS
from app.dev.receiver import Receiver
from app.features.breakers.store import close
from app.kernel.audit import SYSTEM
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from app.queue.claiming.endpoint_rules import FlowRules
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.contract.broker.delivering import Attempts, catalog_of, claimed
from tests.waiting import eventually


def nothing_may_be_sent() -> Dispatchers:
    raise AssertionError


def sealed(database: Database, *, max_age_ms: int, due_in: timedelta = timedelta(0)) -> list[str]:
    """An execution that needs a secret of which no process here has the key."""
    stored = SecretBox.from_setting(generate_key()).encrypt("hunter2")
    SECRETS.create(database, "token", stored, AuditedChange(SYSTEM))
    spec = {"url": "https://h/{{secret.token}}", "method": "POST"}
    rows.add_endpoint(database, "sealed", spec=spec, retry_policy={"max_attempts": 3, "max_age_ms": max_age_ms})
    return rows.add_executions(database, endpoint="sealed", max_attempts=3, due_in=due_in)


@pytest.mark.parametrize(
    ("begins", "status"),
    [
        ("expires_at = now() - INTERVAL '1 minute'", "FAILED"),
        ("expires_at = now() - INTERVAL '1 minute', status = 'RETRYING', attempt_count = 1", "FAILED"),
        ("expires_at = now() + INTERVAL '1 hour'", "QUEUED"),
        ("expires_at = NULL, attempt_count = 3, max_attempts = 6", "RETRYING"),
    ],
    ids=["first attempt", "retry", "tick made up for late", "manual retry"],
)
def test_execution_that_is_deferred_again_and_again_ends_once_it_is_too_late(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, begins: str, status: str
) -> None:
    """Each time it is due anew: an execution that needs an unreadable secret would wait for ever."""
    (execution_id,) = sealed(database, max_age_ms=60_000)
    database.fetch(text(f"UPDATE executions SET scheduled_at = now() - INTERVAL '1 hour', {begins}"))
    attempt = claimed(process)
    Deliveries(catalog_of(database), loop, database, process).start([attempt])
    eventually(lambda: rows.execution(database, execution_id).status != "RUNNING")
    row = rows.execution(database, execution_id)
    assert row.status == status
    if status == "FAILED":
        (tried,) = rows.attempts(database, execution_id)
        assert (tried.error["type"], tried.error["may_have_been_delivered"]) == ("RETRY_TOO_LATE", False)
    else:
        assert row.run_at >= attempt.claim.claimed_at + timedelta(seconds=40)


def test_execution_is_deferred_until_it_is_too_late_at_most(database: Database, process: WorkerProcess) -> None:
    (execution_id,) = sealed(database, max_age_ms=3_601_000, due_in=timedelta(hours=-1))
    attempt = claimed(process)
    Deliveries(catalog_of(database), DeliveryLoop(nothing_may_be_sent), database, process).start([attempt])
    assert process.finalizer.flush(60)
    row = rows.execution(database, execution_id)
    assert row.status == "QUEUED"
    assert row.run_at < rows.database_now(database) + timedelta(minutes=1)


def test_first_attempt_that_was_deferred_is_as_old_as_it_was(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver
) -> None:
    """It is due again now, but has an age by the instant at which it was due first."""
    path = f"/ok/put-off-{process.worker_id}"
    policy = {"max_attempts": 3, "max_age_ms": 60_000}
    rows.add_endpoint(database, "late", spec={"url": receiver.url(path), "method": "POST"}, retry_policy=policy)
    database.fetch(text("UPDATE endpoints SET limits = '{\"max_in_flight\": 1}' WHERE name = 'late'"))
    process.rules = FlowRules(database)
    process.rules.refresh()
    (execution_id,) = rows.add_executions(database, endpoint="late", max_attempts=3, due_in=timedelta(hours=-1))
    database.fetch(text("UPDATE executions SET run_at = now()"))
    Deliveries(catalog_of(database), loop, database, process).start([claimed(process)])
    eventually(lambda: rows.execution(database, execution_id).status == "FAILED")
    assert [request.path for request in receiver.requests if request.path == path] == []


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
    process.bindings.bind("moved", f"http:{host}", 30_000, has_turns=True)
    eventually(process.bindings.behind_open, what="the state of the breaker")
    name = f"http:127.0.0.1:{receiver.base_url.rpartition(':')[2]}"
    process.bindings.bind("moved", name, 30_000, has_turns=True, as_of=(2, 0))


def test_the_backlog_of_a_host_that_was_given_up_is_claimed_ever_more_rarely(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver
) -> None:
    """Else all of it would be claimed in vain each time that the dead host may be probed."""
    old = repointed(database, receiver, timedelta(seconds=5), 20, timedelta(hours=-1))
    lead_elsewhere(process, receiver)
    attempts, deliveries = Attempts(process), Deliveries(catalog_of(database), loop, database, process)
    deliveries.start([attempts.next() for _ in old])
    assert process.finalizer.flush(60)
    found = [rows.execution(database, one) for one in old]
    assert {(row.status, row.attempt_count) for row in found} == {("QUEUED", 0)}
    assert min(row.run_at for row in found) > rows.database_now(database) + timedelta(minutes=4)
    assert len({row.run_at for row in found}) == len(found), "nor all at once"
    assert database.fetch(text("SELECT 1 FROM execution_events")) == []


def test_one_of_the_backlog_of_a_host_that_was_given_up_is_the_probe(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver
) -> None:
    old = repointed(database, receiver, timedelta(0), 5, timedelta(hours=-1))
    lead_elsewhere(process, receiver)
    attempts, deliveries = Attempts(process), Deliveries(catalog_of(database), loop, database, process)
    deliveries.start([attempts.next() for _ in old])
    eventually(lambda: [one for one in old if rows.attempts(database, one)], what="a probe")
    assert process.finalizer.flush(60)
    later = [one for one in old if rows.execution(database, one).run_at > rows.database_now(database)]
    assert len(later) == len(old) - 1


def test_what_is_left_for_a_host_that_was_given_up_ends_once_it_is_too_late(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver
) -> None:
    """Each time it is put off it is due anew."""
    (old,) = repointed(database, receiver, timedelta(hours=1), 1, timedelta(hours=-1))
    database.fetch(text("UPDATE executions SET run_at = now(), expires_at = now() - INTERVAL '59 minutes'"))
    lead_elsewhere(process, receiver)
    Deliveries(catalog_of(database), loop, database, process).start([Attempts(process).next()])
    assert process.finalizer.flush(60)
    assert rows.execution(database, old).status == "FAILED"
    assert rows.attempts(database, old)[0].error["type"] == "RETRY_TOO_LATE"


def test_execution_that_was_deferred_for_an_abandoned_host_is_as_old_as_it_was(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver
) -> None:
    """It is due anew each time, and that host may have recovered meanwhile."""
    host = f"localhost:{receiver.base_url.rpartition(':')[2]}"
    (old,) = repointed(database, receiver, timedelta(hours=1), 1, timedelta(seconds=-10), host)
    policy = "UPDATE endpoint_versions SET retry_policy = '{\"max_age_ms\": 60000}' WHERE endpoint = 'moved'"
    database.fetch(text(policy))
    database.fetch(text("UPDATE executions SET expires_at = run_at + INTERVAL '1 minute'"))
    lead_elsewhere(process, receiver, host)
    attempts, deliveries = Attempts(process), Deliveries(catalog_of(database), loop, database, process)
    attempt = attempts.next()
    deliveries.start([attempt])
    assert process.finalizer.flush(60)
    row = rows.execution(database, old)
    assert (row.status, row.expires_at) == ("QUEUED", row.scheduled_at + timedelta(minutes=1))
    assert row.run_at < row.expires_at + timedelta(seconds=2), "not deferred for longer than it may wait"
    assert database.fetch(text("SELECT reason FROM execution_events")) == []
    database.fetch(text("UPDATE executions SET run_at = now(), expires_at = now() - INTERVAL '1 second'"))
    close(database, f"http:{host}", "somebody")
    eventually(lambda: not attempt.target.is_open)
    deliveries.start([attempts.next()])
    eventually(lambda: rows.execution(database, old).status in {"FAILED", "SUCCESS"})
    assert [tried.error and tried.error["type"] for tried in rows.attempts(database, old)] == ["RETRY_TOO_LATE"]
