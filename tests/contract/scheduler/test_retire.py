"""Retiring finished one-shot jobs: the safety net."""

import itertools
import re

import pytest
from sqlalchemy import TextClause, text

from app.kernel.db import Database
from app.queue.executions.repairs import RETIRE, UNFINISHED
from tests import rows
from tests.contract.scheduler.conftest import chores
from tests.cron_jobs import add_cron_job, job


def finished(database: Database, count: int = 1) -> list[str]:
    """Create executions that ended without their jobs being retired."""
    executions = rows.add_executions(database, count)
    database.fetch(text("UPDATE executions SET status = 'SUCCESS', completed_at = now() WHERE status = 'QUEUED'"))
    database.fetch(text("UPDATE jobs SET created_at = now() - INTERVAL '2 minutes'"))
    return executions


def test_a_job_whose_execution_is_final_is_retired(database: Database) -> None:
    (execution_id,) = finished(database)
    assert chores(database).retire()["retired"] == 1
    row = rows.job_of(database, execution_id)
    assert (row.status, row.retired_at is None) == ("RETIRED", False)
    assert chores(database).retire()["retired"] == 0


@pytest.mark.parametrize("status", ["PENDING", "QUEUED", "RUNNING", "RETRYING"])
def test_a_job_with_something_to_do_stays_active(database: Database, status: str) -> None:
    (execution_id,) = finished(database)
    query = (
        "UPDATE executions SET status = :status, completed_at = NULL, attempt_count = 1, worker_id = 'wrk_1', "
        "started_at = now()"
    )
    database.fetch(text(query), {"status": status})
    assert chores(database).retire()["retired"] == 0
    assert rows.job_of(database, execution_id).status == "ACTIVE"


def test_a_job_of_this_minute_may_still_get_its_execution(database: Database) -> None:
    rows.add_executions(database)
    database.fetch(text("DELETE FROM executions"))
    assert chores(database).retire()["retired"] == 0
    database.fetch(text("UPDATE jobs SET created_at = now() - INTERVAL '2 minutes'"))
    assert chores(database).retire()["retired"] == 1


def test_cron_jobs_are_not_retired_here(database: Database) -> None:
    job_id = add_cron_job(database)
    database.fetch(text("UPDATE jobs SET created_at = now() - INTERVAL '2 minutes'"))
    assert chores(database).retire()["retired"] == 0
    assert job(database, job_id).status == "ACTIVE"


def test_the_walk_is_bounded_goes_on_where_it_ended_and_begins_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.scheduler.repairs_chore.STRETCH", 20)
    monkeypatch.setattr("app.scheduler.repairs_chore.RUN_SECONDS", 0.0)
    finished(database, 45)
    walk = chores(database)
    assert [walk.retire()["retired"] for _ in range(4)] == [20, 20, 5, 0]
    finished(database, 5)
    assert sum(walk.retire()["retired"] for _ in range(4)) == 5  # wherever their ids fall


def test_the_walk_begins_with_the_newest_jobs_after_a_restart(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.scheduler.repairs_chore.STRETCH", 10)
    monkeypatch.setattr("app.scheduler.repairs_chore.RUN_SECONDS", 0.0)
    executions = finished(database, 30)
    newest = rows.job_of(database, executions[12]).job_id
    database.fetch(
        text("UPDATE jobs SET created_at = created_at - INTERVAL '1 day' WHERE job_id <> :id"), {"id": newest}
    )
    assert chores(database).retire()["retired"] == 10
    database.fetch(text("UPDATE jobs SET status = 'ACTIVE', retired_at = NULL WHERE job_id = :id"), {"id": newest})
    assert chores(database).retire()["retired"] == 1


@pytest.mark.postgresql_only
@pytest.mark.parametrize(
    ("statement", "analyzed"),
    [*itertools.product([UNFINISHED, RETIRE], ["of a drained queue", "now"]), (RETIRE, "never")],
)
def test_what_is_open_is_looked_up_by_its_key(database: Database, statement: TextClause, analyzed: str) -> None:
    """And not in all executions, or in all that wait, whatever the statistics."""
    finished(database, 1_000)
    if analyzed == "of a drained queue":
        database.fetch(text("ANALYZE"))
    rows.add_executions(database, 4_000)
    if analyzed == "now":
        database.fetch(text("ANALYZE"))
    jobs = [row.job_id for row in database.fetch(text("SELECT job_id FROM jobs ORDER BY job_id DESC LIMIT 20"))]
    with database.engine.connect() as connection:
        plan = "\n".join(connection.execute(text(f"EXPLAIN {statement.text}"), {"jobs": jobs}).scalars())
    scans, by_key = re.findall(r"(?:Index|Only|Seq) Scan ", plan), re.findall(r"Index Cond: \(+job_id = ", plan)
    assert len(scans) == len(by_key), plan
