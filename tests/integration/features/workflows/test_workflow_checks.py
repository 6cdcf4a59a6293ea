"""`flask doctor`: ends of nodes that nobody handles, and workflows where nothing can start."""

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from tests.contract.features.workflows import flows
from tests.contract.features.workflows.flows import job
from tests.integration.client import Api
from tests.integration.command_line import Cli, doctor_findings

pytestmark = pytest.mark.reflection
EARLIER = "now() - INTERVAL '2 minutes'"


@pytest.fixture(autouse=True)
def _worker(database: Database) -> None:
    flows.register(database)


def running(database: Database) -> str:
    """Create a workflow, with its first node running since two minutes."""
    workflow_id = flows.create(database, [job("a"), job("b", "a")])
    flows.advance(database, workflow_id)
    for table, column in (("workflows", "created_at"), ("workflow_nodes", "started_at")):
        database.fetch(text(f"UPDATE {table} SET {column} = {EARLIER} WHERE {column} IS NOT NULL"))
    return workflow_id


def end_unnoticed(database: Database) -> None:
    """End the running node, and lose its completion event."""
    flows.end(database, flows.claims(database))
    database.fetch(text("DELETE FROM execution_ends"))
    database.fetch(text(f"UPDATE executions SET completed_at = {EARLIER} WHERE completed_at IS NOT NULL"))


def test_missed_end_is_found_and_repaired(registered: Api, cli: Cli, database: Database) -> None:
    workflow_id = running(database)
    assert doctor_findings(cli, expect=0) == {}
    end_unnoticed(database)
    (found,) = doctor_findings(cli).values()
    assert (found["check"], found["problem"], found["fixable"]) == (
        "workflows",
        "1 node is not settled after the end of an execution",
        True,
    )
    (fixed,) = doctor_findings(cli, "--fix", "--yes", expect=0).values()
    assert fixed["repaired"] == 2
    assert flows.states(database, workflow_id) == {"a": "SUCCEEDED", "b": "RUNNING"}
    assert doctor_findings(cli, expect=0) == {}
    assert registered.get(f"/workflows/{workflow_id}").json["running"] == 1


def test_end_that_no_step_reports_is_found_and_repaired(registered: Api, cli: Cli, database: Database) -> None:
    workflow_id = running(database)
    flows.settle(database, flows.end(database, flows.claims(database)))
    assert doctor_findings(cli, expect=0) == {}
    database.fetch(text(f"UPDATE workflow_nodes SET ended_at = {EARLIER} WHERE ended_at IS NOT NULL"))
    assert [*doctor_findings(cli, "--fix", "--yes", expect=0)] == ["1 node is not reported to the nodes behind"]
    assert registered.get(f"/workflows/{workflow_id}").json["waits_for"] == ["b"]


@pytest.mark.usefixtures("registered")
def test_workflow_in_which_nothing_can_start_is_found(cli: Cli, database: Database) -> None:
    standing, without_job = running(database), running(database)
    change = "UPDATE workflow_nodes SET {} WHERE workflow_id = :id AND name = 'a'"
    database.fetch(text(change.format("state = 'WAITING', open_parents = 1")), {"id": standing})
    database.fetch(text(change.format("job_id = NULL, execution_id = NULL")), {"id": without_job})
    found = doctor_findings(cli)
    assert [(problem, each["fix"].split(": ")[-1], each["fixable"]) for problem, each in found.items()] == [
        ("1 workflow in which nothing runs or can start, by a manual edit", standing, False),
        ("1 workflow with a running node without a job, by a manual edit", without_job, False),
    ]
