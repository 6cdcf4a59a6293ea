"""Fixed delay: every kind of completion of a job's latest execution sets the next run, once."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from app.kernel import ids
from app.queue.executions import reclaim, reclaim_candidates
from app.queue.executions.completion import Completion, complete
from app.queue.executions.execution_cancellation import IfRunning, cancel_execution
from app.queue.executions.execution_model import Claim, DeliveryError
from app.queue.executions.verdict import Verdict
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.cases import each_case
from tests.claiming import release, take
from tests.contract.scheduler.conftest import chores
from tests.verdicts import success

DELAY = timedelta(milliseconds=90_000)
ERROR = DeliveryError("HTTP_ERROR", "answered 503")


def make_fixed_delay(process: WorkerProcess, execution_id: str, **columns: str) -> None:
    """Turn the job of an execution into a fixed-delay job with this execution as the latest tick."""
    columns = {
        "trigger_type": "'INTERVAL'",
        "fixed_delay": "true",
        "interval_ms": "90000",
        "cron_last_tick_at": "(SELECT scheduled_at FROM executions AS e WHERE e.job_id = jobs.job_id)",
    } | columns
    changes = ", ".join(f"{name} = {value}" for name, value in columns.items())
    query = f"UPDATE jobs SET {changes} WHERE job_id = (SELECT job_id FROM executions WHERE execution_id = :id)"
    process.database.fetch(text(query), {"id": execution_id})


def claimed(process: WorkerProcess, max_attempts: int = 1, **columns: str) -> Claim:
    (execution_id,) = rows.add_executions(process.database, max_attempts=max_attempts)
    make_fixed_delay(process, execution_id, **columns)
    answer = take(process.database, process.worker_id, 1)
    return answer.claims[0]


def succeed(process: WorkerProcess, claim: Claim) -> None:
    complete_with(process, claim, success({}))


def fail(process: WorkerProcess, claim: Claim) -> None:
    complete_with(process, claim, Verdict.fail(ERROR))


def complete_with(process: WorkerProcess, claim: Claim, verdict: Verdict) -> None:
    ended = Completion(claim, ids.attempt_id(), verdict, claim.claimed_at, 7, ())
    complete(process.database, process.worker_id, [ended])


def lose(process: WorkerProcess, claim: Claim) -> None:
    no_more = """UPDATE endpoint_versions SET retry_policy = CAST('{"fail_on": ["WORKER_LOST"]}' AS JSONB)"""
    process.database.fetch(text(no_more))
    process.database.fetch(text("UPDATE executions SET worker_id = 'wrk_gone'"))
    reclaim.reclaim(process.database, reclaim_candidates.candidates(process.database, limit=9))


def release_with_cancel_request(process: WorkerProcess, claim: Claim) -> None:
    cancel_execution(process.database, claim.execution_id, if_running=IfRunning.REQUEST, actor=None)
    release(process.database, process.worker_id, [claim.key])


def cancel_queued(process: WorkerProcess, claim: Claim) -> None:
    release(process.database, process.worker_id, [claim.key])
    cancel_execution(process.database, claim.execution_id, if_running=None, actor=None)


COMPLETIONS = [succeed, fail, lose, release_with_cancel_request, cancel_queued]


def job_and_completion_time(process: WorkerProcess, claim: Claim) -> tuple[Any, datetime | None]:
    row = rows.execution(process.database, claim.execution_id)
    return rows.job_of(process.database, claim.execution_id), row.completed_at


@pytest.mark.parametrize("end", COMPLETIONS)
def test_every_completion_sets_the_next_run_one_interval_later(
    process: WorkerProcess, end: Callable[[WorkerProcess, Claim], None]
) -> None:
    claim = claimed(process)
    end(process, claim)
    job, ended_at = job_and_completion_time(process, claim)
    assert ended_at is not None
    assert (job.status, job.retired_at, job.cron_next_run_at) == ("ACTIVE", None, ended_at + DELAY)


def test_completion_written_after_the_next_run_was_due_runs_the_job_at_once(process: WorkerProcess) -> None:
    """The database was unreachable for longer than the delay, so the watermark is past the missed run."""
    claim = claimed(process)
    scheduler = chores(process.database)
    scheduler.materialize()
    long_ago = time.monotonic() - 10 * DELAY.total_seconds()
    began = claim.claimed_at - 20 * DELAY
    ended = Completion(claim, ids.attempt_id(), success({}), began, 7, (), long_ago)
    complete(process.database, process.worker_id, [ended])
    assert scheduler.materialize()["ticks"] == 1


def test_retry_does_not_start_the_delay(process: WorkerProcess) -> None:
    claim = claimed(process, max_attempts=2)
    complete_with(process, claim, Verdict.retry(ERROR, 1000))
    job, ended_at = job_and_completion_time(process, claim)
    assert (ended_at, job.cron_next_run_at) == (None, None)


JOBS_LEFT_ALONE = {
    "a later tick exists": {"cron_last_tick_at": "now() + INTERVAL '1 minute'"},
    "the job is paused": {"status": "'PAUSED'", "paused_at": "now()"},
    "the job is retired": {"status": "'RETIRED'", "retired_at": "now()"},
    "the rate is fixed": {"fixed_delay": "false"},
}


@each_case("end", COMPLETIONS)
@each_case("columns", JOBS_LEFT_ALONE.values(), ids=JOBS_LEFT_ALONE.keys())
def test_completion_changes_no_other_job(
    process: WorkerProcess, end: Callable[[WorkerProcess, Claim], None], columns: dict[str, str]
) -> None:
    claim = claimed(process)
    make_fixed_delay(process, claim.execution_id, **columns)
    before = rows.job_of(process.database, claim.execution_id)
    end(process, claim)
    assert rows.job_of(process.database, claim.execution_id) == before


@pytest.mark.parametrize("end", COMPLETIONS)
def test_completion_keeps_an_existing_next_run(
    process: WorkerProcess, end: Callable[[WorkerProcess, Claim], None]
) -> None:
    claim = claimed(process, cron_next_run_at="now() + INTERVAL '1 hour'")
    before = rows.job_of(process.database, claim.execution_id).cron_next_run_at
    end(process, claim)
    assert rows.job_of(process.database, claim.execution_id).cron_next_run_at == before
