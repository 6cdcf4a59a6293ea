"""Continuation: a sub-workflow that goes on after its end carries on the workflows around it."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from sqlalchemy import text

from app.features.workflows import execution_start
from app.features.workflows.rules.retry_plan import RetryRequest
from app.features.workflows.steps import retrying
from app.kernel.db import Database
from app.queue.ending.letters import DEAD_LETTERS, DeadLetter
from app.queue.executions.execution_cancellation import IfRunning, cancel_execution
from app.queue.executions.manual_retry import redrive_executions, retry_execution
from tests import rows
from tests.claiming import take
from tests.contract.features.workflows import flows
from tests.contract.features.workflows.flows import job
from tests.contract.features.workflows.workflow_chores import run_chore
from tests.contract.features.workflows.workflow_executions import add, claim, define

INNER: dict[str, Any] = {"nodes": [job("a"), job("b", "a"), job("c", "b")]}
MIDDLE: dict[str, Any] = {"nodes": [{"name": "inner", "endpoint": "inner"}, job("behind", "inner")]}
SPECS = {"inner": INNER, "middle": MIDDLE}
OUTER: list[dict[str, Any]] = [{"name": "middle", "endpoint": "middle"}, job("last", "middle")]
KEYS = text("SELECT idempotency_key FROM jobs WHERE endpoint = 'target'")


class Levels(NamedTuple):
    """Workflows inside of each other, from the outermost to the innermost."""

    outer: str
    middle: str
    inner: str


@pytest.fixture(autouse=True)
def _definitions(database: Database) -> None:
    flows.register(database)
    for name, spec in SPECS.items():
        define(database, name, spec)


def begin_all(database: Database) -> set[str]:
    """Claim the due executions of workflows, as a worker does; returns the ids of their workflows."""
    claimed = take(database, flows.WORKER, queue="workflow").claims
    return {execution_start.start(database, each.execution_id, each.attempt, SPECS[each.endpoint]) for each in claimed}


def begin(database: Database) -> str:
    """Do the same for the only due execution."""
    (workflow_id,) = begin_all(database)
    return workflow_id


def failed(database: Database, **fields: Any) -> Levels:
    """Return workflows that failed because the node `b` of the innermost one did."""
    outer = flows.create(database, OUTER, **fields)
    flows.advance(database, outer)
    middle = begin(database)
    flows.advance(database, middle)
    levels = Levels(outer, middle, begin(database))
    fail(database, levels.inner)
    return levels


def fail(database: Database, inner: str) -> None:
    """Let the node `b` fail, and handle all ends, dead letters included."""
    for verdict in (None, flows.FAILED):
        flows.advance(database, inner)
        handle(database, flows.end(database, flows.claims(database), verdict))
    go_on(database)


def handle(database: Database, event_ids: Sequence[str]) -> None:
    flows.handle(database, event_ids, DEAD_LETTERS)


def go_on(database: Database) -> None:
    """Run the chore of workflows until each level has taken its step."""
    for _ in Levels._fields:
        run_chore(database)
        handle(database, [row.end_id for row in database.fetch(text("SELECT end_id FROM execution_ends"))])
    run_chore(database)


def statuses(database: Database, levels: Levels) -> list[str]:
    return [flows.status(database, each) for each in levels]


def letter_of(database: Database, endpoint: str) -> DeadLetter:
    (letter,) = (each for each in flows.letters(database) if each.endpoint == endpoint)
    return letter


def redrive(database: Database, *endpoints: str) -> None:
    letters = [letter_of(database, endpoint) for endpoint in endpoints]
    done = database.transact(lambda connection: redrive_executions(connection, letters, actor="x"))
    assert not done.refused


def finish(database: Database, levels: Levels) -> None:
    """Run the rest of all levels."""
    assert flows.run(database, levels.inner) == [["b"], ["c"]]
    go_on(database)
    assert flows.run(database, levels.middle) == [["behind"]]
    go_on(database)
    assert flows.run(database, levels.outer) == [["last"]]
    assert statuses(database, levels) == ["SUCCEEDED"] * 3
    assert database.fetch(text("SELECT count(*) AS n FROM workflows"))[0].n == 3


def assert_one_job_of_each_node(database: Database, levels: Levels) -> None:
    jobs = Counter(row.idempotency_key.split(":")[2] for row in database.fetch(KEYS))
    assert jobs == {levels.inner: 3, levels.middle: 1, levels.outer: 1}


def test_redriven_letter_carries_on_the_workflows_around_it(database: Database) -> None:
    levels = failed(database)
    assert statuses(database, levels) == ["FAILED"] * 3
    redrive(database, "target")
    go_on(database)
    assert statuses(database, levels) == ["RUNNING"] * 3
    assert {letter.resolution for letter in flows.letters(database)} == {"REDRIVEN", "RETRIED"}
    finish(database, levels)
    assert_one_job_of_each_node(database, levels)
    execution = rows.execution(database, letter_of(database, "inner").execution_id)
    assert (execution.status, execution.attempt_count) == ("SUCCESS", 2)
    tried = rows.attempts(database, execution.execution_id)
    assert [each.worker_id for each in tried] == [levels.inner, levels.inner]


def test_retry_of_the_inner_workflow_carries_on_the_workflows_around_it(database: Database) -> None:
    levels = failed(database)
    retrying.retry(database, levels.inner, RetryRequest(failed=True), actor="x")
    go_on(database)
    assert statuses(database, levels) == ["RUNNING"] * 3
    finish(database, levels)


def opened(database: Database) -> tuple[str, str]:
    """Return an execution that is RUNNING again, as its opened workflow, and the id of the workflow."""
    execution_id = add(database, "inner")
    workflow_id = begin(database)
    fail(database, workflow_id)
    redrive(database, "target")
    run_chore(database)
    execution = rows.execution(database, execution_id)
    assert (execution.status, execution.worker_id, execution.attempt_count) == ("RUNNING", workflow_id, 2)
    assert begin_all(database) == set()
    return execution_id, workflow_id


def test_execution_of_an_opened_workflow_is_cancelled_with_it(database: Database) -> None:
    execution_id, workflow_id = opened(database)
    cancel_execution(database, execution_id, if_running=IfRunning.ABORT, actor="x")
    go_on(database)
    assert flows.run(database, workflow_id) == []
    assert flows.status(database, workflow_id) == rows.execution(database, execution_id).status == "CANCELLED"


def test_each_cancellation_reaches_a_workflow_that_is_retried_in_between(database: Database) -> None:
    execution_id = add(database, "inner")
    workflow_id = begin(database)
    for attempt in (1, 2):
        assert rows.execution(database, execution_id).attempt_count == attempt
        cancel_execution(database, execution_id, if_running=IfRunning.ABORT, actor="x")
        go_on(database)
        assert flows.status(database, workflow_id) == rows.execution(database, execution_id).status == "CANCELLED"
        retrying.retry(database, workflow_id, RetryRequest(["a"]), actor="x")


def test_opened_workflow_that_fails_again_can_be_redriven_again(database: Database) -> None:
    execution_id, workflow_id = opened(database)
    flows.run(database, workflow_id, failing=["b"])
    assert rows.execution(database, execution_id).status == "FAILED"
    (again,) = (each for each, place in flows.places_of(database, workflow_id).items() if place == "b")
    retry_execution(database, again, actor="x")
    run_chore(database)
    flows.run(database, workflow_id)
    ended = rows.execution(database, execution_id)
    assert (ended.status, ended.attempt_count) == ("SUCCESS", 3)
    assert ended.output == {"workflow_id": workflow_id, "body": {"c": "SUCCEEDED"}}


@pytest.mark.parametrize("has_opened", [False, True])
def test_redriven_execution_of_a_workflow_that_compensates_starts_a_new_one(
    database: Database, *, has_opened: bool
) -> None:
    paid = {"name": "paid", "endpoint": "target", "compensate": {"endpoint": "undo"}}
    spec = {"nodes": [paid, job("b", "paid")], "on_failure": "compensate"}
    rows.add_endpoint(database, "undo")
    define(database, "saga", spec)
    execution_id = add(database, "saga")
    claimed = claim(database)
    first = execution_start.start(database, execution_id, claimed.attempt, spec)
    fail(database, first)
    handle(database, flows.end(database, flows.claims(database), flows.FAILED))
    go_on(database)
    assert flows.status(database, first) == "COMPENSATION_FAILED"
    redrive(database, "undo", "saga")
    if has_opened:
        run_chore(database)
        assert flows.status(database, first) == "COMPENSATING"
    claimed = claim(database)
    assert execution_start.start(database, execution_id, claimed.attempt, spec) != first


def test_letters_of_all_levels_redriven_at_once_run_each_node_once(database: Database) -> None:
    """A worker claims the executions before a step opens their workflows."""
    levels = failed(database)
    redrive(database, "target", "inner", "middle")
    assert begin_all(database) == {levels.middle, levels.inner}
    go_on(database)
    assert statuses(database, levels) == ["RUNNING"] * 3
    finish(database, levels)
    assert_one_job_of_each_node(database, levels)


def test_redriven_execution_alone_starts_a_new_workflow(database: Database) -> None:
    execution_id = add(database, "inner")
    first = begin(database)
    fail(database, first)
    redrive(database, "inner")
    second = begin(database)
    assert second != first
    retry_execution(database, letter_of(database, "target").execution_id, actor="x")
    for _ in INNER["nodes"]:
        run_chore(database)
        handle(database, flows.end(database, flows.claims(database)))
    go_on(database)
    assert [flows.status(database, each) for each in (first, second)] == ["SUCCEEDED"] * 2
    assert rows.execution(database, execution_id).output["workflow_id"] == second


def test_inner_workflow_runs_alone_if_the_workflow_around_it_was_undone(database: Database) -> None:
    undone = [{"name": "paid", "endpoint": "target", "compensate": {"endpoint": "target"}}]
    outer = flows.create(database, [*undone, {"name": "inner", "endpoint": "inner"}], on_failure="compensate")
    flows.advance(database, outer)
    inner = begin(database)
    flows.advance(database, inner)
    places = flows.places_of(database, inner) | flows.places_of(database, outer)
    for wave in (["a", "paid"], ["b"]):
        claimed = flows.claims(database)
        assert sorted(places[each.execution_id] for each in claimed) == wave
        verdict = flows.FAILED if wave == ["b"] else None
        handle(database, flows.end(database, claimed, verdict))
        flows.advance(database, inner)
        places |= flows.places_of(database, inner)
    go_on(database)
    flows.run(database, outer)
    assert flows.status(database, outer) == "COMPENSATED"
    redrive(database, "target")
    go_on(database)
    assert flows.run(database, inner) == [["b"], ["c"]]
    assert [flows.status(database, outer), flows.status(database, inner)] == ["COMPENSATED", "SUCCEEDED"]
    execution = rows.execution(database, letter_of(database, "inner").execution_id)
    assert (execution.status, flows.workflow(database, inner).attempt) == ("FAILED", execution.attempt_count)
