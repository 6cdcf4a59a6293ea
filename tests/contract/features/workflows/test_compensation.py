"""Compensation: succeeded nodes of a failed workflow are undone, the last ended first, one after the other."""

from typing import Any

import pytest
from sqlalchemy import text

from app.features.workflows import control
from app.features.workflows.rules.retry_plan import RetryRequest
from app.features.workflows.steps import retrying
from app.features.workflows.stored.workflow_list import get_workflow
from app.features.workflows.workflow_explanation import explain_workflow
from app.kernel.db import Database
from app.kernel.errors import ConflictError, InvalidRequestError, InvalidWorkflowError, TaskExecutorError
from app.queue.executions.execution_cancellation import IfRunning
from app.queue.executions.manual_retry import retry_execution
from tests.cases import each_case
from tests.contract.features.workflows import flows
from tests.contract.features.workflows.flows import body, counts, job
from tests.contract.features.workflows.workflow_chores import run_chore

UNDO = {"endpoint": "target", "input": {"id": "{{node.output.body.id}}"}}
UNDO_ITEM = {"endpoint": "target", "input": {"x": "{{node.input}}", "code": "{{node.output.status_code}}"}}


@pytest.fixture(autouse=True)
def _worker(database: Database) -> None:
    flows.register(database)


def saga(database: Database, **fields: Any) -> str:
    """Create a chain of four nodes, of which the third has nothing to undo and the last fails."""
    nodes = [
        job("a", compensate=UNDO, input={"x": 7}),
        job(
            "b",
            "a",
            compensate={"endpoint": "target", "input": {"x": "{{node.input}}", "a": "{{parents.a.output.body}}"}},
        ),
        job("c", "b"),
        job("d", "c", compensate=UNDO),
    ]
    return flows.create(database, nodes, **{"on_failure": "compensate"} | fields)


OUTPUTS = {"a": body({"id": 1}), "b": body({"id": 2})}


def explanation(database: Database, workflow_id: str) -> str:
    return explain_workflow(database, get_workflow(database, workflow_id))


def start(database: Database, workflow_id: str) -> None:
    """Run until the first compensation waits for a worker."""
    for place in ("a", "b", "c", "d"):
        flows.advance(database, workflow_id)
        (claim,) = flows.claims(database)
        verdict = flows.FAILED if place == "d" else flows.success(OUTPUTS.get(place, {}))
        flows.handle(database, flows.end(database, [claim], verdict))
    flows.advance(database, workflow_id)
    assert flows.status(database, workflow_id) == "COMPENSATING"


def test_refusal_of_a_retry_names_no_pause_of_a_workflow_that_cannot_be_paused(database: Database) -> None:
    workflow_id = saga(database)
    start(database, workflow_id)
    with pytest.raises(ConflictError, match="cannot be paused"):
        control.pause(database, workflow_id, actor=None)
    with pytest.raises(ConflictError, match=r"is COMPENSATING: its nodes are being undone. Create it anew.$"):
        retrying.retry(database, workflow_id, RetryRequest(failed=True), actor=None)


def test_succeeded_nodes_are_undone_in_reverse_order(database: Database) -> None:
    workflow_id = saga(database)
    waves = flows.run(database, workflow_id, failing=["d"], outputs=OUTPUTS)
    assert waves == [["a"], ["b"], ["c"], ["d"], ["b#compensate"], ["a#compensate"]]
    found = flows.workflow(database, workflow_id)
    assert (found.status, found.reason, found.running, found.open_nodes) == ("COMPENSATED", "NODE_FAILED", 0, 0)
    given = flows.inputs(database, workflow_id)
    assert given["a/compensate"] == {"id": 1}
    assert given["b/compensate"] == {"x": {}, "a": {"id": 1}}
    assert counts(database, workflow_id) == {"succeeded": 3, "failed": 1}
    assert "2 of 2 jobs are undone." in explanation(database, workflow_id)
    history = database.fetch(text("SELECT to_status FROM workflow_events ORDER BY occurred_at, event_id"))
    assert [row.to_status for row in history] == ["RUNNING", "COMPENSATING", "COMPENSATED"]
    with pytest.raises(ConflictError, match="its nodes were undone"):
        retrying.retry(database, workflow_id, RetryRequest(failed=True), actor=None)
    places = {place: execution for execution, place in flows.places_of(database, workflow_id).items()}
    with pytest.raises(ConflictError, match="which is COMPENSATED"):
        retry_execution(database, places["d"], actor=None)


def test_last_ended_node_is_undone_first_whatever_its_place(database: Database) -> None:
    nodes = [job("a", compensate=UNDO), job("b", compensate=UNDO), job("z", "a", "b", on_failure="compensate")]
    workflow_id = flows.create(database, nodes)
    flows.advance(database, workflow_id)
    places = flows.places_of(database, workflow_id)
    claims = {places[claim.execution_id]: claim for claim in flows.claims(database)}
    for place in ("b", "a"):
        flows.handle(database, flows.end(database, [claims[place]], flows.success(body({"id": 1}))))
    assert flows.run(database, workflow_id, failing=["z"]) == [["z"], ["a#compensate"], ["b#compensate"]]


def test_succeeded_items_are_undone_the_last_first(database: Database) -> None:
    nodes = [
        job("a", compensate=UNDO),
        job("map", "a", for_each=[1, 2, 3], tolerate={"count": 1}, input={"x": "{{item}}"}, compensate=UNDO_ITEM),
        {
            "name": "pair",
            "after": ["map"],
            "group": [
                {"name": "left", "endpoint": "target", "compensate": UNDO_ITEM},
                {"name": "right", "endpoint": "target"},
            ],
        },
        job("z", "pair"),
    ]
    workflow_id = flows.create(database, nodes, on_failure="compensate")
    waves = flows.run(database, workflow_id, failing=["map#2", "z"], outputs=OUTPUTS)
    assert waves == [
        ["a"],
        ["map#1", "map#2", "map#3"],
        ["pair#left", "pair#right"],
        ["z"],
        ["pair#compensate/left"],
        ["map#compensate/3"],
        ["map#compensate/1"],
        ["a#compensate"],
    ]
    assert flows.workflow(database, workflow_id).running == 0
    assert "4 of 4 jobs are undone." in explanation(database, workflow_id)
    given = flows.inputs(database, workflow_id)
    assert given["map/compensate/3"] == {"x": {"x": 3}, "code": 200}
    assert given["pair/compensate/left"] == {"x": {}, "code": 200}


def test_items_of_a_failed_node_are_undone(database: Database) -> None:
    nodes = [job("map", for_each=[1, 2], compensate=UNDO), job("empty", for_each=[], compensate=UNDO)]
    workflow_id = flows.create(database, nodes, on_failure="compensate")
    waves = flows.run(database, workflow_id, failing=["map#2", "map#compensate/1"], outputs={"map#1": body({"id": 1})})
    assert waves == [["map#1", "map#2"], ["map#compensate/1"]]
    assert "0 of 1 job is undone; the compensation of item 1 of map is FAILED." in explanation(database, workflow_id)
    places = {place: execution for execution, place in flows.places_of(database, workflow_id).items()}
    retry_execution(database, places["map#compensate/1"], actor=None)
    run_chore(database)
    assert flows.run(database, workflow_id) == [["map#compensate/1"]]
    assert flows.status(database, workflow_id) == "COMPENSATED"


def test_workflow_with_nothing_to_undo_is_compensated(database: Database) -> None:
    workflow_id = flows.create(database, [job("a"), job("b", "a")], on_failure="compensate")
    flows.run(database, workflow_id, failing=["b"])
    assert flows.status(database, workflow_id) == "COMPENSATED"


def test_success_and_another_rule_undo_nothing(database: Database) -> None:
    workflow_id = saga(database)
    flows.run(database, workflow_id, outputs=OUTPUTS)
    assert flows.status(database, workflow_id) == "SUCCEEDED"
    workflow_id = saga(database, on_failure="stop")
    flows.run(database, workflow_id, failing=["d"], outputs=OUTPUTS)
    assert flows.status(database, workflow_id) == "FAILED"


def test_failed_compensation_ends_the_workflow_and_its_redrive_goes_on(database: Database) -> None:
    workflow_id = saga(database)
    waves = flows.run(database, workflow_id, failing=["d", "b#compensate"], outputs=OUTPUTS)
    assert waves[-1] == ["b#compensate"]
    found = flows.workflow(database, workflow_id)
    assert (found.status, found.running) == ("COMPENSATION_FAILED", 0)
    assert "0 of 2 jobs are undone; the compensation of b is FAILED." in explanation(database, workflow_id)
    assert run_chore(database)["advanced"] == 0
    places = {place: execution for execution, place in flows.places_of(database, workflow_id).items()}
    retry_execution(database, places["b#compensate"], actor=None)
    run_chore(database)
    assert flows.status(database, workflow_id) == "COMPENSATING"
    assert "the compensation of b runs" in explanation(database, workflow_id)
    assert flows.run(database, workflow_id) == [["b#compensate"], ["a#compensate"]]
    found = flows.workflow(database, workflow_id)
    assert (found.status, found.running) == ("COMPENSATED", 0)


def test_compensation_without_a_value_ends_the_workflow(database: Database) -> None:
    workflow_id = saga(database)
    flows.run(database, workflow_id, failing=["d"])
    assert flows.status(database, workflow_id) == "COMPENSATION_FAILED"
    assert "the compensation of b is FAILED (INPUT_UNRESOLVABLE: {{parents.a.output.body}}" in explanation(
        database, workflow_id
    )
    assert database.fetch(text("SELECT 1 FROM workflow_nodes WHERE reported_to IS NOT NULL")) == []


@pytest.mark.parametrize("if_running", [None, IfRunning.REQUEST, IfRunning.ABORT])
def test_cancelled_compensation_starts_no_other(database: Database, if_running: IfRunning | None) -> None:
    workflow_id = saga(database)
    start(database, workflow_id)
    (running,) = flows.claims(database)
    with pytest.raises(ConflictError, match="COMPENSATING"):
        control.pause(database, workflow_id, actor=None)
    control.cancel(database, workflow_id, if_running=if_running, actor=None)
    flows.advance(database, workflow_id)
    assert flows.status(database, workflow_id) == "COMPENSATING"
    flows.handle(database, flows.end(database, [running]))
    assert flows.run(database, workflow_id) == []
    found = flows.workflow(database, workflow_id)
    assert (found.status, found.reason, found.running) == ("COMPENSATION_FAILED", "CANCELLED", 0)
    assert "1 of 2 jobs are undone." in explanation(database, workflow_id)


def test_waiting_compensation_is_cancelled(database: Database) -> None:
    workflow_id = saga(database)
    start(database, workflow_id)
    control.cancel(database, workflow_id, if_running=None, actor=None)
    flows.advance(database, workflow_id)
    flows.handle(database, [row.end_id for row in database.fetch(text("SELECT end_id FROM execution_ends"))])
    assert flows.run(database, workflow_id) == []
    assert flows.status(database, workflow_id) == "COMPENSATION_FAILED"


def test_cancelled_workflow_is_not_undone(database: Database) -> None:
    workflow_id = saga(database)
    flows.advance(database, workflow_id)
    flows.settle(database, flows.end(database, flows.claims(database), flows.success(OUTPUTS["a"])))
    control.cancel(database, workflow_id, if_running=None, actor=None)
    flows.run(database, workflow_id)
    assert flows.status(database, workflow_id) == "CANCELLED"


def test_deadline_undoes_and_does_not_end_the_compensation(database: Database) -> None:
    workflow_id = saga(database, deadline="1h")
    flows.advance(database, workflow_id)
    flows.settle(database, flows.end(database, flows.claims(database), flows.success(OUTPUTS["a"])))
    database.fetch(text("UPDATE workflows SET deadline_at = now()"))
    assert run_chore(database)["late"] == 1
    assert flows.run(database, workflow_id) == [["a#compensate"]]
    found = flows.workflow(database, workflow_id)
    assert (found.status, found.reason) == ("COMPENSATED", "DEADLINE")
    workflow_id = saga(database, deadline="1h")
    start(database, workflow_id)
    database.fetch(text("UPDATE workflows SET deadline_at = now()"))
    assert run_chore(database)["late"] == 0
    control.stop_late(database, workflow_id)  # of a scheduler that read the workflow before
    flows.run(database, workflow_id)
    assert flows.status(database, workflow_id) == "COMPENSATED"


@each_case(
    ("node", "error", "at"),
    [
        ({"compensate": {"input": {}}}, InvalidRequestError, "/nodes/0/compensate/endpoint"),
        ({"compensate": {"endpoint": "target", "inputs": {}}}, InvalidRequestError, "/nodes/0/compensate/inputs"),
        ({"compensate": UNDO, "endpoint": None}, InvalidRequestError, "/nodes/0/compensate"),
        (
            {"compensate": {"endpoint": "target", "input": {"x": "{{item}}"}}},
            InvalidWorkflowError,
            "/nodes/0/compensate/input/x",
        ),
        (
            {"compensate": {"endpoint": "target", "input": {"x": "{{node.error}}"}}},
            InvalidWorkflowError,
            "/nodes/0/compensate/input/x",
        ),
        ({"input": {"x": "{{node.output}}"}}, InvalidWorkflowError, "/nodes/0/input/x"),
        ({"on_failure": "undo"}, InvalidRequestError, "/nodes/0/on_failure"),
    ],
)
def test_invalid_compensation_names_its_place(
    database: Database, node: dict[str, Any], error: type[TaskExecutorError], at: str
) -> None:
    with pytest.raises(error) as refused:
        flows.create(database, [job("a") | node])
    assert [detail["pointer"] for detail in refused.value.details] == [at]
