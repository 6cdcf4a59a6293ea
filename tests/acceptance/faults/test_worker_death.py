"""Workers that are killed, frozen, or stopped by TERM."""

import os
import signal
from typing import Any

import pytest
from sqlalchemy import text

from app.dev.process.child import freeze, signal_all
from app.dev.receiver import Receiver
from app.dev.stack import programs
from app.dev.stack.runner import Stack
from app.kernel.db import Database
from app.queue.reading.attempt_rows import ALL_ATTEMPTS
from tests import rows
from tests.acceptance.limits import ENDED_SECONDS, SHORT_LEASE
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance


def add_target(
    database: Database, receiver: Receiver, path: str, name: str = "target", policy: dict[str, Any] | None = None
) -> str:
    spec = {"url": f"{receiver.base_url}{path}", "method": "POST", "timeout_ms": 60_000}
    return rows.add_endpoint(database, name, spec=spec, retry_policy=policy)


def test_execution_of_a_killed_worker_is_retried_or_fails_by_its_policy(
    database: Database, stack: Stack, receiver: Receiver
) -> None:
    """Invariants 4 and 6: reclaimed after the worker timeout, attempts without gaps, the same idempotency key."""
    path, last_path = "/held/killed-worker", "/hang/last-attempt"
    add_target(database, receiver, path)
    add_target(database, receiver, last_path, "last", {"fail_on": ["WORKER_LOST"]})
    victim = stack.worker(**SHORT_LEASE)
    stack.scheduler(**SHORT_LEASE)
    (execution_id,) = rows.add_executions(database, max_attempts=3)
    (last_id,) = rows.add_executions(database, endpoint="last", max_attempts=1)
    receiver.wait_for(1, path=path)
    receiver.wait_for(1, path=last_path)
    victim.kill()
    receiver.release(path)
    stack.worker(**SHORT_LEASE)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 1, "FAILED": 1})

    first, second = rows.attempts(database, execution_id)
    assert (first.attempt_number, first.status, first.error["type"]) == (1, "FAILED", "WORKER_LOST")
    assert first.error["may_have_been_delivered"] is True
    assert (second.attempt_number, second.status) == (2, "SUCCESS")
    assert first.worker_id != second.worker_id
    sent = receiver.wait_for(0, path=path)
    assert [r.headers["X-Task-Executor-Attempt"] for r in sent] == ["1", "2"]
    assert {r.headers["Idempotency-Key"] for r in sent} == {execution_id}

    assert [a.error["type"] for a in rows.attempts(database, last_id)] == ["WORKER_LOST"]
    assert rows.job_of(database, last_id).status == "RETIRED"


@pytest.mark.postgresql_only
def test_worker_killed_before_the_dead_letter_leaves_one_dead_letter(
    database: Database, stack: Stack, receiver: Receiver
) -> None:
    add_target(database, receiver, "/status/400")
    victim = stack.worker(**SHORT_LEASE)
    with database.engine.connect() as other, other.begin():
        other.execute(text("LOCK TABLE dead_letters IN EXCLUSIVE MODE"))
        (execution_id,) = rows.add_executions(database)
        eventually(lambda: rows.statuses(database) == {"FAILED": 1}, what="the failure")
        eventually(lambda: rows.is_a_lock_waited_for(database), what="the worker's wait for the locked table")
        victim.kill()
    stack.scheduler(**SHORT_LEASE)
    letters = text("SELECT execution_id, error_type FROM dead_letters")
    eventually(lambda: bool(database.fetch(letters)), what="the dead letter")
    assert [tuple(row) for row in database.fetch(letters)] == [(execution_id, "HTTP_ERROR")]
    assert database.fetch(text("SELECT count(*) AS n FROM execution_ends"))[0].n == 0


def test_unsent_claims_of_a_killed_worker_are_delivered(database: Database, stack: Stack, receiver: Receiver) -> None:
    """The default policy allows one attempt, which the claim counts although the worker has sent nothing.

    The worker claims for all endpoints before their deliveries share the two connections to the host.
    """
    path = "/held/claimed-unsent"
    endpoints = [add_target(database, receiver, path, f"target-{number}") for number in range(16)]
    executions = [rows.add_executions(database, 1, endpoint=endpoint, max_attempts=1)[0] for endpoint in endpoints]
    victim = stack.worker(**SHORT_LEASE, TE_CONNECTIONS_PER_HOST="2")
    stack.scheduler(**SHORT_LEASE)
    receiver.wait_for(1, path=path)
    victim.kill()
    sent = {r.headers["Idempotency-Key"] for r in receiver.wait_for(0, path=path)}
    claimed = rows.statuses(database)["RUNNING"]
    assert len(sent) < claimed
    receiver.release(path)
    stack.worker(**SHORT_LEASE)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": len(executions)})

    assert {r.headers["Idempotency-Key"] for r in receiver.wait_for(0, path=path)} == set(executions)
    attempts = database.fetch(
        text(f"SELECT attempt_number, error->>'type' AS type, count(*) AS n FROM {ALL_ATTEMPTS} AS tried GROUP BY 1, 2")
    )
    lost = {(row.attempt_number, row.type): row.n for row in attempts}
    assert lost.pop((1, "WORKER_LOST")) == claimed == lost.pop((2, None))
    assert set(lost) <= {(1, None)}


def test_frozen_worker_that_resumes_after_its_lease_changes_nothing(
    database: Database, stack: Stack, receiver: Receiver
) -> None:
    path = "/held/woken-too-late"
    add_target(database, receiver, path)
    victim = stack.worker(**SHORT_LEASE)
    stack.scheduler(**SHORT_LEASE)
    (execution_id,) = rows.add_executions(database, max_attempts=3)
    receiver.wait_for(1, path=path)
    pids = freeze(victim.pid)
    receiver.release(path)
    stack.worker(**SHORT_LEASE)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 1})
    before = rows.execution(database, execution_id)
    assert [a.status for a in rows.attempts(database, execution_id)] == ["FAILED", "SUCCESS"]
    signal_all(pids, signal.SIGCONT)
    assert victim.wait(ENDED_SECONDS) not in {None, 0}, "a worker that lost its lease exits non-zero: " + victim.tail()
    assert rows.execution(database, execution_id) == before
    assert [a.status for a in rows.attempts(database, execution_id)] == ["FAILED", "SUCCESS"]


@pytest.mark.parametrize("to_group", [False, True], ids=["to the process", "to the whole group"])
def test_term_finishes_deliveries_in_flight_and_releases_other_claims(
    database: Database, stack: Stack, receiver: Receiver, to_group: bool
) -> None:
    """honcho and systemd send TERM to the group, and Dramatiq forwards TERM, so the children get TERM twice."""
    path = f"/slow/300/term-{to_group}"
    add_target(database, receiver, path)
    worker = stack.worker(processes=2, threads=2, TE_WORKER_MAX_CONCURRENT="10")
    rows.add_executions(database, 400)
    receiver.wait_for(1, path=path)
    if to_group:
        os.killpg(worker.pid, signal.SIGTERM)
    else:
        worker.send(signal.SIGTERM)
    assert worker.wait(ENDED_SECONDS) == 0, worker.tail()

    left = rows.statuses(database)
    assert set(left) == {"QUEUED", "SUCCESS"}
    sent = sum(1 for r in receiver.wait_for(0, path=path))
    assert sent == left["SUCCESS"]
    unspent = database.fetch(text("SELECT DISTINCT attempt_count FROM executions WHERE status = 'QUEUED'"))
    assert [row.attempt_count for row in unspent] == [0]
    assert {row.status for row in database.fetch(text("SELECT status FROM workers"))} == {"DEAD"}


def test_worker_without_a_database_exits_after_the_startup_timeout(stack: Stack) -> None:
    unreachable_url = "postgresql://nobody:hunter2@127.0.0.1:1/none"
    worker = stack.launch(
        "worker", programs.worker(processes=1), TE_DATABASE_URL=unreachable_url, TE_STARTUP_TIMEOUT_SEC="1"
    )
    assert worker.wait(ENDED_SECONDS) not in {None, 0}
    output = worker.log.read_text()
    assert "waiting for the database" in output
    assert "gave up after 1 s" in output
    assert "Connection refused" in output, "the reason of the driver is missing"
    assert "hunter2" not in output
    assert "Traceback" not in output


def test_worker_whose_user_cannot_write_exits_with_a_clear_error(stack: Stack, database: Database) -> None:
    """Without this check Dramatiq would log the error and keep a worker that never claims."""
    if database.is_cockroach:
        pytest.skip("an insecure cluster has no passwords")
    url = database.engine.url
    role = f"{url.database}_weak"
    database.fetch(text(f"CREATE ROLE {role} LOGIN PASSWORD 'weak'"))
    try:
        database.fetch(text(f"GRANT SELECT ON alembic_version TO {role}"))
        weak = url.set(username=role, password="weak").render_as_string(hide_password=False)
        worker = stack.launch("worker", programs.worker(processes=1), TE_DATABASE_URL=weak)
        assert worker.wait(60) == 3
    finally:
        for words in (f"DROP OWNED BY {role}", f"DROP ROLE {role}"):
            database.fetch(text(words))
    reason = "the worker cannot start: the database refused the check: permission denied for table workers"
    assert reason in worker.log.read_text()


def test_queue_option_of_dramatiq_selects_the_queues(database: Database, stack: Stack, receiver: Receiver) -> None:
    path = "/ok/queues"
    add_target(database, receiver, path)
    stack.worker("-Q", "kafka", threads=1)
    (execution_id,) = rows.add_executions(database)
    (row,) = database.fetch(text("SELECT queues FROM workers"))
    assert row.queues == ["kafka"]
    stack.worker("-Q", "http", threads=1)
    eventually(lambda: rows.execution(database, execution_id).status == "SUCCESS")
