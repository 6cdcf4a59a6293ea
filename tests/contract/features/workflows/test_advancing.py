"""Advance of workflows: each node starts once all its parents are through, and the workflow ends with its last node."""

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from tests.contract.features.workflows import flows
from tests.contract.features.workflows.flows import gate, job

DIAMOND = [job("a"), job("b", "a"), job("c", "a"), job("d", "b", "c")]


@pytest.fixture(autouse=True)
def _worker(database: Database) -> None:
    flows.register(database)


def test_nodes_start_after_all_their_parents(database: Database) -> None:
    workflow_id = flows.create(database, DIAMOND)
    assert flows.run(database, workflow_id) == [["a"], ["b", "c"], ["d"]]
    found = flows.workflow(database, workflow_id)
    assert (found.status, found.open_nodes, found.running, found.succeeded) == ("SUCCEEDED", 0, 0, 4)
    assert found.ended_at is not None


def test_gates_pass_without_a_job(database: Database) -> None:
    workflow_id = flows.create(database, [gate("start"), job("a", "start"), gate("end", "a")])
    assert flows.run(database, workflow_id) == [["a"]]
    assert flows.status(database, workflow_id) == "SUCCEEDED"


def test_failed_node_stops_its_workflow_and_handlers_run(database: Database) -> None:
    nodes = [
        job("a"),
        job("bad", "a"),
        job("good", "a"),
        job("behind", "bad"),
        job("beside", "good"),
        job("handler", "bad", run_if="any_failed"),
        job("unneeded", "a", run_if="any_failed"),
        job("cleanup", "behind", "beside", run_if="all_done"),
    ]
    workflow_id = flows.create(database, nodes)
    waves = flows.run(database, workflow_id, failing=["bad"])
    assert waves == [["a"], ["bad", "good"], ["cleanup", "handler"]]
    assert flows.states(database, workflow_id) == {
        "a": "SUCCEEDED",
        "bad": "FAILED",
        "good": "SUCCEEDED",
        "behind": "SKIPPED UPSTREAM",
        "beside": "SKIPPED STOPPED",
        "handler": "SUCCEEDED",
        "unneeded": "SKIPPED NOT_NEEDED",
        "cleanup": "SUCCEEDED",
    }
    found = flows.workflow(database, workflow_id)
    assert (found.status, found.reason, found.failed, found.skipped) == ("FAILED", "NODE_FAILED", 1, 3)


def test_failure_with_continue_skips_only_the_nodes_behind_it(database: Database) -> None:
    nodes = [job("bad", on_failure="continue"), job("behind", "bad"), job("a"), job("b", "a")]
    workflow_id = flows.create(database, nodes)
    assert flows.run(database, workflow_id, failing=["bad"]) == [["a", "bad"], ["b"]]
    found = flows.workflow(database, workflow_id)
    assert (found.status, found.failed, found.skipped, found.succeeded) == ("SUCCEEDED", 1, 1, 2)


def test_limit_of_the_workflow_keeps_ready_nodes_back(database: Database) -> None:
    workflow_id = flows.create(database, [job(f"n{number}") for number in range(5)], max_parallel=2)
    assert [len(wave) for wave in flows.run(database, workflow_id)] == [2, 2, 1]
    assert flows.status(database, workflow_id) == "SUCCEEDED"


def test_wide_graph_advances_in_steps(database: Database) -> None:
    """More children than one step reports to, and more parents than one step counts."""
    members = [f"m{number}" for number in range(1_203)]
    workflow_id = flows.create(
        database, [job("first"), *(job(name, "first") for name in members), gate("join", *members), job("last", "join")]
    )
    assert [len(wave) for wave in flows.run(database, workflow_id)] == [1, 1_203, 1]
    assert flows.workflow(database, workflow_id).succeeded == 1_206
    assert len(flows.jobs_of(database, workflow_id)) == 1_205


def test_delayed_node_waits_in_the_queue(database: Database) -> None:
    workflow_id = flows.create(database, [job("a", delay="1h")])
    assert flows.run(database, workflow_id) == []
    (row,) = flows.nodes(database, workflow_id)
    (execution,) = database.fetch(
        text("SELECT status, run_at > now() + INTERVAL '59 minutes' AS is_late FROM executions")
    )
    assert (row.state, execution.status, execution.is_late) == ("RUNNING", "PENDING", True)


def test_end_is_settled_alone_while_a_step_holds_its_workflow_or_fails(database: Database) -> None:
    """A settlement waits for nobody; the next step reports the end."""
    locks = "SELECT 1 FROM workflows FOR UPDATE", "SELECT 1 FROM endpoints WHERE name = 'target' FOR UPDATE"
    for lock in locks:
        workflow_id = flows.create(database, [job("a"), job("b", "a")])
        flows.advance(database, workflow_id)
        events = flows.end(database, flows.claims(database))
        with database.engine.connect() as other, other.begin():
            other.execute(text(lock))
            assert flows.handle(database, events) == {workflow_id}
            assert flows.states(database, workflow_id) == {"a": "SUCCEEDED", "b": "WAITING"}
        assert flows.run(database, workflow_id) == [["b"]]
        assert flows.status(database, workflow_id) == "SUCCEEDED"


def test_ends_of_one_workflow_start_the_next_node_in_their_own_transaction(database: Database) -> None:
    workflow_id = flows.create(database, [job("a"), job("b", "a")])
    flows.advance(database, workflow_id)
    flows.handle(database, flows.end(database, flows.claims(database)))
    assert flows.states(database, workflow_id) == {"a": "SUCCEEDED", "b": "RUNNING"}
