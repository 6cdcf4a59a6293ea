"""Workflows on workers: the thread that handles an end also starts the next nodes, without a scheduler."""

from app.kernel.db import Database
from brokers.attempt import Attempt, Stage
from tests.contract.conftest import StartWorker
from tests.contract.features.workflows import flows
from tests.contract.features.workflows.flows import gate, job
from tests.verdicts import success
from tests.waiting import eventually


def test_workers_run_a_workflow_to_its_end(database: Database, start_worker: StartWorker) -> None:
    def deliver(attempt: Attempt) -> None:
        attempt.enter(Stage.STARTED)
        attempt.complete(success(flows.body({"rows": [*range(40)]})))

    nodes = [
        job("extract"),
        job("score", "extract", for_each="{{parents.extract.output.body.rows}}", input={"row": "{{item}}"}),
        *(job(f"beside-{number}", "extract") for number in range(5)),
        gate("join", "score", *(f"beside-{number}" for number in range(5))),
        job("last", "join", input={"n": "{{parents.score.succeeded}}"}),
    ]
    workflow_id = flows.create(database, nodes)
    flows.advance(database, workflow_id)
    for _ in range(2):
        start_worker(deliver)
    eventually(lambda: flows.status(database, workflow_id) == "SUCCEEDED")
    assert len(flows.jobs_of(database, workflow_id)) == 47
    assert flows.inputs(database, workflow_id)["last"] == {"n": 40}
