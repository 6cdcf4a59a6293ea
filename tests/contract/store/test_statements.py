"""Every registered statement: PostgreSQL takes it, and nothing in it is known to fail on CockroachDB."""

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import TextClause

from app.db import Database
from app.sql import REGISTRY

_ROOT = Path(__file__).parents[3]
for _path in sorted((_ROOT / "app").rglob("*.py")):
    if "from app.sql import statement" in _path.read_text():
        importlib.import_module(".".join(_path.relative_to(_ROOT).with_suffix("").parts).removesuffix(".__init__"))

STATEMENTS = sorted(REGISTRY.items())
# "wakeup.notify" is a hint that is sent to PostgreSQL only.
PORTABLE = [(name, clause) for name, clause in STATEMENTS if name != "wakeup.notify"]

# Spellings that CockroachDB's grammar or semantics refuse.
REFUSED = [
    r"\bSTRING\b", r"\bSERIAL\b", r"\bpg_notify\b", r"\bLISTEN\b", r"pg_advisory", r"\bMERGE\b", r"\bctid\b",
    r"\bxmax\b", r"make_interval", r"ON CONSTRAINT", r"\bSAVEPOINT\b", r"\bLOCK TABLE\b", r"\bUPSERT\b",
    r"TABLESAMPLE", r"jsonb_path_ops", r"old\.", r"percentile_cont", r"=>", r"::", r"\bFAMILY\b",
]  # fmt: skip

# Where no column gives a parameter its type: in arithmetic, as the argument of a function, as a value or a condition of
# its own. CockroachDB then takes the type of whatever the driver wrote, or refuses the statement.
_PARAMETER = r"(?<!:):[a-z_0-9]+\b"
UNTYPED = [
    rf"[-+*/%|]\s*{_PARAMETER}", rf"{_PARAMETER}\s*[-+*/%|]",
    rf"\b(?!CAST\b|VALUES\b)\w+\s*\(\s*{_PARAMETER}(?!\s*\))", rf"\b(?:ANY|ALL|unnest)\s*\(\s*{_PARAMETER}",
    rf"\b(?:WHEN|THEN|ELSE|AND|OR|NOT|WHERE|ON|IN \()\s*{_PARAMETER}",
]  # fmt: skip


def bare(clause: TextClause) -> str:
    return re.sub(r"--[^\n]*", "", clause.text)


@pytest.mark.parametrize(("name", "clause"), STATEMENTS, ids=[name for name, _ in STATEMENTS])
def test_postgresql_can_plan_it(database: Database, name: str, clause: TextClause) -> None:
    """PREPARE parses and types the whole statement without running it."""
    numbers: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        return f"${numbers.setdefault(match.group(1), len(numbers) + 1)}"

    sql = re.sub(r"(?<!:):([a-z_0-9]+)", number, bare(clause))
    with database.engine.connect() as connection:
        connection.exec_driver_sql(f"PREPARE checked AS {sql}".replace("%", "%%"))
        connection.rollback()


@pytest.mark.parametrize(("name", "clause"), PORTABLE, ids=[name for name, _ in PORTABLE])
def test_cockroachdb_is_not_known_to_refuse_it(name: str, clause: TextClause) -> None:
    assert refused(bare(clause)) == []


@pytest.mark.parametrize(("name", "clause"), PORTABLE, ids=[name for name, _ in PORTABLE])
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
def test_the_lint_finds_a_parameter_without_a_type(sql: str) -> None:
    assert untyped(sql) != []


@pytest.mark.parametrize("sql", ["CREATE TABLE t (a TEXT, FAMILY f (a))", "SELECT CAST(a AS STRING) FROM t"])
def test_the_lint_finds_what_cockroachdb_refuses_or_must_not_have(sql: str) -> None:
    assert refused(sql) != []


@pytest.mark.parametrize(("name", "clause"), STATEMENTS, ids=[name for name, _ in STATEMENTS])
def test_the_structural_rules(name: str, clause: TextClause) -> None:
    sql = bare(clause)
    for table in written_tables(sql):
        assert written_tables(sql).count(table) == 1, f"{table} is written twice in one statement"
    for select in re.findall(r"SELECT(?:(?!SELECT).)*?SKIP LOCKED", sql, re.DOTALL):
        assert "ORDER BY" in select, "a locking claim needs the order of its index"
        assert "LIMIT" in select, "a locking claim needs a limit"
        assert "JOIN" not in select
        assert "MATERIALIZED" in sql, "a locking claim belongs in a MATERIALIZED CTE"


def refused(sql: str) -> list[str]:
    return [pattern for pattern in REFUSED if re.search(pattern, sql, re.IGNORECASE)]


def untyped(sql: str) -> list[str]:
    return [found.group(0) for pattern in UNTYPED for found in re.finditer(pattern, sql, re.IGNORECASE)]


def written_tables(sql: str) -> list[Any]:
    return re.findall(r"(?:INSERT INTO|UPDATE|DELETE FROM)\s+([a-z_]+)\b(?!\s*SKIP)", sql.replace("FOR UPDATE", ""))
