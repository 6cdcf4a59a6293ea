"""A backlog for measurements has the requested number of rows, although several connections write it."""

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from benchmarks import backlog


@pytest.mark.postgresql_only
def test_backlog_has_each_number_once_for_each_endpoint(database: Database, database_url: str) -> None:
    each = 5_003  # more than one chunk
    insert = "INSERT INTO endpoints (name, endpoint_type, spec) VALUES ('{0}', 'HTTP', '{{}}')"
    for name in ("a", "b"):
        backlog.execute(database_url, insert.format(name))
    backlog.fill(database_url, ["a", "b"], each, "{}", columns={"limit_key": "'=' || n"})
    counts = "count(*), count(DISTINCT limit_key), count(DISTINCT job_id)"
    query = f"SELECT endpoint, {counts} FROM executions GROUP BY endpoint"
    assert {tuple(row) for row in database.fetch(text(query))} == {("a", each, each, each), ("b", each, each, each)}
    assert backlog.ask(database_url, "SELECT count(*), count(DISTINCT job_id) FROM jobs") == [(2 * each, 2 * each)]
    backlog.clear(database_url)
    assert backlog.ask(database_url, "SELECT (SELECT count(*) FROM executions), count(*) FROM jobs") == [(0, 0)]
