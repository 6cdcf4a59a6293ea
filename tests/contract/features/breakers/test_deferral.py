"""Deferred executions wait for minutes, keep their age, and fail once `max_age_ms` has passed."""

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


def no_dispatchers() -> Dispatchers:
    raise AssertionError


def add_undecryptable(database: Database, *, max_age_ms: int, due_in: timedelta = timedelta(0)) -> list[str]:
    """Add an execution of an endpoint that needs a secret; no process has the key of the secret."""
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
    ids=["first attempt", "retry", "tick caught up late", "manual retry"],
)
def test_repeatedly_deferred_execution_fails_once_it_has_expired(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, begins: str, status: str
) -> None:
    """Each deferral moves the due time, so without `expires_at` the execution would wait for ever."""
    (execution_id,) = add_undecryptable(database, max_age_ms=60_000)
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


def test_execution_is_not_deferred_beyond_its_expiry(database: Database, process: WorkerProcess) -> None:
    (execution_id,) = add_undecryptable(database, max_age_ms=3_601_000, due_in=timedelta(hours=-1))
    attempt = claimed(process)
    Deliveries(catalog_of(database), DeliveryLoop(no_dispatchers), database, process).start([attempt])
    assert process.finalizer.flush(60)
    row = rows.execution(database, execution_id)
    assert row.status == "QUEUED"
    assert row.run_at < rows.database_now(database) + timedelta(minutes=1)


def test_deferred_first_attempt_keeps_its_age(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver
) -> None:
    """The execution is due now, but its age counts from its first due time."""
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


def add_endpoint_with_new_target(
    database: Database, receiver: Receiver, open_for: timedelta, count: int, due_in: timedelta, host: str = DEAD
) -> list[str]:
    """Add an endpoint with executions for a dead host, and a newest version that resolves to the receiver.

    Returns the ids of the executions for the dead host.
    """
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


def bind_new_target(process: WorkerProcess, receiver: Receiver, host: str = DEAD) -> None:
    """Let a process read the open breaker of the dead host and bind the newest version to the receiver."""
    process.bindings.bind("moved", f"http:{host}", 30_000, has_turns=True)
    eventually(process.bindings.behind_open, what="the process to read the open breaker")
    name = f"http:127.0.0.1:{receiver.base_url.rpartition(':')[2]}"
    process.bindings.bind("moved", name, 30_000, has_turns=True, as_of=(2, 0))


def test_backlog_of_an_abandoned_host_is_deferred_for_minutes(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver
) -> None:
    """Otherwise the whole backlog would be claimed in vain at each probe of the dead host."""
    old = add_endpoint_with_new_target(database, receiver, timedelta(seconds=5), 20, timedelta(hours=-1))
    bind_new_target(process, receiver)
    attempts, deliveries = Attempts(process), Deliveries(catalog_of(database), loop, database, process)
    deliveries.start([attempts.next() for _ in old])
    assert process.finalizer.flush(60)
    found = [rows.execution(database, each) for each in old]
    assert {(row.status, row.attempt_count) for row in found} == {("QUEUED", 0)}
    assert min(row.run_at for row in found) > rows.database_now(database) + timedelta(minutes=4)
    assert len({row.run_at for row in found}) == len(found), "the executions are due at different times"
    assert database.fetch(text("SELECT 1 FROM execution_events")) == []


def test_one_execution_of_the_backlog_of_an_abandoned_host_is_the_probe(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver
) -> None:
    old = add_endpoint_with_new_target(database, receiver, timedelta(0), 5, timedelta(hours=-1))
    bind_new_target(process, receiver)
    attempts, deliveries = Attempts(process), Deliveries(catalog_of(database), loop, database, process)
    deliveries.start([attempts.next() for _ in old])
    eventually(lambda: [each for each in old if rows.attempts(database, each)], what="a probe")
    assert process.finalizer.flush(60)
    later = [each for each in old if rows.execution(database, each).run_at > rows.database_now(database)]
    assert len(later) == len(old) - 1


def test_execution_for_an_abandoned_host_fails_once_it_has_expired(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver
) -> None:
    """Each deferral moves the due time, but not the expiry."""
    (old,) = add_endpoint_with_new_target(database, receiver, timedelta(hours=1), 1, timedelta(hours=-1))
    database.fetch(text("UPDATE executions SET run_at = now(), expires_at = now() - INTERVAL '59 minutes'"))
    bind_new_target(process, receiver)
    Deliveries(catalog_of(database), loop, database, process).start([Attempts(process).next()])
    assert process.finalizer.flush(60)
    assert rows.execution(database, old).status == "FAILED"
    assert rows.attempts(database, old)[0].error["type"] == "RETRY_TOO_LATE"


def test_execution_deferred_for_an_abandoned_host_keeps_its_age(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver
) -> None:
    """Each deferral moves the due time, and the host may have recovered in the meantime."""
    host = f"localhost:{receiver.base_url.rpartition(':')[2]}"
    (old,) = add_endpoint_with_new_target(database, receiver, timedelta(hours=1), 1, timedelta(seconds=-10), host)
    policy = "UPDATE endpoint_versions SET retry_policy = '{\"max_age_ms\": 60000}' WHERE endpoint = 'moved'"
    database.fetch(text(policy))
    database.fetch(text("UPDATE executions SET expires_at = run_at + INTERVAL '1 minute'"))
    bind_new_target(process, receiver, host)
    attempts, deliveries = Attempts(process), Deliveries(catalog_of(database), loop, database, process)
    attempt = attempts.next()
    deliveries.start([attempt])
    assert process.finalizer.flush(60)
    row = rows.execution(database, old)
    assert (row.status, row.expires_at) == ("QUEUED", row.scheduled_at + timedelta(minutes=1))
    assert row.run_at < row.expires_at + timedelta(seconds=2), "deferred at most until its expiry"
    assert database.fetch(text("SELECT reason FROM execution_events")) == []
    database.fetch(text("UPDATE executions SET run_at = now(), expires_at = now() - INTERVAL '1 second'"))
    close(database, f"http:{host}", "somebody")
    eventually(lambda: not attempt.target.is_open)
    deliveries.start([attempts.next()])
    eventually(lambda: rows.execution(database, old).status in {"FAILED", "SUCCESS"})
    assert [tried.error and tried.error["type"] for tried in rows.attempts(database, old)] == ["RETRY_TOO_LATE"]
