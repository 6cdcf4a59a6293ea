"""Web process or scheduler that dies at any statement of a workflow: each node starts once, and nothing is stranded."""

from sqlalchemy import text

from app.features.workflows.rules.graph import parse
from app.features.workflows.steps import advancing
from app.features.workflows.stored import workflow_creation
from app.kernel import ids
from app.kernel.db import Database
from app.kernel.function_types import never
from schema.states import KeepResponse
from tests.contract.features.workflows import flows
from tests.contract.features.workflows.flows import gate, job
from tests.contract.races.mortal import Mortal, chores

TABLES = ["execution_ends", "executions", "jobs", "workflow_edges", "workflow_nodes", "workflow_events", "workflows"]
NODES = [job("a"), job("b", for_each=[1, 2, 3]), gate("c", "a"), job("d", "c", "b")]
FIRST = {
    "states": {"a": "RUNNING", "b": "RUNNING", "c": "WAITING", "d": "WAITING"},
    "jobs": 4,
    "running": 4,
    "has_work": False,
}
LAST = {
    "states": {"a": "SUCCEEDED", "b": "SUCCEEDED", "c": "SUCCEEDED", "d": "RUNNING"},
    "jobs": 5,
    "running": 1,
    "has_work": False,
}


def empty(database: Database) -> None:
    for table in TABLES:
        database.fetch(text(f"DELETE FROM {table}"))


def request(database: Database) -> None:
    """Create the workflow of a key and make its first steps, as POST /workflows does."""
    body = {"name": "flow", "nodes": NODES, "idempotency_key": "once"}
    graph = parse(body, lambda names: dict.fromkeys(names, KeepResponse.ALWAYS))
    workflow_id = ids.workflow_id()
    created = database.transact(lambda connection: workflow_creation.create(connection, graph, workflow_id, actor=None))
    advancing.advance(database, created.workflow_id, until=never)


def sound(database: Database) -> dict[str, object]:
    """Return what is there of the only workflow."""
    (found,) = database.fetch(text("SELECT * FROM workflows"))
    jobs = flows.jobs_of(database, found.workflow_id)
    return {
        "states": flows.states(database, found.workflow_id),
        "jobs": len(jobs),
        "running": found.running,
        "has_work": advancing.has_work(database, found.workflow_id),
    }


def test_request_that_dies_at_any_statement_creates_one_workflow(database: Database, database_url: str) -> None:
    """The client sends it again, and schedulers continue."""
    survived, dies_at = False, 0
    while not survived:
        empty(database)
        survived = Mortal(database_url, dies_at).run(request)
        chores(database)
        if not survived:
            request(database)
        assert sound(database) == FIRST, dies_at
        dies_at += 1
    assert dies_at > 10


def test_scheduler_that_dies_at_any_statement_leaves_its_work_to_another(database: Database, database_url: str) -> None:
    flows.register(database)
    survived, dies_at = False, 0
    while not survived:
        empty(database)
        request(database)
        flows.settle(database, flows.end(database, flows.claims(database)))
        survived = Mortal(database_url, dies_at).run(chores)
        chores(database)
        assert sound(database) == LAST, dies_at
        dies_at += 1
    assert dies_at > 20


def test_execution_whose_end_nobody_settled_is_settled_by_a_scheduler(database: Database, database_url: str) -> None:
    """A worker of an earlier release deleted the completion event; the scheduler that finds it may die, too."""
    flows.register(database)
    survived, dies_at = False, 0
    while not survived:
        empty(database)
        request(database)
        flows.end(database, flows.claims(database))
        database.fetch(text("DELETE FROM execution_ends"))
        earlier = "now() - INTERVAL '10 seconds'"
        database.fetch(text(f"UPDATE executions SET completed_at = {earlier} WHERE completed_at IS NOT NULL"))
        database.fetch(text(f"UPDATE workflow_nodes SET started_at = {earlier} WHERE started_at IS NOT NULL"))
        survived = Mortal(database_url, dies_at).run(chores)
        chores(database)
        assert sound(database) == LAST, dies_at
        dies_at += 1
    assert dies_at > 20
