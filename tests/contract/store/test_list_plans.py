"""Lists that look for few rows among many find them by an index."""

import pytest
from sqlalchemy import text
from sqlalchemy.dialects import postgresql

from app.db import Database
from app.db.paging import PageRequest, newest_first
from app.executions.queries import ExecutionFilter
from app.jobs.queries import JobFilter
from schema import tables
from schema.states import ExecutionStatus, JobStatus
from tests import rows

_E, _J = tables.executions, tables.jobs


@pytest.fixture
def history(database: Database) -> Database:
    """Twenty thousand executions that succeeded, and one of each of two other states."""
    rows.add_executions(database, 20_000)
    database.fetch(
        text(
            "UPDATE executions SET status = 'SUCCESS', completed_at = now(), "
            "created_at = now() - random() * INTERVAL '1 day'"
        )
    )
    database.fetch(text("UPDATE jobs SET status = 'RETIRED', retired_at = now()"))
    (failed, _) = rows.add_executions(database, 2)
    params = {"id": failed}
    database.fetch(
        text("UPDATE executions SET status = 'FAILED', completed_at = now() WHERE execution_id = :id"), params
    )
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE executions, jobs"))
    return database


def plan(database: Database, query: object) -> str:
    sql = str(query.compile(dialect=postgresql.dialect(), compile_kwargs={"literal_binds": True}))  # type: ignore[attr-defined]
    return "\n".join(row[0] for row in database.fetch(text(f"EXPLAIN {sql}".replace(":", "\\:"))))


@pytest.mark.parametrize(
    ("status", "index"),
    [(ExecutionStatus.FAILED, "idx_executions_unsuccessful"), (ExecutionStatus.QUEUED, "idx_executions_open")],
)
def test_few_executions_of_a_status(history: Database, status: ExecutionStatus, index: str) -> None:
    conditions = ExecutionFilter(status=status).conditions()
    query = newest_first(
        tables.executions.select().where(*conditions), _E.c.created_at, _E.c.execution_id, PageRequest()
    )
    assert index in plan(history, query)


def test_the_jobs_that_are_still_to_do(history: Database) -> None:
    conditions = JobFilter(status=JobStatus.ACTIVE).conditions()
    query = newest_first(tables.jobs.select().where(*conditions), _J.c.created_at, _J.c.job_id, PageRequest())
    assert "idx_jobs_open" in plan(history, query)
