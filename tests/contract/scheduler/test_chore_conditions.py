"""Chores with a condition run only while it holds, and one statement reads the conditions of all of them."""

from collections import Counter

import pytest
from sqlalchemy import event, text

from app.kernel.db import Database
from app.kernel.sql import NamedStatement
from app.scheduler.chore import Chore, Counts
from app.scheduler.chore_conditions import Conditions, with_conditions
from app.scheduler.chore_plan import plan
from tests import rows
from tests.contract.scheduler.conftest import context

PAUSED = NamedStatement("tests.paused", "SELECT name FROM endpoints WHERE paused_at IS NOT NULL ORDER BY name")
ANY = NamedStatement("tests.any", "SELECT name FROM endpoints WHERE deleted_at IS NULL ORDER BY name")


@pytest.fixture
def runs() -> Counter[str]:
    return Counter()


def chore(name: str, runs: Counter[str]) -> Chore:
    def run() -> Counts:
        runs[name] += 1
        return Counts(changed=runs[name])

    return Chore(name, 1, run)


def test_chore_runs_at_first_and_then_while_its_condition_holds(database: Database, runs: Counter[str]) -> None:
    conditions = Conditions(database, {"paused": PAUSED, "any": ANY}, valid_seconds=0)
    paused, other = chore("paused", runs), chore("any", runs)
    for _ in range(2):
        conditions.run(paused)
        conditions.run(other)
    assert runs == {"paused": 1, "any": 2}
    assert conditions.run(paused) == Counts()
    database.fetch(text("UPDATE endpoints SET paused_at = now()"))
    assert conditions.run(paused) == Counts(changed=2)


def test_chores_of_one_second_share_one_statement(database: Database, runs: Counter[str]) -> None:
    conditions = Conditions(database, {"paused": PAUSED, "any": ANY}, valid_seconds=3600)
    statements = list[str]()
    event.listen(database.engine, "after_cursor_execute", lambda *call: statements.append(call[2]))
    for _ in range(3):
        conditions.run(chore("paused", runs))
        conditions.run(chore("any", runs))
    assert len(statements) == 1
    assert runs == {"paused": 1, "any": 3}


def test_chores_run_if_the_conditions_cannot_be_read(database: Database, runs: Counter[str]) -> None:
    """A locked or missing table stops only the chores that need it."""
    broken = NamedStatement("tests.broken", "SELECT name FROM no_such_table")
    conditions = Conditions(database, {"paused": PAUSED, "broken": broken}, valid_seconds=3600)
    for _ in range(2):
        conditions.run(chore("paused", runs))
    assert runs == {"paused": 2}


@pytest.mark.postgresql_only
def test_conditions_read_few_of_many_executions(database: Database) -> None:
    rows.add_executions(database, 3_000)
    database.fetch(text("ANALYZE"))
    conditions = {each.name: each.condition for each in plan(context(database)) if each.condition is not None}
    explained = database.fetch(text(f"EXPLAIN {Conditions(database, conditions).statement.text}"))
    assert not [line for (line,) in explained if "Seq Scan on executions" in line]


def test_chores_with_a_condition_begin_one_after_the_other(database: Database) -> None:
    """So one answer serves all of them."""
    found = with_conditions(database, plan(context(database)))
    conditional = [each.name for each in found if each.condition is not None]
    assert set(conditional) == {"bulk operations", "redrives", "notify", "watch", "workflows"}
    assert [each.name for each in found[: len(conditional)]] == conditional
    assert {each.name for each in found} == {each.name for each in plan(context(database))}
