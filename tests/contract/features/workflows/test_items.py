"""Nodes with items: a job for each item of a list or member of a group, with limits and tolerated failures."""

import pytest

from app.features.workflows.stored import total_items
from app.kernel.db import Database
from tests.contract.features.workflows import flows
from tests.contract.features.workflows.flows import body, job


@pytest.fixture(autouse=True)
def _worker(database: Database) -> None:
    flows.register(database)


def test_list_of_a_result_becomes_a_job_per_item(database: Database) -> None:
    nodes = [
        job("extract"),
        job(
            "score",
            "extract",
            for_each="{{parents.extract.output.body.rows}}",
            input={"row": "{{item}}", "text": "{{item_number}} of {{workflow.input.day}}"},
        ),
        job(
            "publish",
            "score",
            input={"results": "{{parents.score.results}}", "n": "{{parents.score.count}}", "id": "{{workflow.id}}"},
        ),
    ]
    workflow_id = flows.create(database, nodes, input={"day": "monday"})
    outputs = {"extract": body({"rows": [{"x": 1}, "two"]}), "score#1": body([1]), "score#2": {"body": "plain"}}
    assert flows.run(database, workflow_id, outputs=outputs) == [["extract"], ["score#1", "score#2"], ["publish"]]
    assert flows.status(database, workflow_id) == "SUCCEEDED"
    found = flows.inputs(database, workflow_id)
    assert found["publish"] == {
        "results": [{"status_code": 200, "body": [1]}, {"body": "plain"}],
        "n": 2,
        "id": workflow_id,
    }
    rows = [row for row in flows.nodes(database, workflow_id) if row.item]
    assert [(row.state, row.reported_to) for row in rows] == [("SUCCEEDED", None)] * 2


def test_members_of_a_group_have_own_inputs(database: Database) -> None:
    members = [{"name": "small", "endpoint": "target", "input": {"w": 64}}, {"name": "big", "endpoint": "target"}]
    workflow_id = flows.create(database, [{"name": "thumbs", "group": members}, job("after", "thumbs")])
    assert flows.run(database, workflow_id) == [["thumbs#big", "thumbs#small"], ["after"]]
    assert flows.inputs(database, workflow_id)["thumbs/small"] == {"w": 64}


@pytest.mark.parametrize(
    ("tolerate", "state"), [({"count": 1}, "FAILED"), ({"count": 2}, "SUCCEEDED"), ({"percent": 20}, "SUCCEEDED")]
)
def test_tolerated_failures_do_not_fail_their_node(database: Database, tolerate: dict[str, int], state: str) -> None:
    workflow_id = flows.create(database, [job("map", for_each=[*range(10)], tolerate=tolerate), job("after", "map")])
    flows.run(database, workflow_id, failing=["map#2", "map#7"])
    (row, *_) = flows.nodes(database, workflow_id)
    assert (row.state, row.items, row.items_open, row.items_failed) == (state, 10, 0, 2)
    assert flows.status(database, workflow_id) == state


def test_items_run_within_the_limit_of_their_node(database: Database) -> None:
    workflow_id = flows.create(database, [job("map", for_each=[*range(5)], max_parallel=2)])
    assert flows.run(database, workflow_id) == [["map#1", "map#2"], ["map#3", "map#4"], ["map#5"]]
    assert flows.status(database, workflow_id) == "SUCCEEDED"


def test_failures_above_the_tolerance_start_no_further_item(database: Database) -> None:
    workflow_id = flows.create(database, [job("map", for_each=[*range(9)], max_parallel=2)])
    assert flows.run(database, workflow_id, failing=["map#1"]) == [["map#1", "map#2"]]
    (row, *_) = flows.nodes(database, workflow_id)
    assert (row.state, row.reason, row.items_made) == ("FAILED", "ITEMS_FAILED", 2)


def test_long_list_starts_in_steps_within_the_limit_of_the_workflow(database: Database) -> None:
    nodes = [job("map", for_each=[*range(1_300)]), job("after", "map")]
    workflow_id = flows.create(database, nodes, max_parallel=700)
    assert [len(wave) for wave in flows.run(database, workflow_id)] == [700, 600, 1]
    assert flows.status(database, workflow_id) == "SUCCEEDED"
    assert len(flows.jobs_of(database, workflow_id)) == 1_301


def test_empty_list_succeeds_at_once(database: Database) -> None:
    workflow_id = flows.create(
        database, [job("map", for_each=[]), job("after", "map", input={"r": "{{parents.map.results}}"})]
    )
    assert flows.run(database, workflow_id) == [["after"]]
    assert flows.inputs(database, workflow_id) == {"after": {"r": []}}


def test_lists_of_a_workflow_have_a_bound_together(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists that begin in one step count, and lists of earlier steps; a node beyond the bound fails and says why."""
    monkeypatch.setattr(total_items, "MAX_ALL_ITEMS", 10)
    lists = [job(name, for_each="{{workflow.input.rows}}") for name in ("a", "b")]
    behind = [job("c", "a", for_each=[1, 2]), job("d", "c", for_each=[1], run_if="all_done")]
    nodes = [*lists, *behind]
    workflow_id = flows.create(database, nodes, input={"rows": [1, 2, 3, 4]}, on_failure="continue")
    flows.run(database, workflow_id)
    assert flows.states(database, workflow_id) == {
        "a": "SUCCEEDED",
        "b": "SUCCEEDED",
        "c": "SUCCEEDED",
        "d": "FAILED INPUT_UNRESOLVABLE",
    }
    message = next(row.message for row in flows.nodes(database, workflow_id) if row.name == "d")
    assert message == "The workflow would have more than 10 items: it has 10, and the list 1."
    together = flows.create(database, nodes, input={"rows": list(range(6))}, on_failure="continue")
    flows.run(database, together)
    assert [flows.states(database, together)[name] for name in "ab"] == ["SUCCEEDED", "FAILED INPUT_UNRESOLVABLE"]
