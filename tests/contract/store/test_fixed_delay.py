"""Fixed delay: the end of a job's latest execution sets its next run, once, whatever ended it."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from app.kernel import ids
from app.queue.executions import reclaim
from app.queue.executions.completion import Conclusion, conclude
from app.queue.executions.execution_cancellation import IfRunning, cancel_execution
from app.queue.executions.execution_model import Claim, DeliveryError
from app.queue.executions.verdict import Verdict
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.claiming import release, take
from tests.contract.scheduler.conftest import chores

DELAY = timedelta(milliseconds=90_000)
ERROR = DeliveryError("HTTP_ERROR", "answered 503")


def make_fixed_delay(process: WorkerProcess, execution_id: str, **columns: str) -> None:
    """Turn an execution's job into a fixed-delay one whose latest tick it is."""
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
    conclude_with(process, claim, Verdict.success({}))


def fail(process: WorkerProcess, claim: Claim) -> None:
    conclude_with(process, claim, Verdict.fail(ERROR))


def conclude_with(process: WorkerProcess, claim: Claim, verdict: Verdict) -> None:
    ended = Conclusion(claim, ids.attempt_id(), verdict, claim.claimed_at, 7, ())
    conclude(process.database, process.worker_id, [ended])


def lose(process: WorkerProcess, claim: Claim) -> None:
    no_more = """UPDATE endpoint_versions SET retry_policy = CAST('{"fail_on": ["WORKER_LOST"]}' AS JSONB)"""
    process.database.fetch(text(no_more))
    process.database.fetch(text("UPDATE executions SET worker_id = 'wrk_gone'"))
    reclaim.reclaim(process.database, reclaim.candidates(process.database, limit=9))


def hand_back_asked(process: WorkerProcess, claim: Claim) -> None:
    cancel_execution(process.database, claim.execution_id, if_running=IfRunning.REQUEST, actor=None)
    release(process.database, process.worker_id, [claim.key])


def cancel_queued(process: WorkerProcess, claim: Claim) -> None:
    release(process.database, process.worker_id, [claim.key])
    cancel_execution(process.database, claim.execution_id, if_running=None, actor=None)


ENDS = [succeed, fail, lose, hand_back_asked, cancel_queued]


def job_and_end(process: WorkerProcess, claim: Claim) -> tuple[Any, datetime | None]:
    row = rows.execution(process.database, claim.execution_id)
    return rows.job_of(process.database, claim.execution_id), row.completed_at


@pytest.mark.parametrize("end", ENDS)
def test_every_end_sets_the_next_run_an_interval_later(
    process: WorkerProcess, end: Callable[[WorkerProcess, Claim], None]
) -> None:
    claim = claimed(process)
    end(process, claim)
    job, ended_at = job_and_end(process, claim)
    assert ended_at is not None
    assert (job.status, job.retired_at, job.cron_next_run_at) == ("ACTIVE", None, ended_at + DELAY)


def test_what_should_have_run_before_its_end_was_written_runs_at_once(process: WorkerProcess) -> None:
    """The database was away for longer than the delay: the read of due ticks is past the instant that was missed."""
    claim = claimed(process)
    ours = chores(process.database)
    ours.materialize()
    long_ago = time.monotonic() - 10 * DELAY.total_seconds()
    began = claim.claimed_at - 20 * DELAY
    ended = Conclusion(claim, ids.attempt_id(), Verdict.success({}), began, 7, (), long_ago)
    conclude(process.database, process.worker_id, [ended])
    assert ours.materialize()["ticks"] == 1


def test_a_retry_does_not_start_the_delay(process: WorkerProcess) -> None:
    claim = claimed(process, max_attempts=2)
    conclude_with(process, claim, Verdict.retry(ERROR, 1000))
    job, ended_at = job_and_end(process, claim)
    assert (ended_at, job.cron_next_run_at) == (None, None)


NOT_MINE = {
    "a later tick exists": {"cron_last_tick_at": "now() + INTERVAL '1 minute'"},
    "the job is paused": {"status": "'PAUSED'", "paused_at": "now()"},
    "the job is retired": {"status": "'RETIRED'", "retired_at": "now()"},
    "the rate is fixed": {"fixed_delay": "false"},
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("columns", NOT_MINE.values(), ids=NOT_MINE.keys())
def test_nothing_else_sets_it(
    process: WorkerProcess, end: Callable[[WorkerProcess, Claim], None], columns: dict[str, str]
) -> None:
    claim = claimed(process)
    make_fixed_delay(process, claim.execution_id, **columns)
    before = rows.job_of(process.database, claim.execution_id)
    end(process, claim)
    assert rows.job_of(process.database, claim.execution_id) == before


@pytest.mark.parametrize("end", ENDS)
def test_a_next_run_that_is_set_stays(process: WorkerProcess, end: Callable[[WorkerProcess, Claim], None]) -> None:
    claim = claimed(process, cron_next_run_at="now() + INTERVAL '1 hour'")
    before = rows.job_of(process.database, claim.execution_id).cron_next_run_at
    end(process, claim)
    assert rows.job_of(process.database, claim.execution_id).cron_next_run_at == before
