"""Executions that are workflows: one workflow each, and one end, whichever process dies or comes in between."""

import random
from functools import partial
from typing import Any

import pytest
from sqlalchemy import text

from app.features.workflows import control, execution_start
from app.features.workflows.steps import advancing
from app.kernel.db import Database
from app.queue.executions.execution_cancellation import IfRunning
from app.queue.executions.manual_retry import retry_execution
from tests import rows
from tests.cases import choice_of
from tests.contract.features.workflows import flows
from tests.contract.features.workflows.flows import job
from tests.contract.features.workflows.workflow_executions import add, claim, define
from tests.contract.races.interleaving import SideGroup, pair
from tests.contract.races.mortal import Mortal, chores
from tests.contract.races.racing import strip_locks
from tests.contract.races.workflow_sides import LEVELS, MAX_CHOICES, TABLES, outbox

SPEC = {"nodes": [job("step")]}
FACTS = text(
    """
    SELECT e.status, (SELECT count(*) FROM workflows AS w WHERE w.execution_id = e.execution_id) AS workflows,
           (SELECT count(*) FROM workflow_nodes) AS nodes,
           (SELECT count(*) FROM jobs WHERE idempotency_key LIKE 'te:node:%') AS jobs
      FROM executions AS e WHERE e.endpoint = 'report'
    """
)


@pytest.fixture(autouse=True)
def _definition(database: Database) -> None:
    flows.register(database)
    define(database, "report", SPEC)


def facts(database: Database) -> tuple[Any, ...]:
    (row,) = database.fetch(FACTS)
    return tuple(row)


def clear(database: Database) -> None:
    for table in (*TABLES, "execution_logs", "execution_events", "dead_letters"):
        if table not in {"executions", "jobs"}:
            database.fetch(text(f"DELETE FROM {table}"))
    for table in ("executions", "jobs"):
        database.fetch(text(f"DELETE FROM {table}"))


def test_worker_that_dies_at_any_statement_starts_one_workflow(database: Database, database_url: str) -> None:
    """Another worker starts the attempt again, and schedulers continue a stored workflow."""
    survived, dies_at = False, 0
    while not survived:
        clear(database)
        add(database, "report")
        claimed = claim(database)

        def start(mortal: Database, execution_id: str = claimed.execution_id) -> None:
            execution_start.WorkflowStarter(mortal, lambda _queue: None, lambda _ends: None)(execution_id, 1, SPEC)

        survived = Mortal(database_url, dies_at).run(start)
        workflow_id = execution_start.start(database, claimed.execution_id, 1, SPEC)
        chores(database)
        assert facts(database) == ("RUNNING", 1, 1, 1), dies_at
        flows.run(database, workflow_id)
        assert facts(database) == ("SUCCESS", 1, 1, 1), dies_at
        dies_at += 1
    assert dies_at > 12


def test_process_that_dies_at_any_statement_ends_an_execution_once(database: Database, database_url: str) -> None:
    survived, dies_at = False, 0
    while not survived:
        clear(database)
        execution_id = add(database, "report")
        workflow_id = execution_start.start(database, claim(database).execution_id, 1, SPEC)
        flows.advance(database, workflow_id)
        events = flows.end(database, flows.claims(database))
        survived = Mortal(database_url, dies_at).run(partial(outbox, events))
        outbox(events, database)
        chores(database)
        assert facts(database) == ("SUCCESS", 1, 1, 1), dies_at
        assert len(rows.attempts(database, execution_id)) == 1
        dies_at += 1
    assert dies_at > 8


def child_ends(events: list[str], database: Database) -> None:
    outbox(events, database)


def parent_is_cancelled(parent: str, database: Database) -> None:
    control.cancel(database, parent, if_running=IfRunning.ABORT, actor="test")
    flows.advance(database, parent)


def breach(database: Database, sides: SideGroup, seed: int) -> str:
    """End the child and cancel its parent in a random order; returns the breach, or an empty text."""
    clear(database)
    parent = flows.create(database, [{"name": "child", "endpoint": "report"}, job("last", "child")])
    flows.advance(database, parent)
    claimed = claim(database)
    child = execution_start.start(database, claimed.execution_id, claimed.attempt, SPEC)
    flows.advance(database, child)
    events = flows.end(database, flows.claims(database))
    choices = random.Random(seed).choices((0, 1), k=MAX_CHOICES)
    sides.run([partial(child_ends, events), partial(parent_is_cancelled, parent)], choices, with_reads=True)
    for _ in range(3):
        chores(database)
        flows.handle_all(database)
    chores(database)
    execution = rows.execution(database, claimed.execution_id).status
    found = flows.status(database, child), flows.status(database, parent), execution
    ends = {
        ("SUCCEEDED", "CANCELLED", "SUCCESS"): {"child": "SUCCEEDED", "last": "SKIPPED STOPPED"},
        ("CANCELLED", "CANCELLED", "CANCELLED"): {"child": "CANCELLED", "last": "SKIPPED STOPPED"},
    }
    states = flows.states(database, parent)
    return "" if ends.get(found) == states else f"{found} {states}: {sides.taken}"


@pytest.mark.sampled
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("locks", ["", " without locks"])
def test_end_of_a_child_and_cancellation_of_its_parent_leave_nothing_open(
    database: Database, database_url: str, level: str, locks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    strip_locks(monkeypatch, f"{level}{locks}", advancing, "LOCK")
    with pair(database_url, level) as sides:
        assert [found for seed in choice_of(range(60), 12) if (found := breach(database, sides, seed))] == []


@pytest.mark.sampled
@pytest.mark.parametrize("level", LEVELS)
def test_two_starts_of_one_attempt_store_one_workflow(database: Database, database_url: str, level: str) -> None:
    """A start that outlived its time limit runs beside the start of a repeated delivery."""
    with pair(database_url, level) as sides:
        for seed in choice_of(range(40), 10):
            clear(database)
            add(database, "report")
            claimed = claim(database)

            def start(side: Database, execution_id: str = claimed.execution_id) -> None:
                execution_start.start(side, execution_id, 1, SPEC)

            choices = random.Random(seed).choices((0, 1), k=MAX_CHOICES)
            sides.run([start, start], choices, with_reads=True)
            assert facts(database) == ("RUNNING", 1, 1, 0), sides.taken


def reopened(database: Database) -> tuple[str, str]:
    """Fail a workflow and retry the execution of its node; returns the execution that it is, and its id."""
    clear(database)
    execution_id = add(database, "report")
    workflow_id = execution_start.start(database, claim(database).execution_id, 1, SPEC)
    flows.run(database, workflow_id, failing=["step"])
    (node,) = flows.places_of(database, workflow_id)
    retry_execution(database, node, actor="test")
    return execution_id, workflow_id


@pytest.mark.parametrize("dies_in", ["step", "start"])
def test_process_that_dies_at_any_statement_continues_an_execution_once(
    database: Database, database_url: str, dies_in: str
) -> None:
    survived, dies_at = False, 0
    while not survived:
        execution_id, workflow_id = reopened(database)
        process = Mortal(database_url, dies_at)
        if dies_in == "step":
            survived = process.run(partial(flows.advance, workflow_id=workflow_id))
        else:
            retry_execution(database, execution_id, actor="test")
            claim(database)
            start = partial(execution_start.start, execution_id=execution_id, attempt=2, spec=SPEC)
            survived = process.run(start)
            assert start(database) == workflow_id, dies_at
        chores(database)
        flows.run(database, workflow_id)
        assert facts(database) == ("SUCCESS", 1, 1, 1), dies_at
        dies_at += 1
    assert dies_at > 4


@pytest.mark.sampled
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("locks", ["", " without locks"])
def test_retried_execution_continues_the_workflow_that_a_step_opens(
    database: Database, database_url: str, level: str, locks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The execution and the execution of its node were redriven together, and a worker claims first."""
    strip_locks(monkeypatch, f"{level}{locks}", advancing, "LOCK")
    with pair(database_url, level) as sides:
        for seed in choice_of(range(60), 12):
            execution_id, workflow_id = reopened(database)
            retry_execution(database, execution_id, actor="test")
            claim(database)
            start = partial(execution_start.start, execution_id=execution_id, attempt=2, spec=SPEC)
            step = partial(flows.advance, workflow_id=workflow_id)
            choices = random.Random(seed).choices((0, 1), k=MAX_CHOICES)
            sides.run([start, step], choices, with_reads=True)
            chores(database)
            flows.run(database, workflow_id)
            assert facts(database) == ("SUCCESS", 1, 1, 1), sides.taken
