"""Lease of migrators: kept during a long step, taken over from a dead migrator, and never regained after a loss."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from app.kernel.db import Database
from schema.lease import MigrationBusyError
from tests import rows
from tests.contract.migration.conftest import Migrator, waiting_builder
from tests.waiting import HUNG_SECONDS, eventually

WriteRevision = Callable[..., Path]

STEPS = (
    "online.create_index('idx_executions_tried', 'executions', ['attempt_count'])",
    "online.add_column('executions', 'tried', 'BIGINT')",
)
SHORT = 1.0
EXPIRY = text("SELECT expires_at FROM migration_lease")
IS_THERE = text("SELECT to_regclass('idx_executions_tried') IS NOT NULL")
COLUMN = text("SELECT count(*) FROM information_schema.columns WHERE column_name = 'tried'")
PROGRAM = """
import sys
from pathlib import Path
from schema import migrate
migrate.upgrade(sys.argv[1], lease_seconds=1, folders=[Path(sys.argv[2])])
"""


@pytest.fixture(autouse=True)
def _postgresql(database: Database) -> None:
    if database.is_cockroach:
        pytest.skip("only in PostgreSQL, an open write transaction delays the creation of an index")
    rows.add_executions(database, 3)


@contextmanager
def unfinished_write(database: Database) -> Iterator[None]:
    """Keep a write transaction open, for which CREATE INDEX CONCURRENTLY waits."""
    with database.engine.begin() as writer:
        writer.execute(text("UPDATE executions SET shard = shard"))
        yield


def test_migrator_keeps_its_lease_during_a_step_that_is_longer(
    database_url: str, database: Database, observer: Connection, write_revision: WriteRevision, sent: list[str]
) -> None:
    """A second migrator waits for the first migrator and finds nothing to do."""
    folder = write_revision(*STEPS)
    with unfinished_write(database):
        first = Migrator(database_url, folder, lease_seconds=SHORT)
        waiting_builder(observer)
        second = Migrator(database_url, folder, lease_seconds=SHORT)
        at_first = observer.execute(EXPIRY).scalar()
        beyond = text("SELECT expires_at FROM migration_lease WHERE expires_at > :first + INTERVAL '2 seconds'")
        eventually(lambda: observer.execute(beyond, {"first": at_first}).scalar(), what="a renewed lease")
    assert [first.finish(), second.finish()] == ["9001", "9001"]
    assert len([statement for statement in sent if statement.startswith("CREATE INDEX CONCURRENTLY")]) == 1
    assert len([statement for statement in sent if "ADD COLUMN IF NOT EXISTS tried" in statement]) == 1


def test_migrator_that_lost_its_lease_runs_no_further_step(
    database_url: str, database: Database, observer: Connection, write_revision: WriteRevision
) -> None:
    folder = write_revision(*STEPS)
    with unfinished_write(database):
        migrator = Migrator(database_url, folder, lease_seconds=SHORT)
        waiting_builder(observer)
        taken = "UPDATE migration_lease SET holder = 'other', expires_at = now() + INTERVAL '1 hour'"
        observer.execute(text(taken))
        eventually(lambda: "te-migration-lease" not in {thread.name for thread in threading.enumerate()})
    with pytest.raises(MigrationBusyError, match="lost the lease"):
        migrator.finish()
    assert observer.execute(IS_THERE).scalar() is True
    assert observer.execute(COLUMN).scalar() == 0
    assert observer.execute(text("SELECT holder FROM migration_lease")).scalar() == "other"


@pytest.mark.postgresql_only
def test_step_of_a_killed_migrator_is_finished_and_not_repeated(
    database_url: str, database: Database, observer: Connection, write_revision: WriteRevision, sent: list[str]
) -> None:
    """The server continues to build the index after the death of its client."""
    folder = write_revision(*STEPS)
    with unfinished_write(database):
        killed = subprocess.Popen([sys.executable, "-c", PROGRAM, database_url, str(folder)])
        waiting_builder(observer)
        killed.kill()
        killed.wait(HUNG_SECONDS)
        successor = Migrator(database_url, folder)
        eventually(lambda: any("pg_stat_progress_create_index" in statement for statement in sent))
    assert successor.finish() == "9001"
    assert not [statement for statement in sent if statement.startswith(("CREATE INDEX", "DROP INDEX"))]
    assert observer.execute(COLUMN).scalar() == 1
    assert observer.execute(IS_THERE).scalar() is True
