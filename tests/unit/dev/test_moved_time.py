"""Clock of the stack for tests of users: the product can be moved by functions, and has no part in it."""

import re
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import MagicMock, Mock

import pytest
from psycopg2 import errors

from app.dev.testing.clock_mover import CHORES, FIRST_DUE, WORK, ClockMover
from app.dev.testing.leftovers import KEPT, TABLES
from app.dev.testing.movable_stack import MovableStack
from schema.tables.columns import metadata

ROOT = Path(__file__).parents[3]
# Keywords, and functions of the machine's time that te_clock does not replace.
FIXED = re.compile(r"(?i)\b(current_(timestamp|date|time)|localtimestamp|timeofday|pg_catalog\.now|te_clock)\b")


def test_product_reads_its_time_by_functions_that_the_stack_can_replace() -> None:
    files = [path for part in ("actors", "app", "brokers", "schema") for path in (ROOT / part).rglob("*.*")]
    product = [path for path in files if path.suffix in {".py", ".sql", ".lua"} and "app/dev/" not in path.as_posix()]
    assert len(product) > 200
    assert {path.name: found[0] for path in product if (found := FIXED.search(path.read_text()))} == {}


def test_each_table_is_kept_or_emptied_after_a_test() -> None:
    names = {table.name for table in metadata.sorted_tables}
    assert KEPT | set(TABLES) == names
    assert TABLES.index("attempts") < TABLES.index("executions") < TABLES.index("jobs")


@pytest.mark.parametrize("error", [errors.ForeignKeyViolation, errors.DeadlockDetected])
def test_completion_of_a_worker_during_the_deletion_ends_no_stack(error: type[Exception]) -> None:
    clock = MagicMock()
    clock.run.side_effect = [error(), *([None] * len(TABLES))]
    clock.rows.return_value = [("exec_1",)]
    assert MovableStack(Mock(), clock, Mock()).clear() == ["exec_1"]
    assert clock.transaction.call_count == 2
    clock.go_back.assert_called_once()


def test_execution_that_a_worker_claims_between_two_queries_is_waited_for() -> None:
    at, queries = datetime(2030, 1, 1, tzinfo=UTC), list[str]()

    def rows(query: str, _parameters: object = None) -> list[tuple[object, ...]]:
        queries.append(query)
        if query == WORK:
            return [(at, 0, int(FIRST_DUE not in queries), [], *[0] * len(CHORES))]
        return [] if "LIMIT 1" in query or query == FIRST_DUE else [(0,)]

    clock = Mock(rows=rows, now=lambda: at)
    chores = [Mock() for _ in (*CHORES, "watch")]
    for chore, name in zip(chores, (*CHORES, "watch"), strict=True):
        chore.name = name
    ClockMover(clock, chores, Mock(), Mock(), hint=Mock(), check=Mock()).to(at, seconds=60)
    assert queries[-1] == WORK
