"""A row that changes after it was chosen: the UPDATE decides by what it finds, not the lock that was to keep it.

The lock clause is taken out, and the change is committed while the statement waits for the row.
"""

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from types import ModuleType

import pytest
from sqlalchemy import text

from app import workers
from app.db import Database
from app.errors import ConflictError, ExecutionNotCancellableError
from app.executions import cancellation, claim, paused, promotion, retry, sweep
from app.jobs import run_now
from tests import rows
from tests.contract.store.racing import schedulers
from tests.waiting import eventually

WORKER = "wrk_1"
LOCK_CLAUSE = re.compile(r"\bFOR UPDATE( SKIP LOCKED)?")

# Where the lock clause is that each verb relies on.
LOCKS: dict[str, tuple[ModuleType, str]] = {
    "claim": (claim, "CLAIM"),
    "promote": (promotion, "PROMOTE"),
    "exhaust": (sweep, "EXHAUSTED"),
    "hold": (paused, "HOLD"),
    "bring forward": (run_now, "BRING_FORWARD"),
    "cancel": (cancellation, "LOCK"),
    "ask to cancel": (cancellation, "LOCK"),
    "cancel the job's": (cancellation, "LOCK_OF_JOB"),
    "retry": (retry, "LOCK"),
}

QUEUED, PENDING = "status = 'QUEUED'", "status = 'PENDING'"
RUNNING = "status = 'RUNNING', started_at = now(), worker_id = 'wrk_other', attempt_count = 1"
FAILED = "status = 'FAILED', completed_at = now()"
CANCELLED = "status = 'CANCELLED', completed_at = now()"
LATER = "run_at = now() + INTERVAL '1 hour'"
USED_UP = "attempt_count = max_attempts"

# The verb, the row that it finds, and what becomes of it before the verb can change it.
CHANGES: list[tuple[str, str, str]] = [
    ("claim", QUEUED, RUNNING),
    ("claim", QUEUED, CANCELLED),
    ("claim", QUEUED, LATER),
    ("claim", QUEUED, USED_UP),
    ("promote", PENDING, CANCELLED),
    ("promote", PENDING, LATER),
    ("promote", PENDING, "on_hold = true"),
    ("exhaust", USED_UP, CANCELLED),
    ("exhaust", USED_UP, "max_attempts = max_attempts + 1"),
    ("hold", QUEUED, RUNNING),
    ("hold", QUEUED, CANCELLED),
    ("bring forward", PENDING, RUNNING),
    ("bring forward", PENDING, CANCELLED),
    ("cancel", QUEUED, RUNNING),
    ("ask to cancel", RUNNING, FAILED),
    ("cancel the job's", QUEUED, RUNNING),
    ("retry", FAILED, f"{RUNNING}, completed_at = NULL"),
]


def verb(database: Database, name: str, execution_id: str, job_id: str) -> Callable[[], object]:
    return {
        "claim": lambda: claim.claim_batch(database, queue="http", shard=0, worker_id=WORKER, limit=9, ahead_ms=0),
        "promote": lambda: promotion.promote(database, shard=0, ahead_ms=0, limit=9),
        "exhaust": lambda: sweep.fail_exhausted(database, limit=9),
        "hold": lambda: database.transact(lambda one: paused.hold(one, job_id, None)),
        "bring forward": lambda: run_now.run_job(database, job_id, None, 1),
        "cancel": lambda: cancellation.cancel_execution(database, execution_id, ask_running=False, actor=None),
        "ask to cancel": lambda: cancellation.cancel_execution(database, execution_id, ask_running=True, actor=None),
        "cancel the job's": lambda: database.transact(
            lambda one: cancellation.cancel_executions_of(one, job_id, actor=None)
        ),
        "retry": lambda: retry.retry_execution(database, execution_id, actor=None),
    }[name]


@pytest.mark.parametrize("level", ["read committed", "serializable"])
@pytest.mark.parametrize(
    ("name", "found", "change"), CHANGES, ids=[f"{name}: {change.split(',')[0]}" for name, _, change in CHANGES]
)
def test_it_stays_as_it_became(
    database: Database,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    level: str,
    name: str,
    found: str,
    change: str,
) -> None:
    if database.is_cockroach:
        pytest.skip("needs to see who waits for a lock")
    module, statement = LOCKS[name]
    unlocked, clauses = LOCK_CLAUSE.subn("", getattr(module, statement).text)
    assert clauses == 1
    monkeypatch.setattr(module, statement, text(unlocked))
    workers.register(database, worker_id=WORKER, host="h", pid=1, queues=["http"], capacity=9, lease_ms=600_000)
    (execution_id,) = rows.add_executions(database, due_in=-timedelta(minutes=2), max_attempts=2)
    database.fetch(text(f"UPDATE executions SET {found}"))
    job_id = rows.job_of(database, execution_id).job_id

    def act() -> None:
        with suppress(ConflictError, ExecutionNotCancellableError):
            verb(ours, name, execution_id, job_id)()

    with schedulers(database_url, level, 1) as (ours,), database.engine.connect() as other:
        other.execute(text(f"UPDATE executions SET {change}"))
        changed = other.execute(text("SELECT * FROM executions")).one()
        thread = threading.Thread(target=act)
        thread.start()
        eventually(lambda: rows.is_a_lock_waited_for(database), what=f"{name} to wait for the row")
        other.commit()
        thread.join(60)
    assert not thread.is_alive()
    assert rows.execution(database, execution_id) == changed
