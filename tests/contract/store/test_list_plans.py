"""Plans of lists: few rows among many are found by an index."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import ClauseElement, Executable, Select, text
from sqlalchemy.ext.compiler import compiles

from app.features.dead_letters.since_failure import ENDS_SINCE
from app.kernel.db import Database
from app.kernel.db.paging import PageRequest
from app.kernel.sql import OF_SEVERAL
from app.queue.jobs.latest_runs import LATEST
from app.queue.reading.execution_filter import ExecutionFilter
from app.queue.reading.execution_history import FACTS
from app.queue.reading.execution_list import executions_page
from app.queue.reading.execution_queries import attempts_query
from app.queue.reading.log_lines import logs_query
from schema.states import FINAL
from tests import rows


@pytest.fixture
def history(database: Database) -> Database:
    """5,000 successful executions, one failed execution and one queued execution."""
    rows.add_executions(database, 5_000)
    database.fetch(
        text(
            "UPDATE executions SET status = 'SUCCESS', completed_at = now(), recorded_at = now(), attempt_count = 1, "
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


class Explained(Executable, ClauseElement):
    """EXPLAIN of a query; the driver binds the same values as for the query."""

    inherit_cache = False

    def __init__(self, query: Select[Any]) -> None:
        self.query = query


@compiles(Explained)
def _explain(explained: Explained, compiler: Any, **options: Any) -> str:
    return f"EXPLAIN {compiler.process(explained.query, **options)}"


def plan(database: Database, query: Select[Any]) -> str:
    return "\n".join(row[0] for row in database.fetch(Explained(query)))


@pytest.mark.postgresql_only
def test_last_error_of_each_execution_on_a_page_is_looked_up_by_index(history: Database) -> None:
    """The page must not join all attempts of the table."""
    history.fetch(
        text(
            "INSERT INTO attempts (attempt_id, execution_id, attempt_number, status, started_at) "
            "SELECT execution_id, execution_id, 1, 'FAILED', now() FROM executions"
        )
    )
    history.fetch(text("ANALYZE attempts"))
    found = plan(history, executions_page(ExecutionFilter(), PageRequest()))
    assert "uq_attempts_exec_number" in found


LAST_RUNS: list[tuple[Executable, dict[str, Any]]] = [
    (LATEST, {"job_id": "job_1"}),
    (OF_SEVERAL[LATEST][0], {"job_id": ["job_1", "job_2"], "nth": [0, 1]}),
]


@pytest.mark.postgresql_only
def test_last_runs_of_each_job_are_read_in_their_order(history: Database) -> None:
    """A job may have run a million times: nothing may be sorted but the few last runs of each status."""
    history.fetch(text("UPDATE executions SET job_id = (SELECT min(job_id) FROM jobs)"))
    history.fetch(text("ANALYZE executions"))
    for statement, params in LAST_RUNS:
        lines = [line[0] for line in history.fetch(text(f"EXPLAIN {statement}"), params)]
        read = [place for place, line in enumerate(lines) if "Backward using idx_executions_ended_of_job" in line]
        assert len(read) == len(FINAL), "\n".join(lines)
        assert all("Limit" in lines[place - 1] for place in read), "\n".join(lines)


@pytest.mark.postgresql_only
def test_later_ends_of_rare_endpoints_are_read_in_their_order(history: Database) -> None:
    """With equalities, the planner filters the rows of all endpoints if its statistics do not know the rare ones."""
    for endpoint in ("rare", "rarer"):
        rows.add_endpoint(history, endpoint)
        rows.add_executions(history, 3, endpoint=endpoint)
    history.fetch(text("UPDATE executions SET status = 'FAILED', completed_at = now() WHERE completed_at IS NULL"))
    several, _ = OF_SEVERAL[ENDS_SINCE]
    at = datetime.now(UTC) - timedelta(hours=20)
    params = {"endpoint": ["rare", "rarer"], "at": [at, at], "nth": [0, 1], "most": 100}
    found = "\n".join(line[0] for line in history.fetch(text(f"EXPLAIN {several}"), params))
    assert found.count("using idx_executions_ended_of_endpoint") == 2, found
    assert "Filter" not in found, found
    assert [(row.nth, row.succeeded, row.failed) for row in history.fetch(several, params)] == [(0, 0, 3), (1, 0, 3)]


@pytest.mark.postgresql_only
def test_attempts_of_an_execution_are_looked_up_in_both_tables(history: Database) -> None:
    """A success has no row in `attempts`; neither table is read beyond the execution."""
    listed = plan(history, attempts_query("exec_1", PageRequest()))
    params = {"execution_id": "exec_1", "most": 1000}
    shown = "\n".join(line[0] for line in history.fetch(text(f"EXPLAIN {FACTS}"), params))
    for found in (listed, shown):
        assert "uq_attempts_exec_number" in found
        assert "pk_executions" in found
        assert "Seq Scan" not in found


@pytest.mark.postgresql_only
def test_log_of_an_execution_is_read_by_its_index(history: Database) -> None:
    history.fetch(
        text(
            "INSERT INTO execution_logs (log_id, execution_id, attempt_number, level, message) "
            "SELECT execution_id || n, execution_id, n, 'INFO', 'm' FROM executions, generate_series(1, 3) AS n"
        )
    )
    history.fetch(text("ANALYZE execution_logs"))
    for attempt in (None, 3):
        assert "idx_logs_by_execution" in plan(history, logs_query("exec_1", PageRequest(), attempt_number=attempt))
