"""Rows that change after they were chosen: the condition of the UPDATE decides, not the row lock.

The tests remove the lock clause, and commit a change while the statement waits for the row.
"""

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from types import ModuleType

import pytest
from sqlalchemy import text

from app.features.expiry import store as expiry_store
from app.kernel.db import Database
from app.kernel.errors import ConflictError, ExecutionNotCancellableError
from app.kernel.processes import worker_lease
from app.queue.claiming import claim
from app.queue.executions import execution_cancellation, manual_retry, on_hold, promotion, repairs
from app.queue.jobs import run_now
from tests import rows
from tests.claiming import take
from tests.contract.races.racing import schedulers
from tests.waiting import eventually

WORKER = "wrk_1"
LOCK_CLAUSE = re.compile(r"\bFOR UPDATE( SKIP LOCKED)?")

Verb = Callable[[Database, str, str], object]


def do_claim(database: Database, execution_id: str, job_id: str) -> None:
    take(database, WORKER, 9)


def do_promote(database: Database, execution_id: str, job_id: str) -> None:
    promotion.promote(database, shard=0, ahead_ms=0, limit=9)


def do_exhaust(database: Database, execution_id: str, job_id: str) -> None:
    repairs.fail_exhausted(database, limit=9)


def do_expire(database: Database, execution_id: str, job_id: str) -> None:
    expiry_store.expire(database, {"endpoints": ["target"], "queues": []}, shard=0, limit=9)


def do_hold(database: Database, execution_id: str, job_id: str) -> None:
    database.transact(lambda connection: on_hold.hold(connection, job_id, None))


def do_bring_forward(database: Database, execution_id: str, job_id: str) -> None:
    run_now.run_job(database, job_id, 1)


def do_cancel(database: Database, execution_id: str, job_id: str) -> None:
    execution_cancellation.cancel_execution(database, execution_id, if_running=None, actor=None)


def do_request_cancellation(database: Database, execution_id: str, job_id: str) -> None:
    execution_cancellation.cancel_execution(
        database, execution_id, if_running=execution_cancellation.IfRunning.REQUEST, actor=None
    )


def do_cancel_executions_of_job(database: Database, execution_id: str, job_id: str) -> None:
    scope = execution_cancellation.CancellationScope(actor=None, begun=False)
    database.transact(lambda connection: execution_cancellation.cancel_executions_of(connection, job_id, scope))


def do_retry(database: Database, execution_id: str, job_id: str) -> None:
    manual_retry.retry_execution(database, execution_id, actor=None)


# Module and name of the statement with the lock clause of each verb.
LOCKS: dict[Verb, tuple[ModuleType, str]] = {
    do_claim: (claim, "CLAIM_1"),
    do_promote: (promotion, "PROMOTE"),
    do_exhaust: (repairs, "EXHAUST"),
    do_expire: (expiry_store, "EXPIRE"),
    do_hold: (on_hold, "HOLD"),
    do_bring_forward: (run_now, "BRING_FORWARD"),
    do_cancel: (execution_cancellation, "LOCK"),
    do_request_cancellation: (execution_cancellation, "LOCK"),
    do_cancel_executions_of_job: (execution_cancellation, "LOCK_OF_JOB"),
    do_retry: (manual_retry, "LOCK"),
}

QUEUED, PENDING = "status = 'QUEUED'", "status = 'PENDING'"
RUNNING = "status = 'RUNNING', started_at = now(), worker_id = 'wrk_other', attempt_count = 1"
RETRYING = "status = 'RETRYING', attempt_count = 1"
FAILED = "status = 'FAILED', completed_at = now()"
CANCELLED = "status = 'CANCELLED', completed_at = now()"
LATER = "run_at = now() + INTERVAL '1 hour'"
USED_UP = "attempt_count = max_attempts"

# Verb, state of the row that it chooses, and change of the row before the verb can update it.
CHANGES: list[tuple[Verb, str, str]] = [
    (do_claim, QUEUED, RUNNING),
    (do_claim, QUEUED, CANCELLED),
    (do_claim, QUEUED, LATER),
    (do_claim, QUEUED, USED_UP),
    (do_promote, PENDING, CANCELLED),
    (do_promote, PENDING, LATER),
    (do_promote, PENDING, "on_hold = true"),
    (do_exhaust, USED_UP, CANCELLED),
    (do_exhaust, USED_UP, "max_attempts = max_attempts + 1"),
    (do_exhaust, USED_UP, LATER),
    (do_expire, QUEUED, RUNNING),
    (do_expire, QUEUED, CANCELLED),
    (do_expire, RETRYING, "expires_at = now() + INTERVAL '1 hour'"),
    (do_hold, QUEUED, RUNNING),
    (do_hold, QUEUED, CANCELLED),
    (do_bring_forward, PENDING, RUNNING),
    (do_bring_forward, PENDING, CANCELLED),
    (do_cancel, QUEUED, RUNNING),
    (do_request_cancellation, RUNNING, FAILED),
    (do_cancel_executions_of_job, QUEUED, RUNNING),
    (do_cancel_executions_of_job, QUEUED, RETRYING),
    (do_retry, FAILED, f"{RUNNING}, completed_at = NULL"),
]


@pytest.mark.parametrize("level", ["read committed", "serializable"])
@pytest.mark.parametrize(
    ("verb", "found", "change"),
    CHANGES,
    ids=[f"{verb.__name__}: {change.split(',')[0]}" for verb, _, change in CHANGES],
)
def test_verb_does_not_overwrite_a_concurrent_change(
    database: Database,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    level: str,
    verb: Verb,
    found: str,
    change: str,
) -> None:
    if database.is_cockroach:
        pytest.skip("reads pg_stat_activity to find a transaction that waits for a lock")
    lock = LOCKS[verb]
    unlocked, clauses = LOCK_CLAUSE.subn("", getattr(*lock).text)
    assert clauses == 1
    monkeypatch.setattr(*lock, text(unlocked))
    worker_lease.register(database, worker_id=WORKER, host="h", pid=1, queues=["http"], capacity=9, lease_ms=600_000)
    (execution_id,) = rows.add_executions(database, due_in=-timedelta(minutes=2), max_attempts=2)
    database.fetch(text(f"UPDATE executions SET {found}, expires_at = now() - INTERVAL '1 minute'"))
    job_id = rows.job_of(database, execution_id).job_id

    def act() -> None:
        with suppress(ConflictError, ExecutionNotCancellableError):
            verb(ours, execution_id, job_id)

    with schedulers(database_url, level, 1) as (ours,), database.engine.connect() as other:
        other.execute(text(f"UPDATE executions SET {change}"))
        changed = other.execute(text("SELECT * FROM executions")).one()
        thread = threading.Thread(target=act)
        thread.start()
        eventually(lambda: rows.is_a_lock_waited_for(database), what=f"{verb.__name__} to wait for the row")
        other.commit()
        thread.join(60)
    assert not thread.is_alive()
    assert rows.execution(database, execution_id) == changed
