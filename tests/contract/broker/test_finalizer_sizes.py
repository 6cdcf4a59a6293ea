"""Large results: the finalizer bounds the size of a statement, and an oversized result delays no other result."""

from contextlib import closing
from urllib.parse import urlsplit

import pytest
from sqlalchemy import text

from app.kernel import db
from app.kernel.db import Database
from tests import rows
from tests.contract.broker.finalizing import Run, locked
from tests.pg_proxy import PgProxy
from tests.waiting import eventually

# The largest message that CockroachDB accepts; PostgreSQL accepts 1 GB.
MAX_COCKROACH_BYTES = 16 * 1024 * 1024


@pytest.mark.postgresql_only
def test_no_statement_is_larger_than_the_database_accepts(database: Database, database_url: str, run: Run) -> None:
    body = {"status_code": 200, "body": "\u00e9'\\" * 5000}
    with (
        PgProxy(urlsplit(database_url).port or 5432, largest=MAX_COCKROACH_BYTES) as proxy,
        closing(db.connect(proxy.url(database_url), pool_size=2, application_name="te-own")) as proxied,
    ):
        running = run(proxied)
        claims = running.claim(500)
        with locked(database, claims[0]):  # the other 499 results queue up for one statement
            running.end(claims[0])
            eventually(lambda: rows.is_a_lock_waited_for(database))
            running.end(*claims[1:], output=body)
        assert running.finalizer.flush(60)
        assert rows.statuses(database) == {"SUCCESS": 500}
        assert proxy.longest < MAX_COCKROACH_BYTES / 2
        running.finalizer.stop(60)


def test_oversized_result_delays_no_other_result(database: Database, database_url: str, run: Run) -> None:
    with (
        PgProxy(urlsplit(database_url).port or 5432, largest=100_000) as proxy,
        closing(db.connect(proxy.url(database_url), pool_size=2, application_name="te-own")) as proxied,
    ):
        running = run(proxied)
        large, *others = running.claim(40)
        running.end(large, output={"body": "x" * 100_000})
        running.end(*others)
        running.wait_for(*others)
        eventually(lambda: running.finalizer.pending() == {large.key}, what="the answers to all other writes")
        taken = text("UPDATE executions SET worker_id = 'wrk_2' WHERE execution_id = :id")
        database.fetch(taken, {"id": large.execution_id})
        assert running.finalizer.flush(60), "the large result is dropped once its claim is lost"
        assert running.values.totals() == {
            "worker_jobs_completed_total": 39,
            "tasks_executed_total": 39,
            "worker_stale_results_total": 1,
        }
        running.finalizer.stop(60)
