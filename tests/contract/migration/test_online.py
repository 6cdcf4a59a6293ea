"""Online changes: each change may be repeated, even after an interruption, and blocks no claim."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError, OperationalError

from app.kernel.db import Database
from app.kernel.processes import worker_lease
from schema import migrate, schema_version
from tests import rows
from tests.claiming import take
from tests.contract.migration.conftest import EVERY_CHANGE, Migrator, waiting_builder
from tests.waiting import eventually

WriteRevision = Callable[..., Path]

INDEX = "online.create_index('idx_executions_tried', 'executions', ['attempt_count'])"
IS_VALID = text("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('idx_executions_tried')")
HAS_WAITED_A_SECOND = text(
    "SELECT true FROM pg_locks WHERE NOT granted AND waitstart < clock_timestamp() - INTERVAL '1 s'"
)


@pytest.fixture(autouse=True)
def _postgresql(database: Database) -> None:
    if database.is_cockroach:
        pytest.skip("CockroachDB changes its schema online by itself")
    rows.add_executions(database, 3)


def test_each_change_may_be_repeated(
    database_url: str, observer: Connection, write_revision: WriteRevision, sent: list[str]
) -> None:
    folder = write_revision(*EVERY_CHANGE)
    assert migrate.upgrade(database_url, folders=[folder]) == "9001"
    shape = _shape(observer)
    assert {"chk_jobs_tried": True, "fk_executions_target": True}.items() <= shape.items()
    assert {"idx_jobs_tried": True, "idx_jobs_tried_once": True}.items() <= shape.items()
    assert not {"idx_jobs_on_pause", "chk_jobs_overlap", "chk_jobs_catch_up", "fk_attempts_execution"} & set(shape)
    observer.execute(text("UPDATE alembic_version SET version_num = :revision"), {"revision": schema_version.head()})
    sent.clear()
    assert migrate.upgrade(database_url, folders=[folder]) == "9001"
    assert _shape(observer) == shape
    assert not [
        statement for statement in sent if statement.startswith("CREATE") and "migration_lease" not in statement
    ]


@pytest.mark.postgresql_only
def test_half_built_index_is_built_again(
    database_url: str, observer: Connection, database: Database, write_revision: WriteRevision
) -> None:
    folder = write_revision(INDEX)
    with database.engine.begin() as writer:
        writer.execute(text("UPDATE executions SET shard = shard"))
        migrator = Migrator(database_url, folder)
        observer.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": waiting_builder(observer)})
        with pytest.raises(OperationalError):
            migrator.finish()
        assert observer.execute(IS_VALID).scalar() is False
    assert migrate.upgrade(database_url, folders=[folder]) == "9001"
    assert observer.execute(IS_VALID).scalar() is True


def test_unvalidated_check_is_validated_by_the_next_upgrade(
    database_url: str, observer: Connection, write_revision: WriteRevision
) -> None:
    """Rows that violate the check stop the revision until they are repaired."""
    folder = write_revision("online.add_check('executions', 'chk_executions_shard', 'shard < 7')")
    observer.execute(text("UPDATE executions SET shard = 7"))
    with pytest.raises(IntegrityError, match="chk_executions_shard"):
        migrate.upgrade(database_url, folders=[folder])
    assert _shape(observer)["chk_executions_shard"] is False
    observer.execute(text("UPDATE executions SET shard = 0"))
    assert migrate.upgrade(database_url, folders=[folder]) == "9001"
    assert _shape(observer)["chk_executions_shard"] is True


def test_claims_succeed_while_a_change_waits_for_a_long_reader(
    database_url: str, observer: Connection, database: Database, write_revision: WriteRevision
) -> None:
    """ALTER TABLE waits for a long reader such as pg_dump; later statements must not wait for ALTER TABLE."""
    worker_lease.register(database, worker_id="w", host="h", pid=1, queues=["http"], capacity=9, lease_ms=600_000)
    folder = write_revision("online.add_column('executions', 'tried', 'BIGINT')")
    with database.engine.begin() as reader:
        reader.execute(text("SELECT count(*) FROM executions"))
        migrator = Migrator(database_url, folder)
        for _ in range(2):
            waiting_builder(observer)
            claimed = take(database, "w", 1)
            assert len(claimed.claims) == 1
    assert migrator.finish() == "9001"


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("executions", "online.add_column('executions', 'tried', 'BIGINT')"),
        ("executions", "online.drop_column('executions', 'trace_context')"),
        ("executions", "online.add_check('executions', 'chk_tried', 'shard >= 0')"),
        ("executions", "online.drop_constraint('executions', 'chk_executions_on_hold')"),
        ("endpoints", "online.add_foreign_key('executions', 'fk_tried', ['endpoint'], 'endpoints', ['name'])"),
        ("executions", "online.drop_constraint('attempts', 'fk_attempts_execution')"),
        ("executions", "online.set_storage('executions', 'SET (fillfactor = 70)')"),
    ],
)
@pytest.mark.postgresql_only
def test_autovacuum_is_cancelled_for_a_change(
    database_url: str, observer: Connection, database: Database, write_revision: WriteRevision, table: str, change: str
) -> None:
    """PostgreSQL cancels an autovacuum that has blocked a lock for a second; jobs are claimed during this second."""
    worker_lease.register(database, worker_id="w", host="h", pid=1, queues=["http"], capacity=9, lease_ms=600_000)
    folder = write_revision(change)
    with database.engine.begin() as autovacuum:
        autovacuum.execute(text(f"LOCK TABLE {table} IN SHARE UPDATE EXCLUSIVE MODE"))
        migrator = Migrator(database_url, folder)
        eventually(lambda: observer.execute(HAS_WAITED_A_SECOND).scalar(), what="a lock that has waited for a second")
        assert len(take(database, "w", 1).claims) == 1
    assert migrator.finish() == "9001"


def test_forbidden_change_is_skipped_with_a_warning(
    database_url: str, write_revision: WriteRevision, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_revision(
        "op.execute('SET ROLE pg_monitor')",
        "online.execute_if_permitted('ALTER TABLE jobs SET (fillfactor = 90)')",
        "op.execute('RESET ROLE')",
    )
    assert migrate.upgrade(database_url, folders=[folder]) == "9001"
    assert "must be owner of table jobs; have a user with the privilege run: ALTER TABLE jobs" in caplog.text


def _shape(observer: Connection) -> dict[str, bool]:
    """Return the names of all indexes and constraints, and whether each is valid."""
    found = observer.execute(
        text(
            "SELECT c.relname, i.indisvalid FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid "
            "WHERE c.relnamespace = current_schema()::regnamespace UNION ALL "
            "SELECT conname, convalidated FROM pg_constraint WHERE connamespace = current_schema()::regnamespace "
            "AND contype IN ('c', 'f')"
        )
    )
    return {row[0]: row[1] for row in found}
