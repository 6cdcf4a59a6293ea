"""Databases of tests on CockroachDB: cleared between tests instead of migrated for each."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import text

from tests import rows
from tests.contract.db.row_counts import counts, opened
from tests.servers import Cluster, ReusedDatabases


@pytest.fixture(scope="module")
def reused(cluster: Cluster) -> Iterator[ReusedDatabases]:
    with closing(ReusedDatabases(cluster)) as databases:
        yield databases


def test_next_test_gets_the_same_database_with_the_rows_of_a_new_database(reused: ReusedDatabases) -> None:
    with reused.lend() as url, opened(url) as database:
        new = counts(database)
        rows.add_endpoint(database)
        (execution_id,) = rows.add_executions(database)
        rows.add_attempt(database, execution_id, 1, "FAILED", error={"type": "HTTP_ERROR", "message": "503"})
        database.fetch(text("DELETE FROM catalog_revision WHERE id = 'flow'"))
        assert counts(database) != new
    with reused.lend() as next_url, opened(next_url) as database:
        assert (next_url, counts(database)) == (url, new)


def test_database_of_a_module_is_not_lent_to_its_tests(reused: ReusedDatabases) -> None:
    with reused.lend() as url, reused.lend() as other:
        assert url != other


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE more (n BIGINT)",
        "ALTER TABLE workers ADD COLUMN more TEXT",
        "CREATE INDEX idx_more ON workers (pid)",
        "ALTER TABLE workers ADD CONSTRAINT chk_more CHECK (pid <> 7)",
        "UPDATE alembic_version SET version_num = '0036'",
    ],
)
def test_database_with_another_schema_is_dropped(reused: ReusedDatabases, change: str) -> None:
    with reused.lend() as url, opened(url) as database:
        database.fetch(text(change))
    with reused.lend() as next_url:
        assert next_url != url
