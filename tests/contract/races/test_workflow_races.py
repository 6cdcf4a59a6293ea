"""Two or three ends of one workflow at the same moment: each child starts once, in random orders of all statements.

The workers' outbox threads are the sides of `interleaving`. A rule of the advance that is removed has to be missed: the
lock and the revision keep two steps apart, and the second look finds the end that arrived during a step. `make fuzz`
runs more orders.
"""

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from sqlalchemy import text

from app.features.workflows.steps import advancing, reporting
from app.kernel.db import Database
from tests.cases import choice_of
from tests.contract.features.workflows import flows
from tests.contract.features.workflows.flows import job
from tests.contract.races.interleaving import Body, SideGroup, pair, sides_named
from tests.contract.races.mortal import Mortal, chores
from tests.contract.races.racing import strip_locks
from tests.contract.races.workflow_sides import LEVELS, MAX_CHOICES, MAX_ORDERS, TABLES, outbox

NODES = [job("a"), job("b"), job("c", "a", "b"), job("d", "a", "b")]
THREE_PARENTS = [job("a"), job("b"), job("e"), job("c", "a", "b", "e"), job("d", "a", "b", "e")]
Bodies = Callable[[list[str]], Sequence[Body]]
SOUND = {"status": "RUNNING", "open_nodes": 2, "running": 2, "succeeded": 2, "jobs": 4, "reporting": 0, "started": 2}
FACTS = text(
    """
    SELECT w.status, w.open_nodes, w.running, w.succeeded,
           (SELECT count(*) FROM jobs WHERE idempotency_key LIKE 'te:node:' || w.workflow_id || ':%') AS jobs,
           (SELECT count(*) FROM workflow_nodes AS n
             WHERE n.workflow_id = w.workflow_id AND n.reported_to IS NOT NULL) AS reporting,
           (SELECT count(*) FROM workflow_nodes AS n JOIN executions AS e ON e.execution_id = n.execution_id
             WHERE n.workflow_id = w.workflow_id AND n.name IN ('c', 'd') AND n.state = 'RUNNING') AS started
      FROM workflows AS w WHERE w.workflow_id = :id
    """
)


@pytest.fixture(autouse=True)
def _worker(database: Database) -> None:
    flows.register(database)


def ends(database: Database, nodes: Sequence[dict[str, Any]] = NODES) -> tuple[str, list[str]]:
    """Create the only workflow; its first nodes ended. Returns its id and their completion events."""
    for table in TABLES:
        database.fetch(text(f"DELETE FROM {table}"))
    workflow_id = flows.create(database, nodes)
    flows.advance(database, workflow_id)
    return workflow_id, flows.end(database, flows.claims(database))


def facts(database: Database, workflow_id: str) -> dict[str, Any]:
    return database.fetch(FACTS, {"id": workflow_id})[0]._asdict()


def breach(
    database: Database, sides: SideGroup, seed: int, bodies: Bodies, nodes: Sequence[dict[str, Any]] = NODES
) -> str:
    """Run the sides in a random order; returns the breach, or an empty text."""
    workflow_id, events = ends(database, nodes)
    choices = random.Random(seed).choices(range(len(sides.sides)), k=MAX_CHOICES)
    sides.run(bodies(events), choices, with_reads=True)
    now = facts(database, workflow_id)
    return "" if now == SOUND | {"succeeded": len(events), "jobs": len(nodes)} else f"{now}: {sides.taken}"


def one_each(events: list[str]) -> Sequence[Body]:
    return [partial(outbox, [event]) for event in events]


def ends_and_idle_step(events: list[str]) -> Sequence[Body]:
    """The first step of the second side finds nothing to do if it comes before the ends, but holds the workflow."""

    def idle_step(database: Database) -> None:
        (workflow_id,) = database.fetch(text("SELECT workflow_id FROM workflows"))[0]
        flows.advance(database, workflow_id)

    return [partial(outbox, events), idle_step]


def both_by_both(events: list[str]) -> Sequence[Body]:
    return [partial(outbox, events), partial(outbox, events[::-1])]


@pytest.mark.sampled
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("bodies", [one_each, both_by_both, ends_and_idle_step])
@pytest.mark.parametrize("locks", ["", " without locks"])
def test_children_of_two_ends_start_once(
    database: Database,
    database_url: str,
    level: str,
    bodies: Bodies,
    locks: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    strip_locks(monkeypatch, f"{level}{locks}", advancing, "LOCK")
    with pair(database_url, level) as sides:
        seeds = choice_of(range(80), 20)
        assert [found for seed in seeds if (found := breach(database, sides, seed, bodies))] == []


@pytest.mark.sampled
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("locks", ["", " without locks"])
def test_children_of_three_ends_in_three_processes_start_once(
    database: Database, database_url: str, level: str, locks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    strip_locks(monkeypatch, f"{level}{locks}", advancing, "LOCK")
    with sides_named("abc", database_url, level) as sides:
        seeds = choice_of(range(80), 10)
        assert [found for seed in seeds if (found := breach(database, sides, seed, one_each, THREE_PARENTS))] == []


def remove_locks_and_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    strip_locks(monkeypatch, "without locks", advancing, "LOCK")
    monkeypatch.setattr(advancing, "FINISH", text(advancing.FINISH.text.replace("AND revision = :revision", "")))
    unchanged = "AND n.reported_to = u.before AND n.state = u.state"
    monkeypatch.setattr(reporting, "REPORTED", text(reporting.REPORTED.text.replace(unchanged, "")))


def remove_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advancing, "has_work", lambda *_: False)


@pytest.mark.parametrize("remove", [remove_locks_and_revision, remove_second_look])
def test_removed_rule_is_missed(
    database: Database, database_url: str, remove: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    remove(monkeypatch)
    with pair(database_url, LEVELS[0]) as sides:
        assert any(breach(database, sides, seed, one_each) for seed in range(MAX_ORDERS))
    with sides_named("abc", database_url, LEVELS[0]) as sides:
        assert any(breach(database, sides, seed, one_each, THREE_PARENTS) for seed in range(MAX_ORDERS))


def test_process_that_dies_at_any_statement_strands_nothing(database: Database, database_url: str) -> None:
    """The chores of a scheduler continue."""
    survived, dies_at = False, 0
    while not survived:
        workflow_id, events = ends(database)
        survived = Mortal(database_url, dies_at).run(partial(outbox, events))
        outbox(events, database)
        chores(database)
        assert facts(database, workflow_id) == SOUND, dies_at
        dies_at += 1
    assert dies_at > 12
