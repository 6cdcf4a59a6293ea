"""Retry of workflows from nodes: nodes that run again, nodes that keep their results, and refusals."""

from typing import Any

import pytest
from sqlalchemy import text

from app.features.workflows import control
from app.features.workflows.rules.retry_plan import RetryPlan, RetryRequest
from app.features.workflows.steps import retrying
from app.features.workflows.stored.pruning import DELETED
from app.kernel.db import Database
from app.kernel.errors import ConflictError, InvalidRequestError, WorkflowNotFoundError
from tests.contract.features.workflows import flows
from tests.contract.features.workflows.flows import body, counts, gate, job, runs
from tests.contract.features.workflows.workflow_chores import run_chore

FAILED = RetryRequest(failed=True)


@pytest.fixture(autouse=True)
def _worker(database: Database) -> None:
    flows.register(database)


def retry(database: Database, workflow_id: str, *names: str) -> RetryPlan:
    wanted = RetryRequest(names) if names else FAILED
    seen = retrying.preview(database, workflow_id, wanted)
    before = rows(database, workflow_id)
    assert retrying.preview(database, workflow_id, wanted) == seen
    assert rows(database, workflow_id) == before
    assert retrying.retry(database, workflow_id, wanted, actor="x") == seen
    return seen


def rows(database: Database, workflow_id: str) -> list[Any]:
    return [flows.workflow(database, workflow_id), *flows.nodes(database, workflow_id)]


def again(plan: RetryPlan) -> list[str]:
    return [each.before.name for each in plan.again]


CHAIN = [job("a"), job("side", on_failure="continue"), job("b", "a"), job("c", "b"), job("h", "b", run_if="any_failed")]


def test_failed_workflow_continues_from_its_failed_node(database: Database) -> None:
    workflow_id = flows.create(database, CHAIN)
    assert flows.run(database, workflow_id, failing=["b"]) == [["a", "side"], ["b"], ["h"]]
    assert flows.status(database, workflow_id) == "FAILED"
    first = {row.name: row.execution_id for row in flows.nodes(database, workflow_id)}
    plan = retry(database, workflow_id, "b")
    assert again(plan) == ["b", "c", "h"]
    assert [node.name for node in plan.kept] == ["a", "side"]
    assert counts(database, workflow_id) == {"open_nodes": 3, "succeeded": 2}
    assert flows.run(database, workflow_id) == [["b"], ["c"]]
    assert flows.status(database, workflow_id) == "SUCCEEDED"
    assert flows.states(database, workflow_id)["h"] == "SKIPPED NOT_NEEDED"
    assert runs(database, workflow_id) == {"a": 1, "side": 1, "b": 2, "c": 1, "h": 2}
    assert counts(database, workflow_id) == {"succeeded": 4, "skipped": 1}
    last = {row.name: row.execution_id for row in flows.nodes(database, workflow_id)}
    assert (last["a"], last["b"] != first["b"]) == (first["a"], True)
    assert len(flows.jobs_of(database, workflow_id)) == 6
    history = database.fetch(
        text("SELECT to_status, actor, reason FROM workflow_events ORDER BY occurred_at, event_id")
    )
    assert [tuple(row) for row in history] == [
        ("RUNNING", None, None),
        ("STOPPING", None, "NODE_FAILED"),
        ("FAILED", None, "NODE_FAILED"),
        ("RUNNING", "x", "RETRIED"),
        ("SUCCEEDED", None, None),
    ]


def test_succeeded_node_runs_again_with_all_nodes_behind_it(database: Database) -> None:
    nodes = [job("a"), job("b", "a", input={"x": "{{parents.a.output.body}}"}), gate("g", "b"), job("c", "g")]
    workflow_id = flows.create(database, nodes)
    flows.run(database, workflow_id, outputs={"a": body([1])})
    assert again(retry(database, workflow_id, "b")) == ["b", "g", "c"]
    assert flows.run(database, workflow_id) == [["b"], ["c"]]
    assert flows.inputs(database, workflow_id)["b"] == {"x": [1]}
    assert runs(database, workflow_id) == {"a": 1, "b": 2, "g": 2, "c": 2}


def test_cancelled_workflow_runs_again_with_all_that_it_skipped(database: Database) -> None:
    workflow_id = flows.create(database, [job("a"), job("b", "a"), job("slow"), job("c", "slow")])
    flows.advance(database, workflow_id)
    places = flows.places_of(database, workflow_id)
    done = [claim for claim in flows.claims(database) if places[claim.execution_id] == "a"]
    flows.handle(database, flows.end(database, done))
    control.cancel(database, workflow_id, if_running=None, actor=None)
    database.fetch(text("UPDATE executions SET status = 'QUEUED', worker_id = NULL WHERE status = 'RUNNING'"))
    run_chore(database)
    flows.handle(database, [row.end_id for row in database.fetch(text("SELECT end_id FROM execution_ends"))])
    flows.advance(database, workflow_id)
    assert flows.status(database, workflow_id) == "CANCELLED"
    assert sorted(again(retry(database, workflow_id))) == ["b", "c", "slow"]
    assert flows.run(database, workflow_id) == [["b", "slow"], ["c"]]
    assert flows.status(database, workflow_id) == "SUCCEEDED"
    assert counts(database, workflow_id) == {"succeeded": 4}


def test_items_of_the_last_run_count_alone(database: Database) -> None:
    nodes = [
        job("list"),
        job("map", "list", for_each="{{parents.list.output.body}}", input={"x": "{{item}}"}),
        job("sum", "map", input={"x": "{{parents.map.results}}", "n": "{{parents.map.count}}"}),
    ]
    workflow_id = flows.create(database, nodes)
    flows.run(database, workflow_id, failing=["map#2"], outputs={"list": body([1, 2, 3])})
    assert counts(database, workflow_id) == {"succeeded": 1, "failed": 1, "skipped": 1}
    retry(database, workflow_id, "list")
    outputs = {"list": body([7, 8]), "map#1": body([1]), "map#2": body([2])}
    assert flows.run(database, workflow_id, outputs=outputs) == [["list"], ["map#1", "map#2"], ["sum"]]
    results = [{"status_code": 200, "body": [1]}, {"status_code": 200, "body": [2]}]
    assert flows.inputs(database, workflow_id)["sum"] == {"x": results, "n": 2}
    assert counts(database, workflow_id) == {"succeeded": 3}
    items = [(row.item, row.run, row.state) for row in flows.nodes(database, workflow_id) if row.item]
    assert items == [(1, 2, "SUCCEEDED"), (2, 2, "SUCCEEDED"), (3, 1, "SUCCEEDED")]


def test_paused_workflow_stays_paused_and_counts_the_nodes_that_still_run(database: Database) -> None:
    workflow_id = flows.create(database, [job("a"), job("b", "a"), job("slow"), job("join", "b", "slow")])
    flows.advance(database, workflow_id)
    control.pause(database, workflow_id, actor=None)
    places = flows.places_of(database, workflow_id)
    claimed = {places[claim.execution_id]: claim for claim in flows.claims(database)}
    flows.handle(database, flows.end(database, [claimed["a"]], flows.FAILED))
    assert again(retry(database, workflow_id)) == ["a", "b", "join"]
    assert counts(database, workflow_id) == {"open_nodes": 4, "running": 1}
    with pytest.raises(ConflictError, match="'slow' would run again, but has not ended"):
        retry(database, workflow_id, "slow")
    flows.handle(database, flows.end(database, [claimed["slow"]]))
    assert flows.status(database, workflow_id) == "PAUSED"
    control.resume(database, workflow_id, actor=None)
    assert flows.run(database, workflow_id) == [["a"], ["b"], ["join"]]
    assert counts(database, workflow_id) == {"succeeded": 4}
    assert flows.status(database, workflow_id) == "SUCCEEDED"


def test_deadline_starts_again(database: Database) -> None:
    workflow_id = flows.create(database, [job("a")], deadline="1h")
    flows.advance(database, workflow_id)
    (running,) = flows.claims(database)
    database.fetch(text("UPDATE workflows SET deadline_at = now() - INTERVAL '9 hours', created_at = now()"))
    run_chore(database)
    flows.handle(database, flows.end(database, [running], flows.FAILED))
    flows.advance(database, workflow_id)
    assert flows.workflow(database, workflow_id).reason == "DEADLINE"
    retry(database, workflow_id)
    left = database.fetch(text("SELECT deadline_at > now() + INTERVAL '59 minutes' AS is_far FROM workflows"))
    assert left[0].is_far
    assert run_chore(database)["late"] == 0
    assert flows.run(database, workflow_id) == [["a"]]
    assert flows.status(database, workflow_id) == "SUCCEEDED"


def test_deadline_of_a_workflow_of_an_earlier_release_starts_again(database: Database) -> None:
    workflow_id = flows.create(database, [job("a")], deadline="1h")
    flows.run(database, workflow_id)
    change = "created_at = now() - INTERVAL '9 hours', deadline_at = now() - INTERVAL '8 hours', deadline_ms = NULL"
    database.fetch(text(f"UPDATE workflows SET {change}"))
    retry(database, workflow_id, "a")
    left = database.fetch(text("SELECT deadline_at > now() + INTERVAL '59 minutes' AS is_far FROM workflows"))
    assert left[0].is_far


def test_retry_that_cannot_help_is_refused(database: Database) -> None:
    nodes = [job("a"), job("b", "a"), job("c", "b"), job("soft", on_failure="continue"), job("after", "soft")]
    workflow_id = flows.create(database, nodes)
    with pytest.raises(ConflictError, match="is RUNNING: only an ended or paused workflow"):
        retry(database, workflow_id, "a")
    flows.run(database, workflow_id, failing=["b", "soft"])
    with pytest.raises(InvalidRequestError, match="Did you mean 'after'") as refused:
        retry(database, workflow_id, "a", "aftre", "nope")
    assert [detail["pointer"] for detail in refused.value.details] == ["/from_nodes/1", "/from_nodes/2"]
    with pytest.raises(ConflictError, match="'b' failed and would stop the workflow again"):
        retry(database, workflow_id, "c")
    with pytest.raises(ConflictError, match="'after' would be skipped again"):
        retry(database, workflow_id, "b", "after")
    with pytest.raises(WorkflowNotFoundError):
        retry(database, "wf_none", "a")
    retry(database, workflow_id)
    flows.run(database, workflow_id)
    assert flows.status(database, workflow_id) == "SUCCEEDED"
    with pytest.raises(ConflictError, match="No node of the workflow failed"):
        retry(database, workflow_id)


def test_workflow_that_is_being_deleted_cannot_be_retried(database: Database) -> None:
    workflow_id = flows.create(database, [job("a")])
    flows.run(database, workflow_id)
    database.fetch(text("UPDATE workflows SET revision = :deleted"), {"deleted": DELETED})
    with pytest.raises(WorkflowNotFoundError):
        retry(database, workflow_id, "a")


def test_retried_retry_and_failure_again(database: Database) -> None:
    workflow_id = flows.create(database, [job("a"), job("b", "a")])
    for _ in range(3):
        flows.run(database, workflow_id, failing=["b"])
        assert flows.status(database, workflow_id) == "FAILED"
        retry(database, workflow_id)
    flows.run(database, workflow_id)
    assert runs(database, workflow_id) == {"a": 1, "b": 4}
    assert counts(database, workflow_id) == {"succeeded": 2}
