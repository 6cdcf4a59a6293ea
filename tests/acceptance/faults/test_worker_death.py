"""Workers that die, freeze, or are asked to leave."""

import os
import signal
from typing import Any

import pytest
from sqlalchemy import text

from app.dev.process.child import family, signal_all
from app.dev.receiver import Receiver
from app.dev.stack import programs
from app.dev.stack.runner import Stack
from app.kernel.db import Database
from tests import rows
from tests.acceptance.limits import ENDED_SECONDS, SHORT_LEASE
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance


def target(
    database: Database, receiver: Receiver, path: str, name: str = "target", policy: dict[str, Any] | None = None
) -> str:
    spec = {"url": f"{receiver.base_url}{path}", "method": "POST", "timeout_ms": 60_000}
    return rows.add_endpoint(database, name, spec=spec, retry_policy=policy)


def test_a_killed_workers_execution_runs_elsewhere_or_fails_where_its_policy_says_so(
    database: Database, stack: Stack, receiver: Receiver
) -> None:
    """Invariants 4 and 6: taken back after the worker timeout, numbered without gaps, same idempotency key."""
    path, last_path = "/held/killed-worker", "/hang/last-attempt"
    target(database, receiver, path)
    target(database, receiver, last_path, "last", {"fail_on": ["WORKER_LOST"]})
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
def test_a_failure_whose_worker_is_killed_before_anything_follows_has_one_dead_letter(
    database: Database, stack: Stack, receiver: Receiver
) -> None:
    target(database, receiver, "/status/400")
    victim = stack.worker(**SHORT_LEASE)
    with database.engine.connect() as other, other.begin():
        other.execute(text("LOCK TABLE dead_letters IN EXCLUSIVE MODE"))
        (execution_id,) = rows.add_executions(database)
        eventually(lambda: rows.statuses(database) == {"FAILED": 1}, what="the failure")
        eventually(lambda: rows.is_a_lock_waited_for(database), what="the worker that is about to leave the letter")
        victim.kill()
    stack.scheduler(**SHORT_LEASE)
    letters = text("SELECT execution_id, error_type FROM dead_letters")
    eventually(lambda: bool(database.fetch(letters)), what="the letter")
    assert [tuple(row) for row in database.fetch(letters)] == [(execution_id, "HTTP_ERROR")]
    assert database.fetch(text("SELECT count(*) AS n FROM execution_ends"))[0].n == 0


def test_what_a_killed_worker_had_claimed_and_not_sent_is_delivered_all_the_same(
    database: Database, stack: Stack, receiver: Receiver
) -> None:
    """With the default policy, which allows one attempt: it is counted at the claim, and nothing had been sent.

    That endpoints share the two connections to a host shows when their first deliveries are prepared.
    """
    path = "/held/claimed-unsent"
    endpoints = [target(database, receiver, path, f"target-{number}") for number in range(16)]
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
    ends = database.fetch(
        text("SELECT attempt_number, error->>'type' AS type, count(*) AS n FROM attempts GROUP BY 1, 2")
    )
    lost = {(row.attempt_number, row.type): row.n for row in ends}
    assert lost.pop((1, "WORKER_LOST")) == claimed == lost.pop((2, None))
    assert set(lost) <= {(1, None)}


def test_a_frozen_worker_that_wakes_after_its_lease_changes_nothing(
    database: Database, stack: Stack, receiver: Receiver
) -> None:
    path = "/held/woken-too-late"
    target(database, receiver, path)
    victim = stack.worker(**SHORT_LEASE)
    stack.scheduler(**SHORT_LEASE)
    (execution_id,) = rows.add_executions(database, max_attempts=3)
    receiver.wait_for(1, path=path)
    pids = family(victim.pid)
    signal_all(pids, signal.SIGSTOP)
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
def test_term_finishes_what_was_sent_and_hands_the_rest_back(
    database: Database, stack: Stack, receiver: Receiver, to_group: bool
) -> None:
    """honcho and systemd send TERM to the group, and Dramatiq forwards it: the children get it twice."""
    path = f"/slow/300/term-{to_group}"
    target(database, receiver, path)
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


def test_a_worker_waits_for_its_database_and_then_gives_up(stack: Stack) -> None:
    away = "postgresql://nobody:hunter2@127.0.0.1:1/none"
    worker = stack.launch("worker", programs.worker(processes=1), TE_DATABASE_URL=away, TE_STARTUP_TIMEOUT_SEC="1")
    assert worker.wait(ENDED_SECONDS) not in {None, 0}
    said = worker.log.read_text()
    assert "waiting for the database" in said
    assert "gave up after 1 s" in said
    assert "Connection refused" in said, "the reason that the driver gave"
    assert "hunter2" not in said
    assert "Traceback" not in said


def test_a_worker_whose_user_may_not_write_ends_and_says_so(stack: Stack, database: Database) -> None:
    """Dramatiq would log it and go on with a worker that never claims."""
    if database.is_cockroach:
        pytest.skip("an insecure cluster knows no passwords")
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


def test_dramatiqs_own_queue_option_works(database: Database, stack: Stack, receiver: Receiver) -> None:
    path = "/ok/queues"
    target(database, receiver, path)
    stack.worker("-Q", "kafka", threads=1)
    (execution_id,) = rows.add_executions(database)
    (row,) = database.fetch(text("SELECT queues FROM workers"))
    assert row.queues == ["kafka"]
    stack.worker("-Q", "http", threads=1)
    eventually(lambda: rows.execution(database, execution_id).status == "SUCCESS")
