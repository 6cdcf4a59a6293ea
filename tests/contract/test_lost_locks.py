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

from app.db import Database
from app.errors import ConflictError
from app.executions import claim, exhaust, hold, promote, workers
from app.jobs import run
from tests import rows
from tests.contract.racing import schedulers
from tests.waiting import eventually

WORKER = "wrk_1"
LOCK_CLAUSE = re.compile(r"\bFOR UPDATE( SKIP LOCKED)?")
Statement = tuple[ModuleType, str]
CLAIM, PROMOTE, HOLD = (claim, "CLAIM"), (promote, "PROMOTE"), (hold, "HOLD")
EXHAUST, FORWARD = (exhaust, "EXHAUSTED"), (run, "BRING_FORWARD")
CANCELLED = "status = 'CANCELLED', completed_at = now()"
TAKEN = "status = 'RUNNING', started_at = now(), worker_id = 'wrk_other', attempt_count = attempt_count + 1"
LATER = "run_at = now() + INTERVAL '1 hour'"

# The statement, the state in which it finds the row, and what becomes of the row before it can change it.
CHANGES: list[tuple[Statement, str, str]] = [
    (CLAIM, "QUEUED", TAKEN),
    (CLAIM, "QUEUED", CANCELLED),
    (CLAIM, "QUEUED", LATER),
    (CLAIM, "QUEUED", "attempt_count = max_attempts"),
    (PROMOTE, "PENDING", CANCELLED),
    (PROMOTE, "PENDING", LATER),
    (PROMOTE, "PENDING", "on_hold = true"),
    (HOLD, "QUEUED", TAKEN),
    (HOLD, "QUEUED", CANCELLED),
    (EXHAUST, "QUEUED", CANCELLED),
    (EXHAUST, "QUEUED", "max_attempts = max_attempts + 1"),
    (FORWARD, "PENDING", TAKEN),
    (FORWARD, "PENDING", CANCELLED),
]


def verb(database: Database, name: str, job_id: str) -> Callable[[], object]:
    return {
        "CLAIM": lambda: claim.claim(database, queue="http", shard=0, worker_id=WORKER, limit=9, ahead_ms=0),
        "PROMOTE": lambda: promote.promote(database, shard=0, ahead_ms=0, limit=9),
        "EXHAUSTED": lambda: exhaust.fail_exhausted(database, limit=9),
        "HOLD": lambda: database.transact(lambda connection: hold.hold(connection, job_id, None)),
        "BRING_FORWARD": lambda: run.run(database, job_id, None, 1),
    }[name]


def is_waiting(database: Database) -> bool:
    waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    return bool(database.fetch(text(waiting)))


@pytest.mark.parametrize("level", ["read committed", "serializable"])
@pytest.mark.parametrize(
    ("statement", "status", "change"), CHANGES, ids=[f"{name}: {change[:24]}" for (_, name), _, change in CHANGES]
)
def test_it_stays_as_it_became(
    database: Database,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    level: str,
    statement: Statement,
    status: str,
    change: str,
) -> None:
    if database.is_cockroach:
        pytest.skip("needs to see who waits for a lock")
    module, name = statement
    monkeypatch.setattr(module, name, text(LOCK_CLAUSE.sub("", getattr(module, name).text)))
    workers.register(database, worker_id=WORKER, host="h", pid=1, queues=["http"], capacity=9, lease_ms=600_000)
    (execution_id,) = rows.add_executions(database, status=status, due_in=-timedelta(minutes=2), max_attempts=2)
    if name == "EXHAUSTED":
        database.fetch(text("UPDATE executions SET attempt_count = max_attempts"))

    def act() -> None:
        with suppress(ConflictError):
            verb(ours, name, rows.job_of(database, execution_id).job_id)()

    with schedulers(database_url, level, 1) as (ours,), database.engine.connect() as other:
        other.execute(text(f"UPDATE executions SET {change}"))
        changed = other.execute(text("SELECT * FROM executions")).one()
        thread = threading.Thread(target=act)
        thread.start()
        eventually(lambda: is_waiting(database), what=f"{name} to wait for the row")
        other.commit()
        thread.join(60)
    assert not thread.is_alive()
    assert rows.execution(database, execution_id) == changed
