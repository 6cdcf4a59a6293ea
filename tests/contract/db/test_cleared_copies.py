"""Copies of the migrated template: cleared after a test and lent again, if nothing else was changed."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
from sqlalchemy import text

from tests import rows
from tests.cleared import MAX_USES, connected
from tests.contract.db.row_counts import counts, opened
from tests.servers import Cluster, Copies

pytestmark = pytest.mark.postgresql_only


@pytest.fixture(scope="module")
def template(cluster: Cluster) -> Iterator[str]:
    url = cluster.migrated()
    yield url
    cluster.drop(url)


@pytest.fixture
def copies(cluster: Cluster, template: str) -> Iterator[Copies]:
    with closing(Copies(cluster, template)) as copies:
        yield copies


def lent_after(copies: Copies, *statements: str) -> list[str]:
    """Run statements in a database, give it back, and return the databases that are lent next."""
    with copies.lend_cleared() as url, closing(connected(url)) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    found = [url]
    for _ in range(3):
        with copies.lend_cleared() as url:
            found.append(url)
    return found


def test_later_test_gets_the_database_with_the_rows_of_a_new_copy(copies: Copies) -> None:
    with copies.lend_cleared() as url, opened(url) as database:
        new = counts(database)
        rows.add_endpoint(database)
        (execution_id,) = rows.add_executions(database)
        rows.add_attempt(database, execution_id, 1, "FAILED", error={"type": "HTTP_ERROR", "message": "503"})
        database.fetch(text("DELETE FROM catalog_revision WHERE id = 'flow'"))
        assert counts(database) != new
    with copies.lend_cleared() as other:
        assert other != url
    with copies.lend_cleared() as again, opened(again) as database:
        assert (again, counts(database)) == (url, new)


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE more (n BIGINT)",
        "CREATE FUNCTION more() RETURNS INT LANGUAGE sql AS 'SELECT 1'",
        "ALTER TABLE workers ADD COLUMN more TEXT",
        "ALTER TABLE workers SET (fillfactor = 50)",
        "CREATE INDEX idx_more ON workers (pid)",
        "ALTER TABLE workers ADD CONSTRAINT chk_more CHECK (pid <> 7)",
        "UPDATE alembic_version SET version_num = '0036'",
        "ANALYZE catalog_revision",
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET work_mem = 999', current_database()); END $$",
        "INSERT INTO catalog_revision (id) SELECT CAST(n AS TEXT) FROM generate_series(1, 5000) AS n",
    ],
)
def test_changed_database_is_dropped(copies: Copies, change: str) -> None:
    first, *others = lent_after(copies, change)
    assert first not in others


def test_database_with_a_connection_is_dropped(copies: Copies) -> None:
    with copies.lend_cleared() as url:
        left = connected(url)
    found = lent_after(copies)
    assert url not in found
    with pytest.raises(psycopg2.OperationalError):
        left.cursor().execute("SELECT 1")
    left.close()


def test_database_is_dropped_after_many_uses(copies: Copies) -> None:
    found = []
    for _ in range(2 * MAX_USES + 1):
        with copies.lend_cleared() as url:
            found.append(url)
    assert len(set(found)) > 2
    assert max(map(found.count, found)) <= MAX_USES


def test_dropped_databases_leave_no_open_files(copies: Copies) -> None:
    open_files = []
    for _ in range(12):
        lent_after(copies, "CREATE TABLE more (n BIGINT)")
        open_files.append(sum(1 for _ in Path("/proc/self/fd").iterdir()))
    assert open_files[-1] - open_files[0] < 6


def test_lent_copy_is_new(copies: Copies) -> None:
    urls = lent_after(copies)
    with copies.lend() as url:
        assert url not in urls
