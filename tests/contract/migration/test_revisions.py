"""Statements of the revisions: they hold no lock on a PostgreSQL table for long, and CockroachDB accepts them."""

import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
from sqlalchemy import DateTime, Index, Table, text

import schema
from app.kernel import db
from app.kernel.db import Database
from schema import migrate, schema_version
from schema.tables import metadata
from tests.contract.migration.conftest import EVERY_CHANGE
from tests.sql_lint import REFUSED, unlisted_functions

MIGRATIONS = Path(schema.__file__).parent / "migrations"
SCRIPTS = [*reversed([*ScriptDirectory(str(MIGRATIONS)).walk_revisions()])]
BASELINE = "0100"  # the only revision of an empty database

# These statements lock a table against writers during a full read, or queue all later statements behind their lock.
BLOCKING = {
    r"CREATE (UNIQUE )?INDEX (?!CONCURRENTLY IF NOT EXISTS)": "use online.create_index",
    r"DROP INDEX (?!CONCURRENTLY IF EXISTS)": "use online.drop_index",
    r"ADD (CONSTRAINT \w+ )?(CHECK|FOREIGN KEY)(?!.* NOT VALID$)": "use online.add_check, online.add_foreign_key",
    r"ADD (CONSTRAINT \w+ )?(UNIQUE|PRIMARY KEY|EXCLUDE)": "use online.create_index(unique=True)",
    r"ADD COLUMN .*\b(CHECK|REFERENCES|UNIQUE)\b": "add the column, then the constraint",
    r"ADD COLUMN (?!.* DEFAULT ).* NOT NULL": "a column that is NOT NULL needs a DEFAULT",
    r"ADD COLUMN .* DEFAULT (?!now\(\)).*\(": "a DEFAULT that is computed for each row rewrites the table",
    r"\bSET NOT NULL": "use online.add_check with … IS NOT NULL",
    r"\b(SET DATA )?TYPE \w+": "add a column of the new type",
    r"\bRENAME\b": "running code knows the old name; add, and drop in a later release",
    r"CLUSTER|VACUUM FULL|REFRESH|REINDEX": "this locks the table",
    r"LOCK TABLE (?!.* IN SHARE UPDATE EXCLUSIVE MODE)": "only this mode lets reads and writes pass",
    r"^ALTER TABLE (?!\w+ (VALIDATE|SET \(|RESET \())": "use schema.online: no autovacuum gives way to a short wait",
    r"^(UPDATE|DELETE FROM)": "write rows in batches, outside of a revision",
}
# The first two clauses are for PostgreSQL only. READ COMMITTED has not always enforced a hash-sharded unique index.
REFUSED_IN_REVISIONS = [r"CONCURRENTLY", r"NOT VALID", r"UNIQUE.*USING HASH"]
LOCKED = "SET LOCAL lock_timeout = 0; LOCK TABLE t IN SHARE UPDATE EXCLUSIVE MODE; SET LOCAL lock_timeout = 500; "
APPLIED = re.compile(r"alembic_version (?:SET version_num=|.* VALUES \()'(\d+)'")


@pytest.fixture
def tried(write_revision: Callable[..., Path]) -> Path:
    """Folder of a revision that makes every online change."""
    return write_revision(*EVERY_CHANGE)


@pytest.fixture
def statements(database: Database, empty_database_url: str, tried: Path, sent: list[str]) -> dict[str, list[str]]:
    """Statements of each revision after the baseline; the key "" has the statements after the last revision.

    Revisions may be repeated, so they run on the newest tables here.
    """
    if database.is_cockroach:
        pytest.skip("the rules are PostgreSQL's")
    migrate.upgrade(empty_database_url)
    empty = db.connect(empty_database_url, pool_size=1, application_name="te-test")
    empty.fetch(text("UPDATE alembic_version SET version_num = :baseline"), {"baseline": BASELINE})
    empty.close()
    sent.clear()
    migrate.upgrade(empty_database_url, folders=[tried])
    found: dict[str, list[str]] = {"": []}
    for statement in (" ".join(line.split()) for line in sent):
        if applied := APPLIED.search(statement):
            found |= {applied[1]: found[""], "": []}
        elif "migration_lease" not in statement:
            found[""].append(statement)
    return found


def blocking(statement: str) -> list[str]:
    if re.match(r"(CREATE TABLE|SELECT|SET (?!LOCAL)) ?", statement):
        return []
    return [remedy for pattern, remedy in BLOCKING.items() if re.search(pattern, statement)]


def test_newest_revision_by_file_name_is_the_head_of_alembic() -> None:
    assert schema_version.head() == ScriptDirectory(str(MIGRATIONS)).get_current_head()


def test_no_revision_after_the_baseline_blocks_a_table(statements: dict[str, list[str]]) -> None:
    assert [*statements] == ["", *(script.revision for script in SCRIPTS if script.revision != BASELINE), "9001"]
    assert [each for sent in statements.values() for each in sent if blocking(each)] == []
    assert sum(bool(re.search("ALTER TABLE|INDEX", each)) for each in statements["9001"]) >= len(EVERY_CHANGE)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE INDEX IF NOT EXISTS i ON t (c)",
        "CREATE UNIQUE INDEX CONCURRENTLY i ON t (c)",
        "DROP INDEX IF EXISTS i",
        "ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0)",
        "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES u (a)",
        "ALTER TABLE t ADD CONSTRAINT u UNIQUE (a)",
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS c TEXT NOT NULL",
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS c TEXT REFERENCES u (a)",
        "ALTER TABLE t ADD COLUMN IF NOT EXISTS c TEXT DEFAULT gen_random_uuid() NOT NULL",
        "ALTER TABLE t ALTER COLUMN c SET NOT NULL",
        "ALTER TABLE t ALTER COLUMN c TYPE BIGINT",
        "ALTER TABLE t RENAME COLUMN c TO d",
    ],
)
def test_blocking_statement_is_found(statement: str) -> None:
    assert blocking(LOCKED + statement)


@pytest.mark.parametrize(
    "statement", ["LOCK TABLE t", "UPDATE jobs SET name = 'n'", "ALTER TABLE t ADD COLUMN IF NOT EXISTS c TEXT"]
)
def test_unprefixed_blocking_statement_is_found(statement: str) -> None:
    assert blocking(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS i ON t (c) WHERE c > 0",
        "DROP INDEX CONCURRENTLY IF EXISTS i",
        f"{LOCKED}ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0) NOT VALID",
        f"{LOCKED}ALTER TABLE t ADD COLUMN IF NOT EXISTS c BIGINT DEFAULT 0 NOT NULL",
        f"{LOCKED}ALTER TABLE t ADD COLUMN IF NOT EXISTS c TIMESTAMPTZ DEFAULT now() NOT NULL",
        f"{LOCKED}ALTER TABLE t DROP CONSTRAINT IF EXISTS c",
        "ALTER TABLE t VALIDATE CONSTRAINT c",
        "ALTER TABLE t SET (fillfactor = 70)",
        "CREATE TABLE IF NOT EXISTS t (c TEXT NOT NULL, CONSTRAINT u UNIQUE (c))",
    ],
)
def test_online_statement_is_accepted(statement: str) -> None:
    assert not blocking(statement)


def test_cockroachdb_is_not_known_to_refuse_a_revision(tried: Path) -> None:
    """Alembic writes the statements of a revision for CockroachDB without a server."""
    with_tried = ScriptDirectory(str(MIGRATIONS), version_locations=[str(MIGRATIONS / "versions"), str(tried)])
    found = list(with_tried.walk_revisions())
    assert {script.revision for script in found} == {script.revision for script in SCRIPTS} | {"9001"}
    # A revision may be empty, or for PostgreSQL only.
    sent = [(script.revision, each) for script in found for each in for_cockroachdb(script)]
    assert {"0100", "9001"} <= {revision for revision, _ in sent}
    patterns = [*REFUSED, *REFUSED_IN_REVISIONS]
    assert [each for each in sent if any(re.search(pattern, each[1], re.IGNORECASE) for pattern in patterns)] == []
    assert [each for each in sent if unlisted_functions(each[1])] == []


def test_cockroachdb_spreads_every_index_that_leads_with_a_time() -> None:
    """Otherwise all inserts go to one range. The index of due jobs is excepted: it is small and read in order."""
    wanted = {str(index.name): definition(index) for table in metadata.sorted_tables for index in leading(table)}
    del wanted["idx_jobs_cron_due"]
    assert spread_on_cockroachdb() == wanted


def leading(table: Table) -> list[Index]:
    """Return the indexes whose first column, apart from a status, is a time: inserts go to few places of the index."""
    return [
        index
        for index in table.indexes
        if isinstance(next(column for column in index.columns if column.name != "status").type, DateTime)
    ]


def definition(index: Index) -> str:
    where = index.dialect_options["postgresql"]["where"]
    condition = f" WHERE {where}" if where is not None else ""
    return f"{index.table.name} ({', '.join(index.columns.keys())}) USING HASH{condition}"  # type: ignore[union-attr]


def spread_on_cockroachdb() -> dict[str, str]:
    """Return the hash-sharded indexes on CockroachDB after all revisions."""
    found: dict[str, str] = {}
    for line in (line for script in SCRIPTS for line in for_cockroachdb(script)):
        if made := re.match(r"CREATE INDEX IF NOT EXISTS (\w+) ON (.* USING HASH.*)", line):
            found[made.group(1)] = made.group(2)
        elif dropped := re.match(r"DROP INDEX IF EXISTS (\w+)", line):
            found.pop(dropped.group(1), None)
    return found


def for_cockroachdb(script: Script) -> Iterator[str]:
    written = io.StringIO()
    context = MigrationContext.configure(
        dialect_name="cockroachdb", opts={"as_sql": True, "output_buffer": written, "transactional_ddl": False}
    )
    with Operations.context(context):
        script.module.upgrade()  # type: ignore[union-attr]
    yield from (" ".join(statement.split()) for statement in written.getvalue().split(";\n") if statement.strip())
