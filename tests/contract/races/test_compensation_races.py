"""Compensations beside other changes, and processes that are killed: one compensation at a time, each once."""

import random
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import pytest
from sqlalchemy import Row, text

from app.features.workflows import control
from app.kernel.db import Database
from app.queue.executions.execution_cancellation import IfRunning
from app.queue.executions.manual_retry import retry_execution
from schema.states import FINAL_OF_WORKFLOW
from tests.cases import Breaches, choice_of
from tests.contract.features.workflows import flows
from tests.contract.features.workflows.flows import job
from tests.contract.races.interleaving import Body, SideGroup, pair
from tests.contract.races.mortal import Mortal, chores
from tests.contract.races.retried_workflows import remove_touch, unlocked
from tests.contract.races.workflow_sides import LEVELS, MAX_CHOICES, MAX_ORDERS, TABLES, outbox

UNDO = {"endpoint": "target"}
NODES = [job("a", compensate=UNDO), job("b", "a", for_each=[1, 2], compensate=UNDO), job("c", "b")]
# The last of them ends after the failure of another.
WITH_LATE = [job("a", compensate=UNDO), job("failed", "a"), job("late", "a")]
COMPENSATIONS = text(
    """
    SELECT n.node, n.item, n.state, n.started_at,
           (SELECT count(*) FROM jobs AS j JOIN executions AS e ON e.job_id = j.job_id
             WHERE j.idempotency_key = concat_ws(':', 'te:node', n.workflow_id, n.node, n.item, 1)) AS jobs
      FROM workflow_nodes AS n WHERE n.workflow_id = :id AND n.item < 0 ORDER BY n.node DESC, n.item
    """
)


@pytest.fixture(autouse=True)
def _worker(database: Database) -> None:
    flows.register(database)


def clear(database: Database) -> None:
    for table in ["execution_events", "dead_letters", *TABLES, "workflow_events"]:
        database.fetch(text(f"DELETE FROM {table}"))


def finish(database: Database, workflow_id: str, events: Sequence[str]) -> tuple[Row[Any], Sequence[Row[Any]]]:
    """Run a workflow to its end; returns its row and its compensations, in their order."""
    for _ in range(3):
        outbox(events, database)
        chores(database)
        flows.run(database, workflow_id)
        outbox([row.end_id for row in database.fetch(text("SELECT end_id FROM execution_ends"))], database)
    return flows.workflow(database, workflow_id), database.fetch(COMPENSATIONS, {"id": workflow_id})


def is_over(found: Row[Any], undone: Sequence[Row[Any]]) -> bool:
    return found.status in FINAL_OF_WORKFLOW and not found.running and {row.jobs for row in undone} <= {1}


class Scene:
    """A workflow whose last node has failed, or, if it `undoes`, whose first compensation has ended with a verdict."""

    def __init__(self, database: Database, *, undoes: bool, fails: bool = False) -> None:
        clear(database)
        self.workflow_id = flows.create(database, NODES, on_failure="compensate")
        for failed in (False, False, True):
            flows.advance(database, self.workflow_id)
            self.events = flows.end(database, flows.claims(database), flows.FAILED if failed else None)
            if not failed or undoes:
                outbox(self.events, database)
        if undoes:
            (claim,) = flows.claims(database)
            self.execution_id = claim.execution_id
            self.events = flows.end(database, [claim], flows.FAILED if fails else None)

    def settle(self, database: Database) -> None:
        outbox(self.events, database)

    def step(self, database: Database) -> None:
        flows.handle(database, self.events)
        flows.advance(database, self.workflow_id)
        flows.advance(database, self.workflow_id)

    def cancel(self, database: Database) -> None:
        control.cancel(database, self.workflow_id, if_running=IfRunning.REQUEST, actor=None)
        flows.advance(database, self.workflow_id)

    def redrive(self, database: Database) -> None:
        retry_execution(database, self.execution_id, actor=None)

    def finish(self, database: Database) -> list[str]:
        """Run the workflow to its end; returns the breaches."""
        found, undone = finish(database, self.workflow_id, self.events)
        states = [row.state for row in undone]
        is_sound = is_over(found, undone)
        if found.status == "COMPENSATED":
            is_sound &= states == ["SUCCEEDED"] * 3
            is_sound &= [*undone] == sorted(undone, key=attrgetter("started_at"))
        else:
            is_sound &= found.status == "COMPENSATION_FAILED" or found.reason == "CANCELLED"
        return [] if is_sound else [f"{found.status} {found.reason} running {found.running}, {undone}"]


Sides = Callable[[Scene], Sequence[Body]]
CASES: list[tuple[str, bool, bool, Sides]] = [
    ("first end, steps", False, False, lambda scene: [scene.settle, scene.step]),
    ("first end, cancel", False, False, lambda scene: [scene.settle, scene.cancel]),
    ("next end, steps", True, False, lambda scene: [scene.settle, scene.step]),
    ("next end, cancel", True, False, lambda scene: [scene.settle, scene.cancel]),
    ("failed end, redrive", True, True, lambda scene: [scene.settle, scene.redrive]),
]
"""Name, `undoes` and `fails` of the scene, and what its sides do."""


@pytest.mark.sampled
@pytest.mark.timeout(900)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("locks", [True, False], ids=["locks", "no locks"])
def test_compensation_beside_another_change_runs_once(
    database: Database, database_url: str, level: str, locks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not locks:
        unlocked(monkeypatch)
    with pair(database_url, level) as sides, Breaches() as found:
        for name, undoes, fails, bodies in CASES:
            for seed in choice_of(range(60), 60):
                with found.case(name, seed):
                    scene = Scene(database, undoes=undoes, fails=fails)
                    choices = random.Random(seed).choices((0, 1), k=MAX_CHOICES)
                    sides.run(bodies(scene), choices, with_reads=True)
                    assert scene.finish(database) == []


@pytest.mark.parametrize("undoes", [False, True])
def test_process_that_dies_at_any_statement_leaves_the_compensation_to_others(
    database: Database, database_url: str, undoes: bool
) -> None:
    survived, dies_at = False, 0
    while not survived:
        scene = Scene(database, undoes=undoes)
        survived = Mortal(database_url, dies_at).run(partial(outbox, scene.events))
        assert scene.finish(database) == [], dies_at
        assert flows.status(database, scene.workflow_id) == "COMPENSATED", dies_at
        dies_at += 1
    assert dies_at > 10


def redrive_beside_the_last_end(database: Database, sides: SideGroup, seed: int) -> list[str]:
    """Retry a failed node while another end starts the compensation; returns the breaches."""
    clear(database)
    workflow_id = flows.create(database, WITH_LATE, on_failure="compensate")
    flows.advance(database, workflow_id)
    outbox(flows.end(database, flows.claims(database)), database)
    places = flows.places_of(database, workflow_id)
    claims = {places[claim.execution_id]: claim for claim in flows.claims(database)}
    outbox(flows.end(database, [claims["failed"]], flows.FAILED), database)
    events = flows.end(database, [claims["late"]])
    bodies = [
        lambda side: outbox(events, side),
        lambda side: retry_execution(side, claims["failed"].execution_id, actor=None),
    ]
    sides.run(bodies, random.Random(seed).choices((0, 1), k=MAX_CHOICES), with_reads=True)
    found, undone = finish(database, workflow_id, events)
    nodes = flows.states(database, workflow_id)
    expected = {"COMPENSATED": (1, "FAILED"), "SUCCEEDED": (0, "SUCCEEDED")}.get(found.status)
    if is_over(found, undone) and expected == (len(undone), nodes["failed"]):
        return []
    return [f"{found.status} running {found.running}, {undone}, {nodes}", *sides.taken]


@pytest.mark.sampled
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("locks", [True, False], ids=["locks", "no locks"])
def test_redrive_beside_the_end_that_starts_the_compensation_excludes_it(
    database: Database, database_url: str, level: str, locks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Either the node runs again and nothing is undone, or the redrive is refused."""
    if not locks:
        unlocked(monkeypatch)
    with pair(database_url, level) as sides:
        run = partial(redrive_beside_the_last_end, database, sides)
        assert [found for seed in choice_of(range(60), 60) if (found := run(seed))] == []


def test_removed_rule_is_missed(database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    remove_touch(monkeypatch)
    with pair(database_url, LEVELS[0]) as sides:
        assert any(redrive_beside_the_last_end(database, sides, seed) for seed in range(MAX_ORDERS))
