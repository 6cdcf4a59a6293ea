"""Manual retries and redrives of executions of nodes: their workflow goes on."""

from collections.abc import Mapping

import pytest
from sqlalchemy import text

from app.features.workflows import control
from app.features.workflows.rules.retry_plan import RetryRequest
from app.features.workflows.steps import retrying
from app.features.workflows.stored.pruning import DELETED
from app.kernel.db import Database
from app.kernel.errors import ConflictError
from app.queue.ending.letters import DEAD_LETTERS
from app.queue.executions.execution_cancellation import IfRunning
from app.queue.executions.manual_retry import redrive_executions, retry_execution, retry_executions
from tests.contract.features.workflows import flows
from tests.contract.features.workflows.flows import body, counts, job, runs
from tests.contract.features.workflows.workflow_chores import run_chore


@pytest.fixture(autouse=True)
def _worker(database: Database) -> None:
    flows.register(database)


def executions(database: Database, workflow_id: str) -> Mapping[str, str]:
    """Return the execution of each place."""
    return {place: execution for execution, place in flows.places_of(database, workflow_id).items()}


def retry(database: Database, workflow_id: str, *places: str) -> None:
    found = executions(database, workflow_id)
    for place in places:
        retry_execution(database, found[place], actor="x")


def test_retried_execution_of_an_ended_workflow_carries_it_on(database: Database) -> None:
    nodes = [job("a"), job("b", "a"), job("c", "b"), job("h", "b", run_if="any_failed"), job("side"), job("d", "side")]
    workflow_id = flows.create(database, nodes)
    flows.run(database, workflow_id, failing=["b"])
    assert flows.status(database, workflow_id) == "FAILED"
    first = flows.nodes(database, workflow_id)
    retry(database, workflow_id, "b")
    assert run_chore(database)["advanced"] == 1
    assert flows.status(database, workflow_id) == "RUNNING"
    assert counts(database, workflow_id) == {"open_nodes": 2, "running": 1, "succeeded": 4}
    assert flows.run(database, workflow_id) == [["b"], ["c"]]
    assert flows.status(database, workflow_id) == "SUCCEEDED"
    assert counts(database, workflow_id) == {"succeeded": 6}
    kept = {"a", "b", "h", "side", "d"}
    last = flows.nodes(database, workflow_id)
    assert [row.execution_id for row in last if row.name in kept] == [
        row.execution_id for row in first if row.name in kept
    ]
    assert set(runs(database, workflow_id).values()) == {1}
    history = database.fetch(text("SELECT to_status, reason FROM workflow_events ORDER BY occurred_at, event_id"))
    assert [tuple(row) for row in history][-2:] == [("RUNNING", "RETRIED"), ("SUCCEEDED", None)]


def test_nodes_skipped_elsewhere_by_the_stop_wait_again(database: Database) -> None:
    nodes = [job("a"), job("slow"), job("d", "slow"), job("e", "d"), job("j", "a", "e")]
    workflow_id = flows.create(database, nodes)
    flows.advance(database, workflow_id)
    places = flows.places_of(database, workflow_id)
    claimed = {places[claim.execution_id]: claim for claim in flows.claims(database)}
    flows.handle(database, flows.end(database, [claimed["a"]], flows.FAILED))
    flows.advance(database, workflow_id)
    flows.handle(database, flows.end(database, [claimed["slow"]]))
    flows.advance(database, workflow_id)
    assert flows.states(database, workflow_id)["d"] == "SKIPPED STOPPED"
    retry(database, workflow_id, "a")
    assert flows.run(database, workflow_id) == [["a", "d"], ["e"], ["j"]]
    assert flows.status(database, workflow_id) == "SUCCEEDED"
    assert counts(database, workflow_id) == {"succeeded": 5}


def test_workflow_stays_stopped_while_another_node_is_failed(database: Database) -> None:
    workflow_id = flows.create(database, [job("a"), job("b"), job("c", "a"), job("d", "c", "b")])
    flows.run(database, workflow_id, failing=["a", "b"])
    retry(database, workflow_id, "a")
    assert flows.run(database, workflow_id) == [["a"]]
    assert flows.status(database, workflow_id) == "FAILED"
    assert flows.states(database, workflow_id)["c"] == "SKIPPED STOPPED"
    assert counts(database, workflow_id) == {"succeeded": 1, "failed": 1, "skipped": 2}
    retry(database, workflow_id, "b")
    assert flows.run(database, workflow_id) == [["b", "c"], ["d"]]
    assert counts(database, workflow_id) == {"succeeded": 4}


def test_second_failure_fails_the_workflow_again(database: Database) -> None:
    workflow_id = flows.create(database, [job("a"), job("b", "a")])
    for _ in range(3):
        flows.run(database, workflow_id, failing=["a"])
        assert flows.status(database, workflow_id) == "FAILED"
        assert counts(database, workflow_id) == {"failed": 1, "skipped": 1}
        retry(database, workflow_id, "a")
    flows.run(database, workflow_id)
    assert counts(database, workflow_id) == {"succeeded": 2}


def test_failure_that_nobody_has_counted_is_only_undone(database: Database) -> None:
    workflow_id = flows.create(database, [job("a"), job("b", "a")])
    flows.advance(database, workflow_id)
    ended = flows.end(database, flows.claims(database), flows.FAILED)
    retry(database, workflow_id, "a")
    assert flows.handle(database, ended) == set()
    assert flows.states(database, workflow_id)["a"] == "RUNNING"
    again = flows.end(database, flows.claims(database), flows.FAILED)
    flows.handle(database, again)
    assert flows.states(database, workflow_id)["a"] == "FAILED"
    retry(database, workflow_id, "a")
    assert flows.run(database, workflow_id) == [["a"], ["b"]]
    assert counts(database, workflow_id) == {"succeeded": 2}


def test_end_before_the_step_that_takes_back_is_counted_once(database: Database) -> None:
    workflow_id = flows.create(database, [job("a"), job("b", "a")])
    flows.run(database, workflow_id, failing=["a"])
    retry(database, workflow_id, "a")
    flows.handle(database, flows.end(database, flows.claims(database)))
    assert flows.status(database, workflow_id) == "FAILED"
    assert flows.run(database, workflow_id) == [["b"]]
    assert counts(database, workflow_id) == {"succeeded": 2}


@pytest.mark.parametrize("tolerate", [0, 1])
def test_retried_item_continues_its_node(database: Database, tolerate: int) -> None:
    nodes = [
        job("m", for_each=[1, 2, 3, 4], max_parallel=2, tolerate={"count": tolerate}),
        job("sum", "m", input={"n": "{{parents.m.succeeded}}"}),
    ]
    workflow_id = flows.create(database, nodes)
    flows.run(database, workflow_id, failing=["m#1", "m#2"])
    assert flows.states(database, workflow_id)["m"] == "FAILED ITEMS_FAILED"
    retry(database, workflow_id, "m#1", "m#2")
    assert flows.run(database, workflow_id) == [["m#1", "m#2"], ["m#3", "m#4"], ["sum"]]
    assert flows.inputs(database, workflow_id)["sum"] == {"n": 4}
    assert counts(database, workflow_id) == {"succeeded": 2}


def test_tolerated_item_is_repeated_and_what_used_it_stays(database: Database) -> None:
    nodes = [job("m", for_each=[1, 2], tolerate={"count": 1}), job("sum", "m")]
    workflow_id = flows.create(database, nodes)
    flows.run(database, workflow_id, failing=["m#1"])
    assert flows.status(database, workflow_id) == "SUCCEEDED"
    retry(database, workflow_id, "m#1")
    assert flows.run(database, workflow_id) == [["m#1"]]
    assert counts(database, workflow_id) == {"succeeded": 2}
    assert flows.status(database, workflow_id) == "SUCCEEDED"


def test_node_with_items_that_the_stop_ended_goes_on(database: Database) -> None:
    nodes = [job("a"), job("m", for_each=[1, 2, 3], max_parallel=1), job("z", "m", "a")]
    workflow_id = flows.create(database, nodes)
    assert flows.run(database, workflow_id, failing=["a"]) == [["a", "m#1"]]
    assert flows.states(database, workflow_id)["m"] == "CANCELLED STOPPED"
    retry(database, workflow_id, "a")
    assert flows.run(database, workflow_id) == [["a", "m#2"], ["m#3"], ["z"]]
    assert counts(database, workflow_id) == {"succeeded": 3}


def test_bulk_redrive_carries_several_workflows_on(database: Database) -> None:
    made = [flows.create(database, [job("a"), job("b", "a")]) for _ in range(3)]
    for workflow_id in made:
        flows.run(database, workflow_id, failing=["a"])
    found = [executions(database, workflow_id)["a"] for workflow_id in made]
    done = database.transact(lambda connection: retry_executions(connection, found, actor="x"))
    assert (done.refused, sum(done.queues.values())) == ({}, 3)
    for workflow_id in made:
        flows.advance(database, workflow_id)
    flows.handle(database, flows.end(database, flows.claims(database)))
    for workflow_id in made:
        assert flows.run(database, workflow_id) in ([["b"]], [])
    assert run_chore(database)["advanced"] in range(3)
    flows.handle(database, [row.end_id for row in database.fetch(text("SELECT end_id FROM execution_ends"))])
    for workflow_id in made:
        flows.run(database, workflow_id)
        assert counts(database, workflow_id) == {"succeeded": 2}


def test_handler_that_has_not_started_waits_again(database: Database) -> None:
    workflow_id = flows.create(
        database, [job("a"), job("h", "a", run_if="any_failed"), job("z", "h", run_if="all_done")]
    )
    flows.advance(database, workflow_id)
    control.pause(database, workflow_id, actor=None)
    flows.run(database, workflow_id, failing=["a"])
    assert flows.states(database, workflow_id)["h"] == "READY"
    retry(database, workflow_id, "a")
    flows.advance(database, workflow_id)
    assert flows.states(database, workflow_id) == {"a": "RUNNING", "h": "WAITING", "z": "WAITING"}
    control.resume(database, workflow_id, actor=None)
    assert flows.run(database, workflow_id) == [["a"], ["z"]]
    assert flows.states(database, workflow_id)["h"] == "SKIPPED NOT_NEEDED"


def test_execution_of_a_cancelled_workflow_is_refused(database: Database) -> None:
    workflow_id = flows.create(database, [job("a"), job("slow")])
    flows.advance(database, workflow_id)
    places = flows.places_of(database, workflow_id)
    claimed = {places[claim.execution_id]: claim for claim in flows.claims(database)}
    flows.handle(database, flows.end(database, [claimed["a"]], flows.FAILED))
    control.cancel(database, workflow_id, if_running=None, actor=None)
    with pytest.raises(ConflictError, match=r"which was cancelled\. Retry the workflow instead"):
        retry(database, workflow_id, "a")
    found = executions(database, workflow_id)["a"]
    done = database.transact(lambda connection: retry_executions(connection, [found], actor="x"))
    assert (list(done.refused), done.queues) == ([found], {})
    assert flows.states(database, workflow_id)["a"] == "FAILED"


def test_deadline_refuses_until_the_end_and_starts_again_after_it(database: Database) -> None:
    workflow_id = flows.create(database, [job("a"), job("slow"), job("b", "a")], deadline="1h")
    flows.advance(database, workflow_id)
    places = flows.places_of(database, workflow_id)
    claimed = {places[claim.execution_id]: claim for claim in flows.claims(database)}
    flows.handle(database, flows.end(database, [claimed["a"]], flows.FAILED))
    database.fetch(text("UPDATE workflows SET deadline_at = now()"))
    run_chore(database)
    with pytest.raises(ConflictError, match="has passed, and it stops"):
        retry(database, workflow_id, "a")
    flows.handle(database, flows.end(database, [claimed["slow"]]))
    flows.advance(database, workflow_id)
    assert flows.workflow(database, workflow_id).reason == "DEADLINE"
    retry(database, workflow_id, "a")
    assert flows.run(database, workflow_id) == [["a"], ["b"]]
    assert run_chore(database)["late"] == 0
    assert flows.status(database, workflow_id) == "SUCCEEDED"


def test_execution_of_an_earlier_run_is_refused(database: Database) -> None:
    nodes = [job("a"), job("m", for_each=[1])]
    workflow_id = flows.create(database, nodes)
    flows.run(database, workflow_id, failing=["a", "m#1"])
    first = executions(database, workflow_id)
    retrying.retry(database, workflow_id, RetryRequest(failed=True), actor=None)
    for place in ("a", "m#1"):
        with pytest.raises(ConflictError, match=r"is of run 1 of the node '.' of the workflow .*, which is at run 2"):
            retry_execution(database, first[place], actor=None)
    assert flows.run(database, workflow_id) == [["a", "m#1"]]
    with pytest.raises(ConflictError, match="of run 1"):
        retry_execution(database, first["m#1"], actor=None)


def test_execution_of_a_deleted_workflow_runs_alone(database: Database) -> None:
    deleting, gone = (flows.create(database, [job("a")]) for _ in range(2))
    for workflow_id in (deleting, gone):
        flows.run(database, workflow_id, failing=["a"])
    found = [executions(database, workflow_id)["a"] for workflow_id in (deleting, gone)]
    of_gone = {"id": gone}
    for table in ("workflow_nodes", "workflows"):
        database.fetch(text(f"DELETE FROM {table} WHERE workflow_id = :id"), of_gone)
    database.fetch(text("UPDATE workflows SET revision = :deleted"), {"deleted": DELETED})
    for execution_id in found:
        retry_execution(database, execution_id, actor=None)
    flows.handle(database, flows.end(database, flows.claims(database)))
    assert run_chore(database)["advanced"] == 0


def test_retried_workflow_waits_for_a_retried_execution(database: Database) -> None:
    workflow_id = flows.create(database, [job("a"), job("b")])
    flows.run(database, workflow_id, failing=["a"])
    retry(database, workflow_id, "a")
    with pytest.raises(ConflictError, match="was retried, and runs again"):
        retrying.retry(database, workflow_id, RetryRequest(["b"]), actor=None)


def test_redriven_letter_is_resolved_with_the_workflow_going_on(database: Database) -> None:
    workflow_id = flows.create(
        database, [job("a", input={"x": 1}), job("b", "a", input={"y": "{{parents.a.output.body}}"})]
    )
    flows.advance(database, workflow_id)
    ended = flows.end(database, flows.claims(database), flows.FAILED)
    flows.handle(database, ended, DEAD_LETTERS)
    flows.advance(database, workflow_id)
    assert flows.status(database, workflow_id) == "FAILED"
    letters = flows.letters(database)
    done = database.transact(lambda connection: redrive_executions(connection, letters, actor="x"))
    assert done.refused == {}
    assert flows.run(database, workflow_id, outputs={"a": body([2])}) == [["a"], ["b"]]
    assert flows.inputs(database, workflow_id)["b"] == {"y": [2]}
    control_error = pytest.raises(ConflictError, match="SUCCEEDED")
    with control_error:
        control.cancel(database, workflow_id, if_running=IfRunning.ABORT, actor=None)
