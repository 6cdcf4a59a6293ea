"""Workflows beside three workers and two schedulers that are killed one after the other."""

import itertools

import pytest
from sqlalchemy import text

from app.dev.receiver import Receiver
from app.dev.stack.runner import Stack
from app.dev.verify import stored
from app.dev.verify.evidence import Evidence
from app.dev.verify.workflows.workflow_checks import each_node_once, each_workflow_ends, nodes_in_order
from app.dev.verify.workflows.workflow_reading import workflows_of_run
from app.kernel.db import Database
from tests import rows
from tests.acceptance.limits import SHORT_LEASE
from tests.contract.features.workflows import flows
from tests.contract.features.workflows.flows import gate, job
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance

WORKFLOWS, ITEMS, KILLS = 5, 40, 6
AGAIN = {"max_attempts": 10}
NODES = [
    job("first", **AGAIN),
    job("items", "first", for_each=list(range(ITEMS)), max_parallel=10, **AGAIN),
    *(job(f"side-{n}", "first", **AGAIN) for n in range(10)),
    gate("gate", "items", *(f"side-{n}" for n in range(10))),
    job("last", "gate", **AGAIN),
    job("alarm", "last", run_if="any_failed"),
]
ENDED = text("SELECT count(*) AS n FROM workflow_nodes WHERE ended_at IS NOT NULL")
OPEN = text("SELECT count(*) AS n FROM workflows WHERE ended_at IS NULL")


def test_each_node_runs_once_although_workers_and_schedulers_are_killed(
    database: Database, stack: Stack, receiver: Receiver
) -> None:
    """Each kill follows some progress, so that it meets steps, ends and starts at any place."""
    policy = {"max_attempts": 10, "backoff": "fixed", "initial_delay_ms": 100, "max_delay_ms": 100}
    rows.add_endpoint(database, spec={"url": receiver.url("/slow/20/node"), "method": "POST"}, retry_policy=policy)
    accepted = {f"key-{n}": flows.create(database, NODES) for n in range(WORKFLOWS)}
    workers = [stack.worker(**SHORT_LEASE) for _ in range(3)]
    schedulers = [stack.scheduler(**SHORT_LEASE) for _ in range(2)]
    nodes = WORKFLOWS * (len(NODES) + ITEMS)
    for kill, (group, start) in zip(
        range(1, KILLS + 1),
        itertools.cycle([(workers, stack.worker), (schedulers, stack.scheduler)]),
        strict=False,
    ):
        progress = nodes * kill // (KILLS + 2)
        eventually(lambda least=progress: database.fetch(ENDED)[0].n >= least, what=f"the progress before kill {kill}")
        group.pop(0).kill()
        group.append(start(**SHORT_LEASE))
    eventually(lambda: not database.fetch(OPEN)[0].n, what="the end of all workflows")

    evidence = Evidence(
        accepted=(),
        jobs=stored.job_ids(database, ["target"]),
        executions=stored.execution_rows(database, ["target"]),
        attempts=(),
        transitions=None,
        arrivals=(),
        workflows=workflows_of_run(database, "flow", ["target"], accepted),
    )
    for check in (each_node_once, nodes_in_order, each_workflow_ends):
        assert list(check(evidence)) == []
    assert [flows.status(database, each) for each in accepted.values()] == ["SUCCEEDED"] * WORKFLOWS
    assert len(evidence.jobs) == WORKFLOWS * (12 + ITEMS)
