"""Cancel requests for running executions: the current attempt counts, and no other attempt follows."""

from functools import partial

import pytest
from sqlalchemy import text

from app.kernel import ids
from app.kernel.db import Database
from app.queue.claiming.release import Release, release
from app.queue.executions import reclaim, reclaim_candidates
from app.queue.executions.completion import Completion, complete
from app.queue.executions.execution_cancellation import CancellationCounts, IfRunning, cancel_execution
from app.queue.executions.execution_model import Claim, DeliveryError, LogLine
from app.queue.executions.manual_retry import retry_execution
from app.queue.executions.verdict import Verdict
from brokers.worker_process import WorkerProcess
from schema.states import LogLevel
from tests import rows
from tests.claiming import take
from tests.racing import at_once
from tests.verdicts import success

ERROR = DeliveryError("HTTP_ERROR", "answered 503")


def running(process: WorkerProcess, *, max_attempts: int = 3) -> Claim:
    """Create an execution and claim it for this process."""
    rows.add_executions(process.database, max_attempts=max_attempts)
    answer = take(process.database, process.worker_id, 1)
    return answer.claims[0]


def request_cancel(database: Database, claim: Claim, if_running: IfRunning = IfRunning.REQUEST) -> object:
    return cancel_execution(database, claim.execution_id, if_running=if_running, actor="ops")


def complete_claim(process: WorkerProcess, claim: Claim, verdict: Verdict) -> object:
    line = LogLine(LogLevel.WARN, "attempt 1 failed")
    ended = Completion(claim, ids.attempt_id(), verdict, claim.claimed_at, 5, (line,))
    return complete(process.database, process.worker_id, [ended])


def lines(database: Database) -> list[str]:
    return [row.message for row in database.fetch(text("SELECT message FROM execution_logs"))]


def recorded(database: Database) -> list[tuple[str, str, int, str | None, str]]:
    query = text(
        "SELECT from_status, to_status, attempt_number, actor, reason FROM execution_events ORDER BY occurred_at"
    )
    return [tuple(row) for row in database.fetch(query)]


def test_cancel_request_changes_no_status_and_a_second_request_changes_nothing(process: WorkerProcess) -> None:
    claim = running(process)
    assert request_cancel(process.database, claim) == CancellationCounts(ended=0, asked=1)
    first = rows.execution(process.database, claim.execution_id)
    assert (first.status, first.cancel_requested_at is None) == ("RUNNING", False)
    assert request_cancel(process.database, claim) == CancellationCounts(ended=0, asked=1)
    assert rows.execution(process.database, claim.execution_id) == first
    assert recorded(process.database) == [("RUNNING", "RUNNING", 1, "ops", "CANCEL_REQUESTED")]
    assert rows.job_of(process.database, claim.execution_id).status == "ACTIVE"


def test_abort_request_after_a_cancel_request_is_recorded_once(process: WorkerProcess) -> None:
    claim = running(process)
    for if_running in (IfRunning.REQUEST, IfRunning.ABORT, IfRunning.ABORT, IfRunning.REQUEST):
        assert request_cancel(process.database, claim, if_running) == CancellationCounts(ended=0, asked=1)
    assert [event[-1] for event in recorded(process.database)] == ["CANCEL_REQUESTED", "ABORT_REQUESTED"]
    row = rows.execution(process.database, claim.execution_id)
    assert row.cancel_requested_at < row.abort_requested_at


def test_aborted_execution_is_cancelled_and_may_have_been_delivered(process: WorkerProcess) -> None:
    claim = running(process)
    request_cancel(process.database, claim, IfRunning.ABORT)
    complete_claim(process, claim, Verdict.abort())
    row = rows.execution(process.database, claim.execution_id)
    assert (row.status, row.completed_at is None) == ("CANCELLED", False)
    (tried,) = rows.attempts(process.database, claim.execution_id)
    assert (tried.status, tried.error["type"]) == ("FAILED", "ABORTED")
    assert (tried.error["may_have_been_delivered"], tried.error["retryable"]) == (True, False)
    assert rows.job_of(process.database, claim.execution_id).status == "RETIRED"
    retry_execution(process.database, claim.execution_id, actor=None)
    again = rows.execution(process.database, claim.execution_id)
    assert (again.status, again.cancel_requested_at, again.abort_requested_at) == ("QUEUED", None, None)


@pytest.mark.parametrize("policy", [None, '{"fail_on": ["WORKER_LOST"]}', '{"ignore_on": ["WORKER_LOST"]}'])
def test_lost_worker_cancels_an_execution_with_an_abort_request_under_any_policy(
    process: WorkerProcess, policy: str | None
) -> None:
    claim = running(process)
    process.database.fetch(
        text("UPDATE endpoint_versions SET retry_policy = CAST(:policy AS JSONB)"), {"policy": policy}
    )
    request_cancel(process.database, claim, IfRunning.ABORT)
    process.database.fetch(text("UPDATE executions SET worker_id = 'wrk_gone'"))
    assert reclaim.reclaim(process.database, reclaim_candidates.candidates(process.database, limit=9)).cancelled == 1
    row = rows.execution(process.database, claim.execution_id)
    (tried,) = rows.attempts(process.database, claim.execution_id)
    assert (row.status, row.output, tried.status, tried.output) == ("CANCELLED", None, "FAILED", None)
    assert (tried.error["type"], tried.error["may_have_been_delivered"]) == ("WORKER_LOST", True)


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        (success({}), "SUCCESS"),
        (Verdict.fail(ERROR), "FAILED"),
        (Verdict.retry(ERROR, 1000), "CANCELLED"),
    ],
)
def test_cancel_request_replaces_only_a_retry(process: WorkerProcess, verdict: Verdict, status: str) -> None:
    claim = running(process)
    due = rows.execution(process.database, claim.execution_id).run_at
    request_cancel(process.database, claim)
    complete_claim(process, claim, verdict)
    row = rows.execution(process.database, claim.execution_id)
    assert (row.status, row.completed_at is None, row.run_at) == (status, False, due)
    assert len(rows.attempts(process.database, claim.execution_id)) == 1
    assert rows.job_of(process.database, claim.execution_id).status == "RETIRED"
    (line,) = lines(process.database)
    assert line.endswith("not tried again") == (status == "CANCELLED")


@pytest.mark.parametrize(("policy", "status"), [(None, "CANCELLED"), ('{"fail_on": ["WORKER_LOST"]}', "FAILED")])
def test_lost_worker_ends_an_execution_with_a_cancel_request(
    process: WorkerProcess, policy: str | None, status: str
) -> None:
    claim = running(process, max_attempts=1)
    no_more = text("UPDATE endpoint_versions SET retry_policy = CAST(:policy AS JSONB)")
    process.database.fetch(no_more, {"policy": policy})
    request_cancel(process.database, claim)
    process.database.fetch(text("UPDATE executions SET worker_id = 'wrk_gone'"))
    done = reclaim.reclaim(process.database, reclaim_candidates.candidates(process.database, limit=9))
    assert (done.queues, done.retrying) == (frozenset(), 0)
    assert (done.cancelled, done.failed) == ((1, 0) if status == "CANCELLED" else (0, 1))
    row = rows.execution(process.database, claim.execution_id)
    assert (row.status, row.completed_at is None) == (status, False)
    (tried,) = rows.attempts(process.database, claim.execution_id)
    assert tried.error["type"] == "WORKER_LOST"
    assert rows.job_of(process.database, claim.execution_id).status == "RETIRED"
    assert lines(process.database)[0].endswith("not tried again") == (status == "CANCELLED")


def test_release_cancels_the_execution_and_returns_its_attempt(process: WorkerProcess) -> None:
    claim = running(process)
    request_cancel(process.database, claim)
    assert len(release(process.database, process.worker_id, [Release(claim.key)])) == 1
    row = rows.execution(process.database, claim.execution_id)
    assert (row.status, row.attempt_count, row.completed_at is None) == ("CANCELLED", 0, False)
    assert rows.attempts(process.database, claim.execution_id) == []
    assert rows.job_of(process.database, claim.execution_id).status == "RETIRED"


def test_cancellation_by_an_unrecorded_release_is_recorded(process: WorkerProcess) -> None:
    claim = running(process)
    request_cancel(process.database, claim)
    release(process.database, process.worker_id, [Release(claim.key, is_noted=False)])
    assert [(before, after, reason) for before, after, _, _, reason in recorded(process.database)] == [
        ("QUEUED", "RUNNING", "CLAIMED"),
        ("RUNNING", "RUNNING", "CANCEL_REQUESTED"),
        ("RUNNING", "CANCELLED", "HANDED_BACK"),
    ]


def test_release_is_recorded_with_its_claim(process: WorkerProcess) -> None:
    claim = running(process)
    release(process.database, process.worker_id, [Release(claim.key)])
    release(process.database, process.worker_id, [Release(claim.key)])
    (begun,) = process.database.fetch(text("SELECT occurred_at FROM execution_events WHERE reason = 'CLAIMED'"))
    assert begun.occurred_at == claim.claimed_at
    assert recorded(process.database) == [
        ("QUEUED", "RUNNING", 1, process.worker_id, "CLAIMED"),
        ("RUNNING", "QUEUED", 1, process.worker_id, "HANDED_BACK"),
    ]
    assert rows.job_of(process.database, claim.execution_id).status == "ACTIVE"


def test_concurrent_cancel_request_and_failed_attempt_cancel_the_execution(process: WorkerProcess) -> None:
    """A request before the failure prevents the retry; a later request cancels the waiting retry."""
    for _ in range(20):
        claim = running(process)
        at_once(
            partial(request_cancel, process.database, claim),
            partial(complete_claim, process, claim, Verdict.retry(ERROR, 9000)),
        )
        assert rows.execution(process.database, claim.execution_id).status == "CANCELLED"
        assert rows.job_of(process.database, claim.execution_id).status == "RETIRED"
