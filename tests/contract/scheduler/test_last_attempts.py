"""Reclaim of an execution without attempts left: lost workers, the maximum, retry policies, cancel requests."""

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.kernel.processes import worker_lease
from app.queue.executions.completion import complete
from app.scheduler.chore import Counts
from tests import rows
from tests.claiming import take
from tests.contract.races.racing import Hints
from tests.contract.scheduler.conftest import chores
from tests.contract.scheduler.reclaiming import DEATHS, claimed, completed


def lose_again(database: Database, worker: str) -> Counts:
    """Let another worker claim the due executions, and end that worker too."""
    worker_lease.register(database, worker_id=worker, host="h", pid=1, queues=["http"], capacity=9, lease_ms=60_000)
    take(database, worker, 9)
    database.fetch(text(DEATHS["worker shut down"]))
    return chores(database).reclaim_from_dead_workers()


def test_first_lost_worker_grants_an_extra_attempt(database: Database) -> None:
    """The lost worker may have sent nothing, and each execution is delivered at least once."""
    (claim,) = claimed(database, max_attempts=1)
    database.fetch(text(DEATHS["worker shut down"]))
    hints = Hints()
    assert chores(database, hints=hints).reclaim_from_dead_workers()["retrying"] == 1
    assert hints.queues == ["http"]
    row = rows.execution(database, claim.execution_id)
    assert (row.status, row.attempt_count, row.max_attempts) == ("RETRYING", 1, 2)
    (line,) = database.fetch(text("SELECT * FROM execution_logs"))
    assert line.message.endswith("; trying once more, since it may never have been sent")
    worker_lease.register(database, worker_id="wrk_2", host="h", pid=2, queues=["http"], capacity=9, lease_ms=60_000)
    (again,) = take(database, "wrk_2", 1).claims
    assert (again.attempt, again.max_attempts) == (2, 2)
    complete(database, "wrk_2", [completed(again)])
    assert rows.execution(database, claim.execution_id).status == "SUCCESS"
    assert [a.attempt_number for a in rows.attempts(database, claim.execution_id)] == [1, 2]


def test_second_lost_worker_uses_the_last_attempt_and_retires_the_job(database: Database) -> None:
    (claim,) = claimed(database, max_attempts=1)
    assert lose_again(database, "wrk_2")["retrying"] == 1
    counts = lose_again(database, "wrk_3")
    assert (counts["retrying"], counts["failed"]) == (0, 1)
    row = rows.execution(database, claim.execution_id)
    assert (row.status, row.attempt_count, row.max_attempts, row.completed_at is None) == ("FAILED", 2, 2, False)
    tried = rows.attempts(database, claim.execution_id)
    assert [(a.attempt_number, a.error["type"]) for a in tried] == [(1, "WORKER_LOST"), (2, "WORKER_LOST")]
    job = rows.job_of(database, claim.execution_id)
    assert (job.status, job.retired_at) == ("RETIRED", row.completed_at)
    lines = database.fetch(text("SELECT * FROM execution_logs ORDER BY attempt_number"))
    assert (lines[1].level, lines[1].message.endswith("; no attempts are left")) == ("ERROR", True)


def test_lost_worker_before_the_last_attempt_grants_no_extra_attempt(database: Database) -> None:
    (claim,) = claimed(database, max_attempts=2)
    assert [lose_again(database, worker)["retrying"] for worker in ("wrk_2", "wrk_3")] == [1, 0]
    row = rows.execution(database, claim.execution_id)
    assert (row.status, row.attempt_count, row.max_attempts) == ("FAILED", 2, 2)


def test_execution_with_a_cancel_request_gets_no_extra_attempt(database: Database) -> None:
    (claim,) = claimed(database, max_attempts=1)
    database.fetch(text("UPDATE executions SET cancel_requested_at = now()"))
    assert lose_again(database, "wrk_2")["cancelled"] == 1
    row = rows.execution(database, claim.execution_id)
    assert (row.status, row.attempt_count, row.max_attempts) == ("CANCELLED", 1, 1)


@pytest.mark.parametrize(
    ("policy", "status", "retryable"),
    [
        ('{"fail_on": ["WORKER_LOST"]}', "FAILED", False),
        ('{"fail_on": ["STUCK", 503]}', "RETRYING", True),
        ('{"max_age_ms": 60000}', "FAILED", True),
        ('{"max_age_ms": 7200000, "fail_on": []}', "RETRYING", True),
        ('{"max_age_ms": null}', "RETRYING", True),
        ('"edited manually"', "RETRYING", True),
    ],
)
def test_retry_policy_decides_whether_a_lost_attempt_is_retried(
    database: Database, policy: str, status: str, retryable: bool
) -> None:
    (claim,) = claimed(database)
    database.fetch(text("UPDATE executions SET scheduled_at = now() - INTERVAL '1 hour'"))
    database.fetch(text("UPDATE endpoint_versions SET retry_policy = CAST(:policy AS JSONB)"), {"policy": policy})
    database.fetch(text(DEATHS["worker shut down"]))
    chores(database).reclaim_from_dead_workers()
    row = rows.execution(database, claim.execution_id)
    assert (row.status, row.completed_at is None) == (status, status == "RETRYING")
    (line,) = database.fetch(text("SELECT * FROM execution_logs"))
    assert line.message.endswith("allows no other attempt") == (status == "FAILED")
    (tried,) = rows.attempts(database, claim.execution_id)
    assert tried.error["retryable"] is retryable


def test_first_stuck_claim_grants_an_extra_attempt(database: Database) -> None:
    """The claim may have committed after its worker had given it up, so that nothing was sent."""
    (claim,) = claimed(database, max_attempts=1)
    age = text("UPDATE executions SET started_at = now() - INTERVAL '301 seconds'")
    database.fetch(age)
    assert chores(database).reclaim_stuck()["retrying"] == 1
    worker_lease.register(database, worker_id="wrk_2", host="h", pid=2, queues=["http"], capacity=9, lease_ms=60_000)
    (again,) = take(database, "wrk_2", 1).claims
    assert (again.attempt, again.max_attempts) == (2, 2)
    database.fetch(age)
    assert chores(database).reclaim_stuck()["failed"] == 1
    assert [a.error["type"] for a in rows.attempts(database, claim.execution_id)] == ["STUCK", "STUCK"]


def test_policy_that_forbids_the_retry_of_a_stuck_attempt_fails_it(database: Database) -> None:
    (claim,) = claimed(database)
    database.fetch(text("UPDATE executions SET started_at = now() - INTERVAL '301 seconds'"))
    database.fetch(text("""UPDATE endpoint_versions SET retry_policy = CAST('{"fail_on": ["STUCK"]}' AS JSONB)"""))
    assert chores(database).reclaim_stuck()["failed"] == 1
    (tried,) = rows.attempts(database, claim.execution_id)
    assert (tried.error["type"], tried.error["retryable"]) == ("STUCK", False)


def test_cron_job_stays_active_after_a_failed_execution(database: Database) -> None:
    (claim,) = claimed(database, max_attempts=1)
    database.fetch(
        text("""UPDATE endpoint_versions SET retry_policy = CAST('{"fail_on": ["WORKER_LOST"]}' AS JSONB)""")
    )
    database.fetch(text("UPDATE jobs SET trigger_type = 'CRON', cron_expression = '@daily', cron_timezone = 'UTC'"))
    database.fetch(text(DEATHS["worker row is missing"]))
    assert chores(database).reclaim_from_dead_workers()["failed"] == 1
    assert rows.job_of(database, claim.execution_id).status == "ACTIVE"


@pytest.mark.parametrize(
    ("policy", "status", "count"),
    [
        ('{"ignore_on": ["WORKER_LOST"]}', "SUCCESS", "ignored"),
        ('{"reject_on": ["WORKER_LOST"]}', "FAILED", "failed"),
        ('{"retry_on": ["5xx"]}', "FAILED", "failed"),
        ('{"retry_on": ["WORKER_LOST"]}', "RETRYING", "retrying"),
    ],
)
def test_error_lists_of_the_policy_apply_to_a_lost_worker(
    database: Database, policy: str, status: str, count: str
) -> None:
    (claim,) = claimed(database)
    database.fetch(text("UPDATE endpoint_versions SET retry_policy = CAST(:policy AS JSONB)"), {"policy": policy})
    database.fetch(text(DEATHS["worker shut down"]))
    assert chores(database).reclaim_from_dead_workers()[count] == 1
    row = rows.execution(database, claim.execution_id)
    assert (row.status, row.completed_at is None) == (status, status == "RETRYING")
    assert rows.job_of(database, claim.execution_id).status == ("ACTIVE" if status == "RETRYING" else "RETIRED")
    (tried,) = rows.attempts(database, claim.execution_id)
    assert (tried.status, tried.error["type"]) == ("SUCCESS" if status == "SUCCESS" else "FAILED", "WORKER_LOST")
    assert tried.error.get("rejected", False) is ("reject_on" in policy)
    assert row.output == tried.output == ({"ignored_error": tried.error} if status == "SUCCESS" else None)
