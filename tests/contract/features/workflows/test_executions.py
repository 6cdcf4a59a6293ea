"""Workflows of executions: an execution of a WORKFLOW endpoint becomes a workflow, and ends with it."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from app.features.workflows import execution_start
from app.features.workflows.handlers import WORKFLOWS
from app.kernel.db import Database
from app.queue.ending.outbox_processor import OutboxProcessor
from app.queue.executions import reclaim_candidates
from app.queue.executions.execution_cancellation import IfRunning, cancel_execution
from app.queue.executions.execution_model import DeliveryError, NotSentError
from app.queue.executions.manual_retry import retry_execution
from app.queue.executions.verdict import Verdict
from app.queue.reading.explanation import explain
from brokers.inbox import Inboxes
from brokers.outbox_thread import OutboxThread
from tests import rows
from tests.contract.features.workflows import flows
from tests.contract.features.workflows.flows import gate, job
from tests.contract.features.workflows.workflow_executions import add, claim, define
from tests.contract.races.mortal import chores
from tests.contract.scheduler.conftest import chores as scheduler_chores
from tests.cron_jobs import add_interval_job, scheduled
from tests.cron_jobs import job as stored_job
from tests.verdicts import success
from tests.waiting import eventually

REPORT = {"nodes": [job("step", input={"day": "{{workflow.input.day}}"})]}


@pytest.fixture(autouse=True)
def _worker(database: Database) -> None:
    flows.register(database)


def start(database: Database, spec: dict[str, Any]) -> str:
    """Start the workflow of the only queued execution, as a worker does; returns its id."""
    claimed = claim(database)
    return execution_start.start(database, claimed.execution_id, claimed.attempt, spec)


def run(database: Database, workflow_id: str, failing: Sequence[str] = (), **outputs: Any) -> None:
    flows.run(database, workflow_id, failing, {name: flows.body(value) for name, value in outputs.items()})


def test_execution_runs_until_its_workflow_has_ended(database: Database) -> None:
    define(database, "report", REPORT)
    execution_id = add(database, "report")
    workflow_id = start(database, REPORT)
    running = rows.execution(database, execution_id)
    assert (running.status, running.worker_id) == ("RUNNING", workflow_id)
    run(database, workflow_id)
    ended = rows.execution(database, execution_id)
    assert (ended.status, ended.output) == ("SUCCESS", {"workflow_id": workflow_id, "body": {"step": "SUCCEEDED"}})
    assert flows.inputs(database, workflow_id)["step"] == {"day": 1}
    assert ended.recorded_at is not None
    stored = flows.workflow(database, workflow_id)
    assert (stored.execution_id, stored.endpoint, stored.endpoint_version, stored.depth) == (
        execution_id,
        "report",
        1,
        1,
    )


def test_running_workflow_is_neither_lost_nor_stuck(database: Database) -> None:
    define(database, "report", REPORT)
    add(database, "report")
    start(database, REPORT)
    assert reclaim_candidates.candidates(database, limit=9) == []
    assert reclaim_candidates.candidates(database, stuck_ms=0, limit=9) == []


def test_repeated_start_finds_the_first_workflow_and_a_lost_claim_starts_none(database: Database) -> None:
    define(database, "report", REPORT)
    add(database, "report")
    claimed = claim(database)
    first = execution_start.start(database, claimed.execution_id, claimed.attempt, REPORT)
    assert execution_start.start(database, claimed.execution_id, claimed.attempt, REPORT) == first
    with pytest.raises(NotSentError):
        execution_start.start(database, claimed.execution_id, claimed.attempt + 1, REPORT)
    assert database.fetch(text("SELECT count(*) AS n FROM workflows"))[0].n == 1


def test_policy_of_the_endpoint_repeats_a_failed_workflow(database: Database) -> None:
    """Each attempt is a workflow of its own."""
    policy = {"max_attempts": 2, "backoff": "fixed", "initial_delay_ms": 1}
    define(database, "report", REPORT, retry_policy=policy)
    execution_id = add(database, "report", max_attempts=2)
    first = start(database, REPORT)
    run(database, first, failing=["step"])
    retrying = rows.execution(database, execution_id)
    assert (retrying.status, retrying.attempt_count) == ("RETRYING", 1)
    (tried,) = rows.attempts(database, execution_id)
    assert (tried.worker_id, tried.error["type"], tried.error["workflow_id"]) == (first, "WORKFLOW_FAILED", first)
    assert tried.error["message"] == "its workflow failed: node step FAILED"
    database.fetch(text("UPDATE executions SET run_at = now() WHERE execution_id = :id"), {"id": execution_id})
    second = start(database, REPORT)
    run(database, second, failing=["step"])
    assert second != first
    assert rows.execution(database, execution_id).status == "FAILED"


def test_output_of_the_definition_is_rendered(database: Database) -> None:
    spec = REPORT | {"output": {"id": "{{parents.step.output.body.id}}", "day": "{{workflow.input.day}}"}}
    define(database, "report", spec)
    execution_id = add(database, "report")
    run(database, start(database, spec), step={"id": 7})
    assert rows.execution(database, execution_id).output["body"] == {"id": 7, "day": 1}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({}, "{{parents.step.output.body.id}}"),
        ({"id": "x" * 20_000}, "it has more than 16,384 bytes"),
    ],
    ids=["missing", "too large"],
)
def test_output_without_a_value_fails_the_execution(database: Database, answer: Any, message: str) -> None:
    spec = REPORT | {"output": {"id": "{{parents.step.output.body.id}}"}}
    define(database, "report", spec)
    execution_id = add(database, "report")
    workflow_id = start(database, spec)
    run(database, workflow_id, step=answer)
    assert flows.status(database, workflow_id) == "SUCCEEDED"
    (tried,) = rows.attempts(database, execution_id)
    assert (tried.led_to, tried.error["type"]) == ("FAILED", "OUTPUT_UNRESOLVABLE")
    assert message in tried.error["message"]


def test_workflow_cancelled_itself_cancels_its_execution(database: Database) -> None:
    spec = {"nodes": [job("a"), job("b", "a")]}
    define(database, "report", spec)
    execution_id = add(database, "report")
    workflow_id = start(database, spec)
    flows.cancel(database, workflow_id)
    run(database, workflow_id)
    assert rows.execution(database, execution_id).status == "CANCELLED"
    (tried,) = rows.attempts(database, execution_id)
    assert tried.error["type"] == "WORKFLOW_CANCELLED"


@pytest.mark.parametrize("request_", IfRunning)
def test_request_to_the_execution_cancels_its_workflow_once(database: Database, request_: IfRunning) -> None:
    define(database, "report", REPORT)
    execution_id = add(database, "report")
    workflow_id = start(database, REPORT)
    flows.advance(database, workflow_id)
    (running,) = flows.claims(database)
    cancel_execution(database, execution_id, if_running=request_, actor="test")
    chores(database)
    revision = flows.workflow(database, workflow_id).revision
    chores(database)
    stored = flows.workflow(database, workflow_id)
    assert (stored.status, stored.reason, stored.revision) == ("STOPPING", "CANCELLED", revision)
    node = rows.execution(database, running.execution_id)
    assert node.cancel_requested_at is not None
    assert (node.abort_requested_at is not None) == (request_ is IfRunning.ABORT)
    flows.handle(database, flows.end(database, [running]))
    flows.advance(database, workflow_id)
    assert rows.execution(database, execution_id).status == "CANCELLED"


def test_abort_after_a_request_is_forwarded_too(database: Database) -> None:
    define(database, "report", REPORT)
    execution_id = add(database, "report")
    workflow_id = start(database, REPORT)
    flows.advance(database, workflow_id)
    (running,) = flows.claims(database)
    for request in (IfRunning.REQUEST, IfRunning.ABORT):
        cancel_execution(database, execution_id, if_running=request, actor="test")
        chores(database)
    assert rows.execution(database, running.execution_id).abort_requested_at is not None


def test_deleted_endpoint_of_a_node_fails_the_start_with_its_place(database: Database) -> None:
    spec = {"nodes": [job("a"), {"name": "b", "endpoint": "gone"}]}
    define(database, "report", spec)
    add(database, "report")
    claimed = claim(database)
    starter = execution_start.WorkflowStarter(database, lambda _queue: None, lambda _ends: None)
    with pytest.raises(DeliveryError, match=r"/nodes/1/endpoint: There is no endpoint named 'gone'") as caught:
        starter(claimed.execution_id, claimed.attempt, spec)
    assert (caught.value.type, caught.value.permanent) == ("INVALID_WORKFLOW", True)
    assert rows.execution(database, claimed.execution_id).worker_id == flows.WORKER


def test_sub_workflow_ends_its_node(database: Database) -> None:
    define(database, "inner", REPORT)
    parent = flows.create(
        database, [{"name": "child", "endpoint": "inner", "input": {"day": 1}}, gate("last", "child")]
    )
    flows.advance(database, parent)
    child = start(database, REPORT)
    stored = flows.workflow(database, child)
    assert (stored.parent_id, stored.parent_node, stored.parent_item, stored.depth) == (parent, 1, 0, 2)
    run(database, child)
    flows.handle_all(database)
    flows.advance(database, parent)
    assert flows.states(database, parent) == {"child": "SUCCEEDED", "last": "SUCCEEDED"}


@pytest.mark.parametrize("verdict", [success({}), flows.FAILED])
def test_worker_that_ends_a_sub_workflow_carries_its_parent_on(database: Database, verdict: Verdict) -> None:
    define(database, "inner", REPORT)
    child = {"name": "child", "endpoint": "inner", "input": {"day": 1}}
    parent = flows.create(database, [child, job("next", "child", run_if="all_done")])
    flows.advance(database, parent)
    flows.advance(database, start(database, REPORT))
    thread = OutboxThread(OutboxProcessor(database, handlers=[WORKFLOWS]), Inboxes())
    thread.start()
    try:
        thread.submit(flows.end(database, flows.claims(database), verdict))
        eventually(lambda: flows.states(database, parent)["next"] == "RUNNING", timeout=20)
    finally:
        thread.stop()


def test_worker_that_starts_a_sub_workflow_without_jobs_carries_its_parent_on(database: Database) -> None:
    """A workflow that ends at its start needs no scheduler for its end."""
    spec = {"nodes": [job("each", for_each=[])]}
    define(database, "inner", spec)
    parent = flows.create(database, [{"name": "child", "endpoint": "inner"}, job("next", "child")])
    flows.advance(database, parent)
    claimed = claim(database)
    thread = OutboxThread(OutboxProcessor(database, handlers=[WORKFLOWS]), Inboxes())
    thread.start()
    try:
        starter = execution_start.WorkflowStarter(database, lambda _queue: None, thread.submit)
        starter(claimed.execution_id, claimed.attempt, spec)
        eventually(lambda: flows.states(database, parent)["next"] == "RUNNING", timeout=20)
    finally:
        thread.stop()


def test_failed_sub_workflow_fails_its_node_and_a_cancelled_parent_cancels_it(database: Database) -> None:
    define(database, "inner", REPORT)
    nodes = [{"name": "child", "endpoint": "inner", "input": {"day": 1}}]
    parents = [flows.create(database, nodes) for _ in range(2)]
    children = []
    for parent in parents:
        flows.advance(database, parent)
        children.append(start(database, REPORT))
    run(database, children[0], failing=["step"])
    flows.handle_all(database)
    flows.advance(database, parents[0])
    assert flows.states(database, parents[0]) == {"child": "FAILED"}
    flows.cancel(database, parents[1], if_running=IfRunning.ABORT)
    flows.advance(database, parents[1])
    chores(database)
    flows.handle_all(database)
    chores(database)
    flows.handle_all(database)
    chores(database)
    assert flows.status(database, children[1]) == "CANCELLED"
    assert (flows.status(database, parents[1]), flows.states(database, parents[1])) == (
        "CANCELLED",
        {"child": "CANCELLED"},
    )


def test_retried_execution_of_a_sub_workflow_carries_its_parent_on(database: Database) -> None:
    """The retry starts a new sub-workflow."""
    define(database, "inner", REPORT)
    child = {"name": "child", "endpoint": "inner", "input": {"day": 1}}
    parent = flows.create(database, [child, gate("last", "child")])
    flows.advance(database, parent)
    first = start(database, REPORT)
    run(database, first, failing=["step"])
    flows.handle_all(database)
    flows.advance(database, parent)
    assert flows.status(database, parent) == "FAILED"
    retry_execution(database, flows.workflow(database, first).execution_id, actor="x")
    chores(database)
    assert flows.status(database, parent) == "RUNNING"
    run(database, start(database, REPORT))
    flows.handle_all(database)
    flows.advance(database, parent)
    assert (flows.status(database, parent), flows.status(database, first)) == ("SUCCEEDED", "FAILED")


def test_explanation_names_the_workflow_of_a_running_execution(database: Database) -> None:
    define(database, "report", REPORT)
    execution_id = add(database, "report")
    workflow_id = start(database, REPORT)

    def explained() -> tuple[str, str]:
        found = explain(database, execution_id, reclaim_every=timedelta(0), reasons=())
        return found.reason, found.explanation

    reason, sentence = explained()
    assert reason == "RUNNING"
    assert sentence.startswith(f"Attempt 1 of 1 is the workflow {workflow_id}; ")
    cancel_execution(database, execution_id, if_running=IfRunning.REQUEST, actor="test")
    reason, sentence = explained()
    assert reason == "CANCEL_REQUESTED"
    assert sentence.endswith("Its cancellation was requested by test.")


def test_schedule_without_overlap_starts_no_workflow_while_one_runs(database: Database) -> None:
    define(database, "report", REPORT)
    hour = timedelta(hours=1)
    given = {"endpoint": "report", "endpoint_type": "WORKFLOW", "overlap": "skip", "input": {"day": 1}}
    job_id = add_interval_job(database, hour, **given)

    def tick() -> tuple[int, int]:
        """Make the next tick due; returns the executions and the skipped ticks of the job."""
        move = "UPDATE jobs SET cron_next_run_at = now() WHERE job_id = :id"
        database.fetch(text(move), {"id": job_id})
        scheduler_chores(database).materialize()
        return len(scheduled(database, job_id)), stored_job(database, job_id).skipped_overlap

    assert tick() == (1, 0)
    workflow_id = start(database, REPORT)
    assert tick() == (1, 1)
    run(database, workflow_id)
    assert tick() == (2, 1)


def test_too_deep_workflow_fails_at_its_start(database: Database) -> None:
    """A definition may change after the check, so that the depth is known at the start only."""
    define(database, "inner", REPORT)
    parent = flows.create(database, [{"name": "child", "endpoint": "inner", "input": {"day": 1}}])
    database.fetch(text("UPDATE workflows SET depth = 8"))
    flows.advance(database, parent)
    with pytest.raises(DeliveryError, match="the 9th inside of each other; 8 are allowed"):
        start(database, REPORT)
