"""Each check of workflows finds its breach and accepts legal evidence."""

from dataclasses import replace
from datetime import timedelta

import pytest

from app.dev.verify.evidence import Evidence
from app.dev.verify.promise_checks import run_checks
from app.dev.verify.workflows.workflow_rows import Edge, NodeRow, PlacedJob, WorkflowRow, WorkflowsOfRun
from app.queue.executions.node_key import NodeKey
from schema.states import NodeState, WorkflowStatus
from tests.unit.verify.good_run import DUE, EXECUTION, GOOD
from tests.unit.verify.workflow_checks import ENDS, ONCE, ORDER, WORKFLOWS

A_SECOND = timedelta(seconds=1)


def node(number: int, item: int = 0, state: NodeState = NodeState.SUCCEEDED, **changes: object) -> NodeRow:
    job = f"job-{number}-{item}"
    row = NodeRow("wf_1", number, item, state, 1, job, job, None, None, DUE + number * A_SECOND)
    return replace(row, **changes)  # type: ignore[arg-type]


def job(number: int, item: int = 0, run: int = 1, **changes: object) -> PlacedJob:
    made = PlacedJob(f"job-{number}-{item}", NodeKey("wf_1", number, item, run), DUE + (number - 0.5) * A_SECOND)
    return replace(made, **changes)  # type: ignore[arg-type]


LIST = node(2, job_id=None, execution_id=None, items_made=2)
SKIPPED = node(3, state=NodeState.SKIPPED, job_id=None, execution_id=None)
ROW = WorkflowRow("wf_1", WorkflowStatus.SUCCEEDED, 0, 0, 2, 0, 0, 1)
RUN = WorkflowsOfRun(
    {"key": "wf_1"},
    (ROW,),
    (node(1, execution_id=EXECUTION.execution_id), LIST, node(2, 1), node(2, 2), SKIPPED),
    (Edge("wf_1", 1, 2), Edge("wf_1", 2, 3)),
    (job(1), job(2, 1), job(2, 2)),
)
NODES, JOBS = RUN.nodes, RUN.jobs


def breached(workflows: WorkflowsOfRun, evidence: Evidence = GOOD) -> set[str]:
    return {result.name for result in run_checks(replace(evidence, workflows=workflows)) if not result.holds}


def test_legal_workflow_breaks_no_check() -> None:
    assert breached(RUN) == set()
    retried = replace(RUN, nodes=(*NODES[1:], node(1, run=2)), jobs=(*JOBS, job(1, run=2), job(1, run=1)))
    assert breached(retried) == {ONCE}, "two jobs of one run"
    retried = replace(RUN, nodes=(*NODES[1:], node(1, run=2)), jobs=(*JOBS, job(1, run=2)))
    assert breached(retried) == set(), "a job of each run"


BREACHES: list[tuple[str, dict[str, object]]] = [
    (ONCE, {"jobs": JOBS[1:]}),
    (ONCE, {"jobs": (*JOBS, job(1, job_id="other"))}),
    (ONCE, {"jobs": (*JOBS, job(3))}),
    (ONCE, {"jobs": (*JOBS, job(2, 3))}),
    (ONCE, {"jobs": (job(1, job_id="other"), *JOBS[1:])}),
    (ONCE, {"nodes": (*NODES[:3], SKIPPED), "jobs": JOBS[:2]}),
    (ORDER, {"jobs": (*JOBS[:2], job(2, 2, created_at=DUE + 0.9 * A_SECOND))}),
    (ENDS, {"accepted": {"key": "wf_1", "lost": "wf_2"}}),
    (ENDS, {"rows": (replace(ROW, status=WorkflowStatus.RUNNING),)}),
    (ENDS, {"rows": (replace(ROW, open_nodes=1),)}),
    (ENDS, {"rows": (replace(ROW, running=1),)}),
    (ENDS, {"rows": (replace(ROW, skipped=0),)}),
    (ENDS, {"nodes": (replace(NODES[0], reported_to=0), *NODES[1:])}),
    (ENDS, {"nodes": (*NODES[:3], replace(NODES[3], state=NodeState.RUNNING), SKIPPED)}),
]


def test_every_check_has_an_example_of_a_breach() -> None:
    assert {check for check, _changes in BREACHES} == WORKFLOWS


@pytest.mark.parametrize(("check", "changes"), BREACHES)
def test_check_finds_its_breach(check: str, changes: dict[str, object]) -> None:
    assert breached(replace(RUN, **changes)) == {check}  # type: ignore[arg-type]


def test_end_of_a_node_is_that_of_its_execution() -> None:
    failed = replace(NODES[0], state=NodeState.FAILED)
    row = replace(ROW, succeeded=1, failed=1)
    assert breached(replace(RUN, nodes=(failed, *NODES[1:]), rows=(row,))) == {ONCE}
    unended = replace(NODES[0], ended_at=None)
    assert breached(replace(RUN, nodes=(unended, *NODES[1:]))) == {ORDER}
