"""Cost of limits and breakers: no statement per job for an endpoint without limits and without failures."""

import threading
from typing import Any

import dramatiq
from dramatiq import Worker
from sqlalchemy import event

import tests.worker_environment  # noqa: F401 - first
from actors import build
from app.dev.receiver import Receiver
from app.kernel.config import Settings
from app.kernel.db import Database
from tests import rows
from tests.waiting import eventually

JOBS = 1000
FLOW_TABLES = ("gates", "gate_windows", "breakers", "breaker_counts", "breaker_events", "breaker_endpoints")


def test_jobs_run_no_statement_on_limiters_or_breakers(
    database: Database, database_url: str, receiver: Receiver
) -> None:
    """After the start, only `te-flow` reads limits and breakers, independent of the number of jobs."""
    rows.add_endpoint(database, "free", spec={"url": receiver.url("/ok/free"), "method": "POST"})
    rows.add_executions(database, JOBS, endpoint="free")
    broker, deliveries = build(Settings(database_url=database_url, worker_poll_interval_ms=10))
    seen: list[tuple[str, str]] = []

    @event.listens_for(broker.process.database.engine, "before_cursor_execute")
    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append((threading.current_thread().name, statement))

    dramatiq.actor(deliveries.start, broker=broker, actor_name="deliver", queue_name="http")
    worker = Worker(broker, worker_threads=2, worker_timeout=100)
    worker.start()
    eventually(lambda: rows.statuses(database) == {"SUCCESS": JOBS}, what=f"{JOBS} successes")
    worker.stop()

    about_flow = [(thread, sql) for thread, sql in seen if any(f" {table} " in f"{sql} " for table in FLOW_TABLES)]
    assert [thread for thread, _ in about_flow if thread != "te-flow"] == ["MainThread"], "one read at the start"
    assert not [sql for _, sql in about_flow if "INSERT" in sql or "UPDATE" in sql or "DELETE" in sql]
