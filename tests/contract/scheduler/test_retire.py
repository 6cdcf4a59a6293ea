"""Repair that retires finished one-shot jobs which are still active."""

import re

import pytest
from sqlalchemy import TextClause, text

from app.kernel.db import Database
from app.queue.executions import repairs
from app.queue.executions.repairs import FINISHED, RETIRE, UNFINISHED
from tests import rows
from tests.contract.races.racing import never
from tests.contract.scheduler.conftest import chores
from tests.contract.scheduler.upkeep_rows import finished
from tests.cron_jobs import add_cron_job, job


def test_job_whose_execution_is_final_is_retired(database: Database) -> None:
    (execution_id,) = finished(database)
    assert chores(database).repair()["retired"] == 1
    row = rows.job_of(database, execution_id)
    assert (row.status, row.retired_at is None) == ("RETIRED", False)
    assert chores(database).repair()["retired"] == 0


@pytest.mark.parametrize("status", ["PENDING", "QUEUED", "RUNNING", "RETRYING"])
def test_job_with_an_unfinished_execution_stays_active(database: Database, status: str) -> None:
    (execution_id,) = finished(database)
    query = (
        "UPDATE executions SET status = :status, completed_at = NULL, attempt_count = 1, worker_id = 'wrk_1', "
        "started_at = now()"
    )
    database.fetch(text(query), {"status": status})
    assert chores(database).repair()["retired"] == 0
    assert rows.job_of(database, execution_id).status == "ACTIVE"


def test_job_without_an_execution_is_retired_after_a_minute(database: Database) -> None:
    rows.add_executions(database)
    database.fetch(text("DELETE FROM executions"))
    assert chores(database).repair()["retired"] == 0
    database.fetch(text("UPDATE jobs SET created_at = now() - INTERVAL '2 minutes'"))
    assert chores(database).repair()["retired"] == 1


def test_repair_retires_no_cron_job(database: Database) -> None:
    job_id = add_cron_job(database)
    database.fetch(text("UPDATE jobs SET created_at = now() - INTERVAL '2 minutes'"))
    assert chores(database).repair()["retired"] == 0
    assert job(database, job_id).status == "ACTIVE"


def test_finished_jobs_of_several_pages_are_retired_in_one_run(database: Database) -> None:
    finished(database, 45)
    found = repairs.finished(database, limit=1_000, stopping=never, page=20)
    assert (len(found), repairs.retire(database, found).number) == (45, 45)
    assert repairs.finished(database, limit=1_000, stopping=never, page=20) == []


def test_number_of_finished_jobs_per_run_is_limited(database: Database) -> None:
    finished(database, 45)
    assert len(repairs.finished(database, limit=30, stopping=never, page=20)) == 30


@pytest.mark.postgresql_only
@pytest.mark.parametrize(
    ("analyzed", "statements"),
    [
        ("with an empty queue", [UNFINISHED, FINISHED, RETIRE]),
        ("with a full queue", [UNFINISHED, FINISHED, RETIRE]),
        ("never", [RETIRE]),
    ],
)
def test_unfinished_executions_are_looked_up_by_job(
    database: Database, analyzed: str, statements: list[TextClause]
) -> None:
    """With any statistics, no statement scans all executions or all waiting executions."""
    finished(database, 1_000)
    if analyzed == "with an empty queue":
        database.fetch(text("ANALYZE"))
    rows.add_executions(database, 4_000)
    if analyzed == "with a full queue":
        database.fetch(text("ANALYZE"))
    jobs = [row.job_id for row in database.fetch(text("SELECT job_id FROM jobs ORDER BY job_id DESC LIMIT 20"))]
    for statement in statements:
        with database.engine.connect() as connection:
            lines = connection.execute(text(f"EXPLAIN {statement.text}"), {"jobs": jobs, "count": 20}).scalars()
            plan = "\n".join(lines)
        scans, by_key = re.findall(r"(?:Index|Only|Seq) Scan ", plan), re.findall(r"Index Cond: \(+job_id = ", plan)
        assert len(scans) == len(by_key), plan
