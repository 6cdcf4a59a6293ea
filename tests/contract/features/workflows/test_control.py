"""Control of workflows: pause, resume, cancel and deadline, and the chores that continue and delete workflows."""

import pytest
from sqlalchemy import text

from app.features.workflows import chores, control
from app.features.workflows.rules.retry_plan import RetryRequest
from app.features.workflows.steps import node_settlement, retrying
from app.kernel.db import Database
from app.kernel.db.paging import Position
from app.kernel.errors import ConflictError
from app.kernel.formats import EPOCH
from app.queue.executions.execution_cancellation import cancel_execution
from app.queue.executions.execution_pruning import expired, unhandled_ends
from tests.contract.features.workflows import flows
from tests.contract.features.workflows.flows import job
from tests.contract.features.workflows.workflow_chores import run_chore


@pytest.fixture(autouse=True)
def _worker(database: Database) -> None:
    flows.register(database)


def handle_all(database: Database) -> None:
    flows.handle(database, [row.end_id for row in database.fetch(text("SELECT end_id FROM execution_ends"))])


def test_paused_workflow_starts_nothing_until_it_is_resumed(database: Database) -> None:
    workflow_id = flows.create(database, [job("a"), job("b", "a"), job("c", "b")])
    flows.advance(database, workflow_id)
    control.pause(database, workflow_id, actor="x")
    control.pause(database, workflow_id, actor="x")
    assert flows.run(database, workflow_id) == [["a"]]
    assert flows.states(database, workflow_id) == {"a": "SUCCEEDED", "b": "READY", "c": "WAITING"}
    assert run_chore(database)["advanced"] == 0
    control.resume(database, workflow_id, actor="x")
    with pytest.raises(ConflictError, match="RUNNING"):
        control.resume(database, workflow_id, actor="x")
    assert run_chore(database)["advanced"] == 1
    assert flows.run(database, workflow_id) == [["b"], ["c"]]
    events = database.fetch(text("SELECT to_status FROM workflow_events ORDER BY occurred_at, event_id"))
    assert [row.to_status for row in events] == ["RUNNING", "PAUSED", "RUNNING", "SUCCEEDED"]
    with pytest.raises(ConflictError, match="SUCCEEDED"):
        control.pause(database, workflow_id, actor="x")


def test_failure_during_a_pause_stops_the_resumed_workflow(database: Database) -> None:
    workflow_id = flows.create(
        database, [job("bad"), job("good"), job("next", "good"), job("h", "bad", run_if="any_failed")]
    )
    flows.advance(database, workflow_id)
    control.pause(database, workflow_id, actor=None)
    flows.run(database, workflow_id, failing=["bad"])
    assert flows.status(database, workflow_id) == "PAUSED"
    control.resume(database, workflow_id, actor=None)
    assert flows.status(database, workflow_id) == "STOPPING"
    assert flows.run(database, workflow_id) == [["h"]]
    assert flows.status(database, workflow_id) == "FAILED"


def test_cancelled_workflow_cancels_what_waits_and_lets_the_rest_end(database: Database) -> None:
    nodes = [job("a"), job("map", for_each=[1, 2, 3], max_parallel=2), job("b", "a"), job("h", "a", run_if="all_done")]
    workflow_id = flows.create(database, nodes)
    flows.advance(database, workflow_id)
    (running,) = flows.claims(database, 1)
    control.cancel(database, workflow_id, if_running=None, actor="x")
    control.cancel(database, workflow_id, if_running=None, actor="x")
    run_chore(database)
    handle_all(database)
    run_chore(database)
    assert flows.status(database, workflow_id) == "STOPPING"
    handle_all(database)
    flows.handle(database, flows.end(database, [running]))
    flows.advance(database, workflow_id)
    found = flows.workflow(database, workflow_id)
    assert (found.status, found.reason, found.running, found.cancelling) == ("CANCELLED", "CANCELLED", 0, None)
    assert flows.states(database, workflow_id)["h"] == "SKIPPED STOPPED"
    control.cancel(database, workflow_id, if_running=None, actor="x")


def test_deadline_aborts_what_runs(database: Database) -> None:
    workflow_id = flows.create(database, [job("a"), job("b", "a")], deadline="1h")
    flows.advance(database, workflow_id)
    (running,) = flows.claims(database)
    assert run_chore(database)["late"] == 0
    database.fetch(text("UPDATE workflows SET deadline_at = now()"))
    assert run_chore(database)["late"] == 1
    asked = database.fetch(text("SELECT abort_requested_at FROM executions"))
    assert asked[0].abort_requested_at is not None
    flows.handle(database, flows.end(database, [running], flows.FAILED))
    run_chore(database)
    found = flows.workflow(database, workflow_id)
    assert (found.status, found.reason) == ("FAILED", "DEADLINE")


def test_deadline_that_passed_beside_another_change_has_no_effect(database: Database) -> None:
    """The chore has read the workflow as late before the change."""
    workflow_id = flows.create(database, [job("a")], deadline="1h", on_failure="compensate")
    database.fetch(text("UPDATE workflows SET deadline_at = now()"))
    control.cancel(database, workflow_id, if_running=None, actor="x")
    control.stop_late(database, workflow_id)
    found = flows.workflow(database, workflow_id)
    assert (found.status, found.reason, found.cancelling) == ("STOPPING", "CANCELLED", "none")
    flows.run(database, workflow_id)
    assert flows.status(database, workflow_id) == "CANCELLED"
    control.stop_late(database, workflow_id)
    retrying.retry(database, workflow_id, RetryRequest(names=["a"]), actor=None)
    control.stop_late(database, workflow_id)
    assert flows.status(database, workflow_id) == "RUNNING"


@pytest.mark.postgresql_only
def test_ended_executions_find_their_nodes_with_old_statistics(database: Database) -> None:
    ended = """
        INSERT INTO workflow_nodes (workflow_id, node, item, execution_id, state, ended_at)
        SELECT 'wf_old', 1, n, 'exec_' || n, 'SUCCEEDED', now() FROM generate_series(1, 5000) AS n
    """
    database.fetch(text(ended))
    database.fetch(text("ANALYZE workflow_nodes"))
    given = {"executions": ["exec_1"], "states": ["FAILED"], "reasons": [None], "instants": ["2026-01-01"]}
    given |= {"reported": [0]}
    plan = "\n".join(row[0] for row in database.fetch(text("EXPLAIN " + node_settlement.SETTLE.text), given))
    assert "Index Scan using uq_workflow_nodes_execution" in plan, plan


@pytest.mark.postgresql_only
def test_late_workflows_are_read_by_their_own_index(database: Database) -> None:
    flows.create(database, [job("a")], deadline="1h")
    others = """
        INSERT INTO workflows (workflow_id, name, input, nodes, open_nodes, deadline_at, status, ended_at)
        SELECT 'wf_' || n, 'flow', '{}', 1, 1, CASE WHEN n > 4000 THEN now() END,
               CASE WHEN n > 4000 THEN 'SUCCEEDED' ELSE 'RUNNING' END, CASE WHEN n > 4000 THEN now() END
          FROM generate_series(1, 8000) AS n
    """
    database.fetch(text(others))
    database.fetch(text("ANALYZE workflows"))
    plan = "\n".join(row[0] for row in database.fetch(text("EXPLAIN " + chores.LATE.text), {"limit": 100}))
    assert "idx_workflows_deadline" in plan, plan


def test_cancelled_execution_counts_as_a_failure_of_its_node(database: Database) -> None:
    workflow_id = flows.create(database, [job("a"), job("b", "a")])
    flows.advance(database, workflow_id)
    (row, _) = flows.nodes(database, workflow_id)
    cancel_execution(database, row.execution_id, if_running=None, actor=None)
    handle_all(database)
    run_chore(database)
    assert flows.states(database, workflow_id) == {"a": "CANCELLED CANCELLED", "b": "SKIPPED UPSTREAM"}
    assert flows.status(database, workflow_id) == "FAILED"


def test_end_that_a_process_of_another_release_dropped_is_settled_later(database: Database) -> None:
    workflow_id = flows.create(database, [job("a"), job("lost"), job("b", "a")])
    flows.advance(database, workflow_id)
    places = flows.places_of(database, workflow_id)
    flows.end(database, [claim for claim in flows.claims(database) if places[claim.execution_id] == "a"])
    database.fetch(text("DELETE FROM execution_ends"))
    assert run_chore(database)["settled"] == 0
    database.fetch(
        text("UPDATE executions SET completed_at = completed_at - INTERVAL '1 minute' WHERE completed_at IS NOT NULL")
    )
    database.fetch(text("UPDATE workflow_nodes SET started_at = started_at - INTERVAL '1 minute'"))
    database.fetch(text("UPDATE workflow_nodes SET execution_id = 'exec_none' WHERE name = 'lost'"))
    assert run_chore(database)["settled"] == 1
    assert flows.states(database, workflow_id) == {
        "a": "SUCCEEDED",
        "lost": "FAILED EXECUTION_LOST",
        "b": "SKIPPED STOPPED",
    }


def test_old_workflows_are_deleted(database: Database) -> None:
    old, new = (flows.create(database, [job("a"), job("b", "a")]) for _ in range(2))
    for workflow_id in (old, new):
        flows.run(database, workflow_id)
    database.fetch(
        text("UPDATE workflows SET ended_at = now() - INTERVAL '400 days' WHERE workflow_id = :id"), {"id": old}
    )
    assert run_chore(database, "prune_workflows")["workflows"] == 1
    for table in ("workflows", "workflow_nodes", "workflow_edges", "workflow_events"):
        left = database.fetch(text(f"SELECT DISTINCT workflow_id FROM {table}"))
        assert [row.workflow_id for row in left] == [new]


@pytest.mark.parametrize("is_over", [False, True])
def test_executions_are_kept_while_their_workflow_is_open(database: Database, is_over: bool) -> None:
    workflow_id = flows.create(database, [job("a"), job("b", "a")])
    flows.advance(database, workflow_id)
    flows.handle(database, flows.end(database, flows.claims(database)))
    if is_over:
        flows.run(database, workflow_id)
    database.fetch(
        text("UPDATE executions SET completed_at = completed_at - INTERVAL '400 days' WHERE completed_at IS NOT NULL")
    )
    unhandled = unhandled_ends(database, 0)
    found = expired(database, unhandled, shard=0, after=Position(EPOCH, ""), retention_ms=1_000, limit=9)
    assert len(found.executions) == (2 if is_over else 0)


def test_failures_before_a_job_are_told_in_the_node(database: Database) -> None:
    nodes = [
        job("a"),
        job("unresolvable", "a", input={"x": "{{parents.a.output.body.rows}}"}, on_failure="continue"),
        job("no-list", "a", for_each="{{parents.a.status}}", on_failure="continue"),
        job("large", "a", input={"x": "{{workflow.input.x}}", "y": "{{workflow.input.x}}"}, on_failure="continue"),
        job("why", "unresolvable", run_if="any_failed", input={"why": "{{parents.unresolvable.error.message}}"}),
    ]
    workflow_id = flows.create(database, nodes, input={"x": "x" * 600_000})
    assert flows.run(database, workflow_id) == [["a"], ["why"]]
    assert flows.states(database, workflow_id) == {
        "a": "SUCCEEDED",
        "unresolvable": "FAILED INPUT_UNRESOLVABLE",
        "no-list": "FAILED INPUT_UNRESOLVABLE",
        "large": "FAILED INPUT_TOO_LARGE",
        "why": "SUCCEEDED",
    }
    why = "{{parents.a.output.body.rows}} cannot be resolved: there is no such value."
    assert flows.inputs(database, workflow_id)["why"] == {"why": why}


def test_deleted_endpoint_fails_its_node(database: Database) -> None:
    workflow_id = flows.create(database, [job("a")])
    database.fetch(text("UPDATE endpoints SET deleted_at = now()"))
    assert flows.run(database, workflow_id) == []
    assert flows.states(database, workflow_id) == {"a": "FAILED ENDPOINT_DELETED"}
    assert flows.status(database, workflow_id) == "FAILED"
