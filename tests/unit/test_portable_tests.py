"""Tests that need PostgreSQL are marked, so that the suite also runs on CockroachDB."""

import ast
import re
from pathlib import Path

from tests.cases import each_case

ROOT = Path(__file__).parents[2]
# Statements that need PostgreSQL, and helpers that send such statements.
POSTGRESQL_ONLY = re.compile(
    r"^\s*ANALYZE\s*$|\bVACUUM\b|\bEXPLAIN\b|\bDO \$\$|"
    r"\bLOCK TABLE\b|\bxm(in|ax)\b|CREATE TRIGGER|\bplpgsql\b|^\s*PREPARE\b|"
    r"pg_(terminate_backend|stat_|locks|advisory|notify|settings|prepared|snapshot)|is_a_lock_waited_for|^blocks$"
)
GUARDS = {"is_cockroach", "postgresql_only"}
# These files start their own PostgreSQL, or contain such statements as data.
LEFT_OUT = ("tests/contract/dev/", "tests/contract/migration/test_revisions.py", "tests/unit/test_portable_tests.py")
FILES = sorted(
    file
    for file in (path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*.py"))
    if not file.startswith(LEFT_OUT)
)


def words(node: ast.AST) -> tuple[set[str], set[str]]:
    """Return the names and the string constants of a piece of code."""
    names, texts = set(), set()
    for child in ast.walk(node):
        match child:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                names.add(name)
            case ast.Constant(value=str(text)):
                texts.add(text)
            case _:
                pass
    return names, texts


def unguarded(source: str) -> list[str]:
    """Return the tests of a file that use PostgreSQL-only features without a guard.

    A test also uses everything that it reaches through functions, fixtures and constants of its file. A file without
    tests is checked in the files that use it.
    """
    parts: dict[str, tuple[set[str], set[str]]] = {}
    for node in ast.parse(source).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                parts[name] = words(node)
            case ast.Assign(targets=[ast.Name(id=name), *_]) | ast.AnnAssign(target=ast.Name(id=name)):
                parts[name] = words(node)
            case _:
                pass
    if parts.get("pytestmark", (set(), set()))[0] & GUARDS:
        return []
    found = []
    for test in (name for name in parts if name.startswith("test_")):
        names, texts, waiting = set[str](), set[str](), [test]
        while waiting:
            more_names, more_texts = parts[waiting.pop()]
            waiting += [name for name in more_names - names if name in parts]
            names |= more_names
            texts |= more_texts
        used = any(POSTGRESQL_ONLY.search(text) for text in texts | names)
        if used and not names & GUARDS:
            found.append(test)
    return found


@each_case("file", FILES)
def test_every_postgresql_only_statement_is_guarded(file: str) -> None:
    assert unguarded((ROOT / file).read_text()) == []


def test_unguarded_statement_is_found() -> None:
    helper = "def plan(database):\n    return database.fetch('EXPLAIN SELECT 1')\n"
    assert unguarded(f"{helper}def test_it(database):\n    plan(database)\n") == ["test_it"]
    assert unguarded(f"{helper}def test_it(database):\n    assert database.is_cockroach or plan(database)\n") == []
    assert unguarded("def test_it(database):\n    database.fetch('ANALYZE executions')\n") == []
    assert unguarded("def test_it(database):\n    database.fetch('ANALYZE')\n") == ["test_it"]
    gated = "pytestmark = pytest.mark.postgresql_only\n"
    assert unguarded(f"{gated}def test_it(database):\n    database.fetch('ANALYZE')\n") == []
