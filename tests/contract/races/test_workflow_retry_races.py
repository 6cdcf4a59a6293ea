"""A retry of a workflow at the same moment as another change: each node has one execution of each run.

Both sides take their statements in random orders; then the workflow runs to its end. `make fuzz` runs more orders.
"""

import random
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

import pytest
from sqlalchemy import text

from app.features.workflows import control
from app.features.workflows.steps import advancing, retrying
from app.kernel.db import Database
from app.kernel.errors import ConflictError
from app.queue.executions.execution_cancellation import IfRunning
from tests.cases import Breaches, choice_of
from tests.contract.features.workflows import flows
from tests.contract.features.workflows.flows import job
from tests.contract.races.interleaving import Body, SideGroup, pair
from tests.contract.races.retried_workflows import FAILED, finish, unlocked, without
from tests.contract.races.workflow_sides import LEVELS, MAX_CHOICES, MAX_ORDERS, TABLES, outbox

NODES = [job("a"), job("b", "a"), job("slow"), job("c", "b", "slow"), job("clean", "c", run_if="all_done")]


@pytest.fixture(autouse=True)
def _worker(database: Database) -> None:
    flows.register(database)


class Scene:
    """A workflow whose node `a` failed; its node `slow` has ended, too, if `is_over`, else it runs."""

    def __init__(self, database: Database, *, is_over: bool) -> None:
        for table in ["execution_events", "dead_letters", *TABLES, "workflow_events"]:
            database.fetch(text(f"DELETE FROM {table}"))
        self.workflow_id = flows.create(database, NODES, deadline="1h")
        database.fetch(text("UPDATE workflows SET deadline_at = now()"))
        flows.advance(database, self.workflow_id)
        places = flows.places_of(database, self.workflow_id)
        claims = {places[claim.execution_id]: claim for claim in flows.claims(database)}
        if not is_over:
            control.pause(database, self.workflow_id, actor=None)
        outbox(flows.end(database, [claims["a"]], flows.FAILED), database)
        self.events = flows.end(database, [claims["slow"]])
        if is_over:
            outbox(self.events, database)
            flows.run(database, self.workflow_id)

    def retry(self, database: Database) -> None:
        retrying.retry(database, self.workflow_id, FAILED, actor=None)

    def retry_and_advance(self, database: Database) -> None:
        self.retry(database)
        flows.advance(database, self.workflow_id)

    def advance(self, database: Database) -> None:
        flows.advance(database, self.workflow_id)

    def end(self, database: Database) -> None:
        outbox(self.events, database)

    def resume(self, database: Database) -> None:
        control.resume(database, self.workflow_id, actor=None)
        flows.advance(database, self.workflow_id)

    def cancel(self, database: Database) -> None:
        control.cancel(database, self.workflow_id, if_running=IfRunning.REQUEST, actor=None)
        flows.advance(database, self.workflow_id)

    def stop_late(self, database: Database) -> None:
        control.stop_late(database, self.workflow_id)
        flows.advance(database, self.workflow_id)


Sides = Callable[[Scene], Sequence[Body]]
# Of a workflow that has ended, and of a paused one whose node `slow` has just ended.
OVER: dict[str, Sides] = {
    "retry": lambda scene: [scene.retry_and_advance, scene.retry_and_advance],
    "step": lambda scene: [scene.retry_and_advance, scene.advance],
    "cancel": lambda scene: [scene.retry_and_advance, scene.cancel],
}
PAUSED: dict[str, Sides] = {
    "retry": lambda scene: [scene.retry, scene.retry],
    "end": lambda scene: [scene.retry, scene.end],
    "resume": lambda scene: [scene.retry_and_advance, scene.resume],
    "cancel": lambda scene: [scene.retry_and_advance, scene.cancel],
    "deadline": lambda scene: [scene.retry_and_advance, scene.stop_late],
}


def breaches(database: Database, sides: SideGroup, seed: int, bodies: Sides, *, is_over: bool) -> list[str]:
    """Run both sides in a random order, then the workflow to its end."""
    scene = Scene(database, is_over=is_over)
    choices = random.Random(seed).choices((0, 1), k=MAX_CHOICES)
    sides.run(bodies(scene), choices, with_reads=True)
    taken = [*sides.taken]
    found = finish(database, scene)
    return [*found, *taken] if found else []


@pytest.mark.sampled
@pytest.mark.timeout(900)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("locks", [True, False], ids=["locks", "no locks"])
def test_retry_beside_another_change_runs_each_node_once(
    database: Database, database_url: str, level: str, locks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not locks:
        unlocked(monkeypatch)
    with pair(database_url, level) as sides, Breaches() as found:
        for is_over, (name, bodies) in [*product([True], OVER.items()), *product([False], PAUSED.items())]:
            run = partial(breaches, database, sides, bodies=bodies, is_over=is_over)
            for seed in choice_of(range(60), 60):
                with found.case(name, is_over, seed):
                    assert run(seed=seed) == []


def test_removed_rule_is_missed(database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the lock and the revision, a retry overwrites what a step has counted."""
    unlocked(monkeypatch)
    monkeypatch.setattr(retrying, "RESTART", without(retrying.RESTART, "AND revision = :revision"))
    monkeypatch.setattr(advancing, "FINISH", without(advancing.FINISH, "AND revision = :revision"))
    with pair(database_url, LEVELS[0]) as sides:
        run = partial(breaches, database, sides, bodies=PAUSED["end"], is_over=False)
        assert any(run(seed=seed) for seed in range(MAX_ORDERS))


def test_second_retry_is_refused(database: Database) -> None:
    scene = Scene(database, is_over=True)
    scene.retry_and_advance(database)
    with pytest.raises(ConflictError, match="is RUNNING"):
        scene.retry(database)
    assert finish(database, scene) == []
