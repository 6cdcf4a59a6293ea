"""Tables with many executions, and the plans that a connection has cached for its statements."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from sqlalchemy import text

from app.kernel import db
from app.kernel.db import Database
from app.kernel.processes import worker_lease
from tests import rows

WORKER = "wrk_1"
MANY = 20_000
PREPARED = text("SELECT name, parameter_types FROM pg_prepared_statements")


@pytest.fixture
def single_connection(database: Database, database_url: str) -> Iterator[Database]:
    """Pool of one connection, so that a test can read the plans of this connection."""
    worker_lease.register(database, worker_id=WORKER, host="h", pid=1, queues=["http"], capacity=9, lease_ms=600_000)
    found = db.connect(database_url, pool_size=1, application_name="te-one")
    yield found
    found.close()


def plans(single_connection: Database) -> dict[str, str]:
    """Return the cached plans of the connection by the names of the statements."""
    found = {}
    for name, types in single_connection.fetch(PREPARED):
        nothing = ", ".join(["NULL"] * len(types.strip("{}").split(",")))
        lines = single_connection.fetch(text(f"EXPLAIN EXECUTE {name}({nothing})"))
        found[name.removeprefix("te_").rpartition("_")[0]] = "\n".join(line[0] for line in lines)
    return found


def never_analysed(database: Database) -> None:
    # Keep the statistics of the state under test: no autovacuum may refresh them.
    database.fetch(text("ALTER TABLE executions SET (autovacuum_enabled = false)"))
    rows.add_executions(database, MANY)


def all_due(database: Database) -> None:
    never_analysed(database)
    database.fetch(text("ANALYZE"))


def all_delayed(database: Database) -> None:
    database.fetch(text("ALTER TABLE executions SET (autovacuum_enabled = false)"))
    rows.add_executions(database, MANY, status="PENDING", due_in=timedelta(days=1))
    database.fetch(text("ANALYZE"))


def all_completed(database: Database) -> None:
    never_analysed(database)
    database.fetch(text("UPDATE executions SET status = 'SUCCESS', completed_at = now()"))
    database.fetch(text("ANALYZE"))


def all_running(database: Database) -> None:
    """All executions run, but the statistics were gathered before any of them ran."""
    all_due(database)
    set_running = "status = 'RUNNING', worker_id = 'w', started_at = now(), attempt_count = 1"
    database.fetch(text(f"UPDATE executions SET {set_running}"))
