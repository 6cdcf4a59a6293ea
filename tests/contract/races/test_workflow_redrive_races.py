"""A manual retry of a node's execution at the same moment as a step, an end, a retry of the workflow or a cancellation.

Both sides take their statements in random orders; then the workflow runs to its end. `make fuzz` runs more orders.
"""

import random
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

import pytest
from sqlalchemy import text

from app.features.workflows import control
from app.features.workflows.steps import advancing, reporting, retrying
from app.kernel.db import Database
from app.queue.executions import manual_retry
from app.queue.executions.execution_cancellation import IfRunning
from app.queue.executions.manual_retry import retry_execution
from tests.cases import Breaches, choice_of
from tests.contract.features.workflows import flows
from tests.contract.features.workflows.flows import job
from tests.contract.races.interleaving import Body, SideGroup, pair
from tests.contract.races.retried_workflows import FAILED, finish, remove_touch, unlocked, without
from tests.contract.races.workflow_sides import LEVELS, MAX_CHOICES, MAX_ORDERS, TABLES, outbox

NODES = [
    job("a"),
    job("b", "a"),
    job("m", for_each=[1, 2], tolerate={"count": 0}, on_failure="continue"),
    job("j", "m", "b", run_if="all_done"),
]


@pytest.fixture(autouse=True)
def _worker(database: Database) -> None:
    flows.register(database)


class Scene:
    """A workflow whose place failed; the step that counts the failure is still to come, unless `is_over`."""

    def __init__(self, database: Database, place: str, *, is_over: bool) -> None:
        for table in ["execution_events", "dead_letters", *TABLES, "workflow_events"]:
            database.fetch(text(f"DELETE FROM {table}"))
        self.workflow_id = flows.create(database, NODES)
        if is_over:
            flows.run(database, self.workflow_id, failing=[place])
        else:
            flows.advance(database, self.workflow_id)
        places = {found: each for each, found in flows.places_of(database, self.workflow_id).items()}
        self.execution_id = places[place]
        self.events: list[str] = []
        if not is_over:
            claims = {claim.execution_id: claim for claim in flows.claims(database)}
            self.events = flows.end(database, [claims.pop(self.execution_id)], flows.FAILED)
            self.others = flows.end(database, [*claims.values()])

    def redrive(self, database: Database) -> None:
        retry_execution(database, self.execution_id, actor=None)

    def redrive_and_run(self, database: Database) -> None:
        self.redrive(database)
        self.run(database)

    def run(self, database: Database) -> None:
        """Run the retried execution, as a worker does."""
        outbox(flows.end(database, flows.claims(database)), database)

    def settle(self, database: Database) -> None:
        outbox(self.events, database)

    def advance(self, database: Database) -> None:
        flows.advance(database, self.workflow_id)

    def retry(self, database: Database) -> None:
        retrying.retry(database, self.workflow_id, FAILED, actor=None)
        flows.advance(database, self.workflow_id)

    def cancel(self, database: Database) -> None:
        control.cancel(database, self.workflow_id, if_running=IfRunning.REQUEST, actor=None)
        flows.advance(database, self.workflow_id)

    def end(self, database: Database) -> None:
        """Handle all that is left."""
        outbox(self.events, database)


Sides = Callable[[Scene], Sequence[Body]]
OVER: dict[str, Sides] = {
    "redrive": lambda scene: [scene.redrive, scene.redrive],
    "step": lambda scene: [scene.redrive_and_run, scene.advance],
    "retry": lambda scene: [scene.redrive, scene.retry],
}
OPEN: dict[str, Sides] = {
    "settle": lambda scene: [scene.redrive, scene.settle],
    "settle-run": lambda scene: [scene.redrive_and_run, scene.settle],
    "cancel": lambda scene: [scene.redrive, scene.cancel],
}


def breaches(database: Database, sides: SideGroup, seed: int, bodies: Sides, place: str, *, is_over: bool) -> list[str]:
    """Run both sides in a random order, then the workflow to its end."""
    scene = Scene(database, place, is_over=is_over)
    choices = random.Random(seed).choices((0, 1), k=MAX_CHOICES)
    sides.run(bodies(scene), choices, with_reads=True)
    taken = [*sides.taken]
    found = finish(database, scene)
    return [*found, *taken] if found else []


@pytest.mark.sampled
@pytest.mark.timeout(900)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("locks", [True, False], ids=["locks", "no locks"])
def test_redrive_beside_another_change_carries_the_workflow_on(
    database: Database, database_url: str, level: str, locks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not locks:
        unlocked(monkeypatch)
    with pair(database_url, level) as sides, Breaches() as found:
        for (name, bodies), place in product((OVER | OPEN).items(), ["a", "m#1"]):
            run = partial(breaches, database, sides, bodies=bodies, place=place, is_over=name in OVER)
            for seed in choice_of(range(60), 60):
                with found.case(name, place, seed):
                    assert run(seed=seed) == []


def remove_check_of_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of an earlier release does not touch the workflow, so the check stays."""
    remove_touch(monkeypatch)
    part = "AND n.reported_to = u.before AND n.state = u.state AND NOT n.is_reopened"
    monkeypatch.setattr(reporting, "REPORTED", without(reporting.REPORTED, part))


def remove_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manual_retry, "mark_retried", lambda *_: {})


@pytest.mark.parametrize(
    ("remove", "bodies", "is_over"),
    [(remove_check_of_reports, OPEN["settle"], False), (remove_mark, OVER["step"], True)],
    ids=["check of reports and touch", "mark"],
)
def test_removed_rule_is_missed(
    database: Database,
    database_url: str,
    remove: Callable[[pytest.MonkeyPatch], None],
    bodies: Sides,
    is_over: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    remove(monkeypatch)
    assert advancing.LOCK.text
    with pair(database_url, LEVELS[0]) as sides:
        run = partial(breaches, database, sides, bodies=bodies, place="a", is_over=is_over)
        assert any(run(seed=seed) for seed in range(MAX_ORDERS))
