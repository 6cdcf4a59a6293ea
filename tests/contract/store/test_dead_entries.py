"""Dead index entries of finished executions, kept by a long snapshot: reads in time order skip the entries."""

import os
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

import pytest
from sqlalchemy import TextClause, text

from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.queue.claiming.claim import CLAIM_1
from app.queue.claiming.poll import POLL_16, PROBED, poll
from app.queue.executions.materialization import DUE
from app.queue.executions.promotion import PROMOTE
from app.queue.executions.watermark import SLACK
from tests import rows
from tests.cases import each_case
from tests.claiming import asking
from tests.contract.blocks import blocks

DEAD = int(os.environ.get("TE_TEST_DEAD_ENTRIES", "4000"))
SHARDS = 16


@pytest.fixture
def dead(database: Database) -> Iterator[Database]:
    """A database where a snapshot keeps the dead entries of many finished executions and ticks of the last hour."""
    if database.is_cockroach:
        pytest.skip("counts blocks, which only PostgreSQL reports")
    rows.add_executions(database, DEAD, shards=SHARDS)
    rows.analyze(database)
    due = "now() - INTERVAL '1 minute' - CAST(n AS BIGINT) * INTERVAL '1 millisecond'"
    numbered = "(SELECT execution_id, row_number() OVER (ORDER BY execution_id) AS n FROM executions) AS numbered"
    spread = f"FROM {numbered} WHERE numbered.execution_id = executions.execution_id"
    database.fetch(text(f"UPDATE executions SET run_at = {due}, status = 'PENDING' {spread}"))
    database.fetch(text("UPDATE executions SET status = 'QUEUED' WHERE shard % 2 = 0"))
    spread = (
        f"FROM {numbered} JOIN executions AS e ON e.execution_id = numbered.execution_id WHERE jobs.job_id = e.job_id"
    )
    tick = f"trigger_type = 'INTERVAL', interval_ms = 1000, cron_next_run_at = {due}"
    database.fetch(text(f"UPDATE jobs SET {tick} {spread}"))
    with database.engine.connect() as other:
        other.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        other.execute(text("SELECT 1 FROM executions LIMIT 1"))
        database.fetch(text("UPDATE executions SET status = 'SUCCESS', completed_at = now()"))
        database.fetch(text("UPDATE jobs SET cron_next_run_at = now() + INTERVAL '1 hour'"))
        database.fetch(text("ANALYZE executions"))
        database.fetch(text("ANALYZE jobs"))
        yield database


def parameters(since: datetime) -> Mapping[TextClause, dict[str, object]]:
    polled = {"queue": "http", "first": 0, "horizon_ms": 250}
    return {
        CLAIM_1: asking("wrk_x", 50, since=since),
        POLL_16: polled | {f"since_{number}": since for number in range(PROBED)},
        PROMOTE: {"shard": 1, "ahead_ms": 5000, "limit": 500, "since": since},
        DUE: {"ahead_ms": 5000, "limit": 100, "after_run_at": since, "after_job": ""},
    }


@each_case("statement", [CLAIM_1, POLL_16, PROMOTE, DUE], ids=["claim", "poll", "promote", "ticks"])
def test_read_from_the_watermark_passes_no_dead_entries(dead: Database, statement: TextClause) -> None:
    scanned = blocks(dead, statement, parameters(EPOCH)[statement])
    read = blocks(dead, statement, parameters(rows.database_now(dead) - SLACK)[statement])
    print(f"{DEAD} dead entries: {scanned} blocks from the start, {read} from the watermark")
    assert read * 10 < scanned


def test_due_execution_is_found_from_the_watermark(dead: Database) -> None:
    (execution_id,) = rows.add_executions(dead, due_in=timedelta(seconds=-1))
    answer = poll(dead, queue="http", since=[rows.database_now(dead) - SLACK], horizon_ms=0)
    assert [due.run_at for due in answer.due] == [rows.execution(dead, execution_id).run_at]
