"""Deliveries that end before they are sent, or are sent late."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from itertools import pairwise

import pytest
from sqlalchemy import text

import tests.worker_environment  # noqa: F401 - first
from actors.deliver import Deliveries
from actors.dispatch import Dispatchers, open_dispatchers
from actors.loop import DeliveryLoop
from app.catalog.crypto import SecretBox, generate_key
from app.catalog.named_table import SECRETS
from app.dev.receiver import Receiver
from app.dev.servers import Valkey
from app.kernel import db
from app.kernel.audit import SYSTEM
from app.kernel.audit.change import AuditedChange
from app.kernel.config import Settings
from app.kernel.db import Database
from app.queue.claiming.endpoint_rules import FlowRules
from app.queue.claiming.release import MIN_DEFERRAL_MS
from brokers.attempt import Stage
from brokers.worker_process import WorkerProcess
from schema.states import EndpointType
from tests import rows
from tests.contract.broker.delivering import Attempts, catalog_of, claimed
from tests.waiting import eventually


def no_dispatchers() -> Dispatchers:
    raise AssertionError("a delivery reached the dispatchers")


@pytest.mark.parametrize("is_late", [False, True], ids=["lost", "late for a window"])
def test_delivery_of_a_lost_claim_or_an_expired_window_is_not_sent(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver, *, is_late: bool
) -> None:
    """By now another worker may be sending the same execution, or another delivery may use its place in the window."""
    path = f"/ok/lost-claim-{is_late}"
    rows.add_endpoint(database, "lost", spec={"url": receiver.url(path), "method": "POST"})
    (execution_id,) = rows.add_executions(database, endpoint="lost")
    attempt = claimed(process)
    if is_late:
        attempt.latest_at = attempt.due_at - 1
    else:
        process.shares.remove(attempt.claim.key)
    Deliveries(catalog_of(database), loop, database, process).start([attempt])
    eventually(lambda: rows.execution(database, execution_id).status != "RUNNING")
    row = rows.execution(database, execution_id)
    assert (row.status, row.attempt_count) == ("QUEUED", 0)
    assert [request for request in receiver.requests if request.path == path] == []
    # A late process gets no new claim of this endpoint yet: it would be late again. The history omits such claims.
    assert process.shares.reserve("lost", 1) == (0 if is_late else 1)
    assert len(database.fetch(text("SELECT 1 FROM execution_events"))) == (0 if is_late else 2)


@pytest.fixture
def narrow() -> Iterator[DeliveryLoop]:
    """The real dispatchers, with one connection to each host."""
    loop = DeliveryLoop(lambda: open_dispatchers(Settings(database_url="", connections_per_host=1)))
    loop.start()
    yield loop
    loop.stop()


@pytest.mark.parametrize("is_late", [False, True], ids=["in time", "late for a window"])
def test_delivery_that_waits_for_a_connection_starts_when_it_gets_the_connection(
    database: Database, process: WorkerProcess, narrow: DeliveryLoop, receiver: Receiver, *, is_late: bool
) -> None:
    path = f"/held/waits-{process.worker_id}"
    rows.add_endpoint(database, "narrow", spec={"url": receiver.url(path), "method": "POST"})
    executions = rows.add_executions(database, 2, endpoint="narrow")
    attempts = Attempts(process)
    first, second = attempts.next(), attempts.next()
    Deliveries(catalog_of(database), narrow, database, process).start([first, second])
    receiver.wait_for(1, path=path)
    eventually(lambda: second.stage is Stage.STARTED)
    if is_late:
        second.latest_at = second.started_at
    receiver.release(path)
    eventually(lambda: "RUNNING" not in rows.statuses(database))
    assert rows.statuses(database) == ({"SUCCESS": 1, "QUEUED": 1} if is_late else {"SUCCESS": 2})
    assert len([request for request in receiver.requests if request.path == path]) == 2 - is_late
    ran = sorted((row for id_ in executions for row in rows.attempts(database, id_)), key=lambda row: row.started_at)
    for before, after in pairwise(ran):
        assert after.started_at >= before.started_at + timedelta(milliseconds=before.duration_ms - 1)


LATE_RETRY = """
    UPDATE executions SET status = :status, attempt_count = 1, scheduled_at = now() - INTERVAL '1 hour',
                          expires_at = CASE WHEN NOT :is_manual THEN now() - INTERVAL '1 minute' END
    """


@pytest.mark.parametrize(
    ("status", "is_manual"),
    [("RETRYING", False), ("QUEUED", False), ("QUEUED", True)],
    ids=["planned in time", "delayed by a pause", "manual"],
)
def test_retry_beyond_its_maximum_age_is_not_sent(
    database: Database,
    process: WorkerProcess,
    loop: DeliveryLoop,
    receiver: Receiver,
    status: str,
    is_manual: bool,
) -> None:
    """Only a manual retry is sent at any age."""
    path = f"/ok/late-{status}-{is_manual}-{process.worker_id}"
    policy = {"max_attempts": 3, "max_age_ms": 60_000}
    rows.add_endpoint(database, "late", spec={"url": receiver.url(path), "method": "POST"}, retry_policy=policy)
    (execution_id,) = rows.add_executions(database, endpoint="late", max_attempts=3)
    database.fetch(text(LATE_RETRY), {"status": status, "is_manual": is_manual})
    Deliveries(catalog_of(database), loop, database, process).start([claimed(process)])
    eventually(lambda: rows.execution(database, execution_id).status != "RUNNING")
    (tried,) = rows.attempts(database, execution_id)
    assert rows.execution(database, execution_id).status == ("SUCCESS" if is_manual else "FAILED")
    assert [request.path for request in receiver.requests if request.path == path] == [path] * is_manual
    if not is_manual:
        facts = tried.error["type"], tried.error["retryable"], tried.error["may_have_been_delivered"]
        assert facts == ("RETRY_TOO_LATE", False, False)


@pytest.mark.parametrize("is_limited", [True, False], ids=["behind a limit", "in a backlog"])
def test_first_attempt_expires_behind_a_limit_but_not_in_a_backlog(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver, is_limited: bool
) -> None:
    path = f"/ok/first-{is_limited}-{process.worker_id}"
    policy = {"max_attempts": 3, "max_age_ms": 60_000}
    rows.add_endpoint(database, "late", spec={"url": receiver.url(path), "method": "POST"}, retry_policy=policy)
    if is_limited:
        database.fetch(text("UPDATE endpoints SET limits = '{\"max_in_flight\": 1}' WHERE name = 'late'"))
    process.rules = FlowRules(database)
    process.rules.refresh()
    (execution_id,) = rows.add_executions(database, endpoint="late", max_attempts=3)
    late = "scheduled_at = now() - INTERVAL '1 hour', run_at = scheduled_at, expires_at = now() - INTERVAL '59 minutes'"
    database.fetch(text(f"UPDATE executions SET {late}"))
    Deliveries(catalog_of(database), loop, database, process).start([claimed(process)])
    eventually(lambda: rows.execution(database, execution_id).status != "RUNNING")
    assert rows.execution(database, execution_id).status == ("FAILED" if is_limited else "SUCCESS")
    assert [request.path for request in receiver.requests if request.path == path] == [path] * (not is_limited)


@pytest.mark.parametrize(
    ("error", "is_marked"),
    [({"may_have_been_delivered": True}, True), ({"may_have_been_delivered": False}, False), ({}, True)],
    ids=["unknown fate", "known not to be delivered", "an error that was not stored"],
)
def test_redis_entry_whose_marker_may_have_expired_may_be_a_duplicate(
    database: Database,
    process: WorkerProcess,
    loop: DeliveryLoop,
    valkey: Valkey,
    error: dict[str, bool],
    is_marked: bool,
) -> None:
    """The previous attempt began three days ago, for example before a pause, a manual retry or an outage."""
    redis_stream, stream = EndpointType.REDIS_STREAM, f"marked-{process.worker_id}"
    fields = {"redis_url": valkey.url, "stream": stream, "fields_template": {"a": "1"}}
    rows.add_endpoint(database, "stream", type_=redis_stream, spec=fields, retry_policy={"max_attempts": 3})
    (execution_id,) = rows.add_executions(database, endpoint="stream", type_=redis_stream, max_attempts=3)
    rows.add_attempt(database, execution_id, 1, "FAILED", error=error)
    database.fetch(text("UPDATE attempts SET started_at = now() - INTERVAL '3 days'"))
    database.fetch(text("UPDATE executions SET status = 'RETRYING', attempt_count = 1"))
    Deliveries(catalog_of(database), loop, database, process).start([claimed(process, "redis_stream")])
    eventually(lambda: rows.execution(database, execution_id).status == "SUCCESS")
    assert rows.execution(database, execution_id).output.get("may_be_duplicate", False) is is_marked


def test_claim_is_released_without_a_spent_attempt_when_the_database_is_unreachable(
    database: Database, process: WorkerProcess
) -> None:
    """An unreachable database is no failure of the target. The outage may be short, so the delay is short too."""
    (execution_id,) = rows.add_executions(database, due_in=timedelta(days=-1))
    attempt = claimed(process)
    away = db.connect("postgresql://nobody@127.0.0.1:1/none", pool_size=1, application_name="te-test-away")
    with closing(away):
        Deliveries(catalog_of(away), DeliveryLoop(no_dispatchers), away, process).start([attempt])
    assert process.finalizer.flush(60)
    row = rows.execution(database, execution_id)
    assert (row.status, row.attempt_count) == ("QUEUED", 0)
    assert row.run_at < rows.database_now(database) + timedelta(minutes=1), "the delay ignores the execution's age"
    assert rows.attempts(database, execution_id) == []


@pytest.mark.parametrize("box", [None, SecretBox.from_setting(generate_key())], ids=["no key", "another key"])
def test_delivery_waits_for_a_worker_with_the_key_of_its_secret(
    database: Database, process: WorkerProcess, box: SecretBox | None
) -> None:
    """A process without the right key is an error of its operator, so the job spends no attempt."""
    stored = SecretBox.from_setting(generate_key()).encrypt("hunter2")
    SECRETS.create(database, "token", stored, AuditedChange(SYSTEM))
    rows.add_endpoint(database, "sealed", spec={"url": "https://h/{{secret.token}}", "method": "POST"})
    (execution_id,) = rows.add_executions(database, endpoint="sealed")
    attempt = claimed(process)
    Deliveries(catalog_of(database, box), DeliveryLoop(no_dispatchers), database, process).start([attempt])
    assert process.finalizer.flush(60)
    row = rows.execution(database, execution_id)
    assert (row.status, row.attempt_count) == ("QUEUED", 0)
    assert row.run_at >= attempt.claim.claimed_at + timedelta(seconds=0.8), "no worker claims the execution at once"
    assert rows.attempts(database, execution_id) == []


def test_claim_is_released_without_a_spent_attempt_when_the_database_refuses_a_read(
    database: Database, process: WorkerProcess
) -> None:
    """Missing tables or permissions are no failure of the target."""
    (execution_id,) = rows.add_executions(database)
    database.fetch(text("ALTER TABLE endpoint_versions RENAME TO elsewhere"))
    before = rows.database_now(database)
    Deliveries(catalog_of(database), DeliveryLoop(no_dispatchers), database, process).start([claimed(process)])
    assert process.finalizer.flush(60)
    row = rows.execution(database, execution_id)
    assert (row.status, row.attempt_count) == ("QUEUED", 0)
    assert row.run_at >= before + timedelta(milliseconds=MIN_DEFERRAL_MS * 0.8), "the delay prevents a busy loop"
    assert rows.attempts(database, execution_id) == []


def test_attempt_drops_its_input_once_the_request_is_built(
    database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver
) -> None:
    """Thousands of attempts may wait for answers at once, so each keeps as little memory as possible."""
    path = "/ok/input-dropped"
    rows.add_endpoint(database, "echo", spec={"url": receiver.url(path), "method": "POST"})
    (execution_id,) = rows.add_executions(database, endpoint="echo", input_={"text": "x"})
    attempt = claimed(process)
    assert attempt.claim.input == {"text": "x"}
    Deliveries(catalog_of(database), loop, database, process).start([attempt])
    assert attempt.claim.input is None
    eventually(lambda: rows.execution(database, execution_id).status == "SUCCESS")
