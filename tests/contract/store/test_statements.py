"""Every registered statement: PostgreSQL accepts it, and it has no syntax known to fail on CockroachDB."""

import re

import pytest
from sqlalchemy import TextClause

from app.kernel.db import Database
from app.kernel.sql import OF_SEVERAL
from tests.cases import each_case
from tests.sql_lint import refused, structural_breaches, unlisted_functions, untyped
from tests.statements import STATEMENTS

POSTGRESQL_ONLY = {"wakeup.notify", "lists.read_in_order", "events.horizon", "executions.horizon"} | {
    f"doctor.{name}" for name in ("oldest_transaction", "invalid_indexes", "constraints_not_valid", "dead_rows")
}
PORTABLE = [(name, clause) for name, clause in STATEMENTS if name not in POSTGRESQL_ONLY]


def bare(clause: TextClause) -> str:
    return re.sub(r"--[^\n]*", "", clause.text)


@pytest.mark.postgresql_only
@each_case(("name", "clause"), STATEMENTS, ids=dict(STATEMENTS))
def test_postgresql_accepts_each_statement(database: Database, name: str, clause: TextClause) -> None:
    """PREPARE parses the whole statement and checks its types without running it."""
    numbers: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        return f"${numbers.setdefault(match.group(1), len(numbers) + 1)}"

    sql = re.sub(r"(?<!:):([a-z_0-9]+)", number, bare(clause))
    with database.engine.connect() as connection:
        connection.exec_driver_sql(f"PREPARE checked AS {sql}".replace("%", "%%"))
        connection.exec_driver_sql("DEALLOCATE checked")


@each_case(("name", "clause"), PORTABLE, ids=dict(PORTABLE))
def test_no_statement_has_syntax_that_cockroachdb_refuses(name: str, clause: TextClause) -> None:
    assert refused(bare(clause)) == []
    assert "::" not in bare(clause), "write CAST instead of ::, because a colon starts a parameter"


@each_case(("name", "clause"), PORTABLE, ids=dict(PORTABLE))
def test_cockroachdb_has_each_function(name: str, clause: TextClause) -> None:
    assert unlisted_functions(bare(clause)) == set()


def test_statements_that_cockroachdb_reads_apart_have_no_lateral_subquery() -> None:
    """It would turn one with LIMIT into a join with every row."""
    assert [name for name, clause in STATEMENTS if clause in OF_SEVERAL and "LATERAL" in bare(clause).upper()] == []
    assert len(OF_SEVERAL.keys() & dict(STATEMENTS).values()) >= 10


def test_each_statement_for_postgresql_only_needs_it() -> None:
    texts = [bare(clause) for name, clause in STATEMENTS if name in POSTGRESQL_ONLY]
    assert [sql for sql in texts if not unlisted_functions(sql)] == []


def test_lint_finds_a_function_that_nobody_has_looked_up() -> None:
    ctes = "WITH a AS MATERIALIZED (SELECT 'left(x)'), b AS (SELECT count(*) FROM a)"
    assert unlisted_functions(f"{ctes} INSERT INTO t (c) SELECT ltrim(d) FROM b") == {"ltrim"}


@each_case(("name", "clause"), PORTABLE, ids=dict(PORTABLE))
def test_each_parameter_has_a_type_from_a_column_or_a_cast(name: str, clause: TextClause) -> None:
    assert untyped(bare(clause)) == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT now() + :ms * INTERVAL '1 millisecond'",
        "SELECT run_at - :since FROM t",
        "SELECT a FROM t WHERE a = ANY (:ids)",
        "SELECT COALESCE(:given, a) FROM t",
        "UPDATE t SET a = CASE WHEN b THEN :worse ELSE a END",
        "SELECT a FROM t WHERE b = 1 AND :all",
    ],
)
def test_lint_finds_a_parameter_without_a_type(sql: str) -> None:
    assert untyped(sql) != []


@pytest.mark.parametrize("sql", ["CREATE TABLE t (a TEXT, FAMILY f (a))", "SELECT CAST(a AS STRING) FROM t"])
def test_lint_finds_syntax_that_cockroachdb_refuses(sql: str) -> None:
    assert refused(sql) != []


@each_case(("name", "clause"), STATEMENTS, ids=dict(STATEMENTS))
def test_statements_follow_the_structural_rules(name: str, clause: TextClause) -> None:
    assert structural_breaches(bare(clause)) == []


def test_lint_finds_a_lookup_by_the_keys_of_a_subquery() -> None:
    assert structural_breaches("SELECT a FROM t WHERE a = ANY (ARRAY(\n  SELECT b FROM u))") != []
