"""Completion of attempts: one fenced statement writes everything or nothing."""

import logging
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import text

from app.kernel import ids
from app.kernel.metrics.series import REFUSED, STALE
from app.queue.executions.completion import COMPLETE, Completion, complete, written
from app.queue.executions.execution_model import DeliveryError, LogLine
from app.queue.executions.stale_results import note_stale
from app.queue.executions.verdict import Verdict
from brokers.attempt import Attempt, Stage
from brokers.worker_process import WorkerProcess
from schema.states import LogLevel
from tests import rows
from tests.claiming import take
from tests.verdicts import success

ERROR = DeliveryError("HTTP_ERROR", "answered 503", extra={"status_code": 503})
VERDICTS: list[tuple[Verdict, str, str, str]] = [
    (success({"status_code": 200, "body": "OK"}), "SUCCESS", "SUCCESS", "RETIRED"),
    (Verdict.ignore(ERROR), "SUCCESS", "SUCCESS", "RETIRED"),
    (Verdict.retry(ERROR, 60_000), "RETRYING", "FAILED", "ACTIVE"),
    (Verdict.fail(ERROR), "FAILED", "FAILED", "RETIRED"),
]


def claimed(process: WorkerProcess, count: int = 1, max_attempts: int = 3) -> list[Attempt]:
    rows.add_executions(process.database, count, max_attempts=max_attempts)
    answer = take(process.database, process.worker_id, count)
    return [Attempt(claim, process.finalizer, process.shares) for claim in answer.claims]


def completion_of(attempt: Attempt, verdict: Verdict, *logs: LogLine) -> Completion:
    """Make the completion of an attempt that ended after 5 ms."""
    return Completion(attempt.claim, ids.attempt_id(), verdict, attempt.claim.claimed_at, 5, logs)


@pytest.mark.parametrize(("verdict", "execution", "attempt", "job"), VERDICTS)
def test_each_verdict_writes_execution_attempt_log_and_job(
    process: WorkerProcess, verdict: Verdict, execution: str, attempt: str, job: str
) -> None:
    (mine,) = claimed(process)
    execution_id = mine.claim.execution_id
    ended = completion_of(mine, verdict, LogLine(LogLevel.INFO, "a line"))
    assert complete(process.database, process.worker_id, [ended]) == {execution_id}
    row = rows.execution(process.database, execution_id)
    (tried,) = rows.attempts(process.database, execution_id)
    assert (row.status, tried.status, tried.attempt_number) == (execution, attempt, 1)
    assert (row.completed_at is None) == (execution == "RETRYING")
    assert (row.output, tried.output, tried.error) == (verdict.output, verdict.output, verdict.error)
    assert rows.job_of(process.database, execution_id).status == job
    logs = process.database.fetch(text("SELECT level, message, attempt_number FROM execution_logs"))
    assert [tuple(line) for line in logs] == [("INFO", "a line", 1)]
    (stored,) = process.database.fetch(text("SELECT count(*) AS n FROM attempts"))
    assert stored.n == (0 if verdict.is_plain_success else 1), "a success is the row of its execution"


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [
        (success({"status_code": 200, "body": "s3cret"}), "SUCCESS 200"),
        (success({"message_id": "1-0", "stream": "s3cret"}), "SUCCESS"),
        (Verdict.retry(ERROR, 60_000), "RETRYING HTTP_ERROR 503"),
        (Verdict.fail(DeliveryError("TIMEOUT", "s3cret")), "FAILED TIMEOUT"),
    ],
)
def test_each_attempt_logs_one_line(
    process: WorkerProcess, caplog: pytest.LogCaptureFixture, verdict: Verdict, outcome: str
) -> None:
    caplog.set_level(logging.INFO, "brokers.attempt")
    (mine,) = claimed(process)
    mine.enter(Stage.STARTED)
    mine.complete(verdict, LogLine(LogLevel.INFO, "s3cret"))
    claim = mine.claim
    (line,) = [record.getMessage() for record in caplog.records if record.name == "brokers.attempt"]
    begins = f"{claim.execution_id} of {claim.job_id}, attempt 1 of 3 to target over HTTP by "
    begins += f"{process.worker_id}: {outcome} in "
    assert re.fullmatch(re.escape(begins) + "[0-9]+ ms", line)


def test_recorded_completion_time_is_not_before_the_real_completion(process: WorkerProcess) -> None:
    """The claim's response and the completion may travel for long; a fixed delay counts from the recorded time."""
    (mine,) = claimed(process)
    claim = mine.claim._replace(claimed_at=mine.claim.claimed_at - timedelta(seconds=1))
    late = Attempt(claim, process.finalizer, process.shares)
    late.enter(Stage.STARTED)
    before = rows.database_now(process.database)
    late.complete(VERDICTS[0][0])
    assert process.finalizer.flush(60)
    (tried,) = rows.attempts(process.database, claim.execution_id)
    assert before <= tried.completed_at
    assert rows.execution(process.database, claim.execution_id).completed_at == tried.completed_at
    assert tried.started_at <= before


def test_retry_reschedules_the_same_row_by_the_database_clock(process: WorkerProcess) -> None:
    (mine,) = claimed(process)
    complete(process.database, process.worker_id, [completion_of(mine, Verdict.retry(ERROR, 60_000))])
    row = rows.execution(process.database, mine.claim.execution_id)
    wait = (row.run_at - rows.database_now(process.database)).total_seconds()
    assert 55 < wait <= 60
    assert row.scheduled_at < row.run_at


def expire(process: WorkerProcess, attempt: Attempt) -> None:
    process.database.fetch(text("UPDATE executions SET status = 'RETRYING'"))


def take_over(process: WorkerProcess, attempt: Attempt) -> None:
    process.database.fetch(text("UPDATE executions SET worker_id = 'wrk_other'"))


def next_attempt(process: WorkerProcess, attempt: Attempt) -> None:
    process.database.fetch(text("UPDATE executions SET attempt_count = 2"))


@pytest.mark.parametrize("lose", [expire, take_over, next_attempt])
def test_stale_claim_writes_nothing(process: WorkerProcess, lose: Callable[[WorkerProcess, Attempt], None]) -> None:
    """Invariant 2: worker, attempt number and RUNNING must all match."""
    (mine,) = claimed(process)
    ended = completion_of(mine, success({"status_code": 200}), LogLine(LogLevel.INFO, "x"))
    lose(process, mine)
    before = rows.execution(process.database, mine.claim.execution_id)
    assert complete(process.database, process.worker_id, [ended]) == set()
    assert rows.execution(process.database, mine.claim.execution_id) == before
    assert rows.attempts(process.database, mine.claim.execution_id) == []
    assert process.database.fetch(text("SELECT 1 FROM execution_logs")) == []
    assert rows.job_of(process.database, mine.claim.execution_id).status == "ACTIVE"


@pytest.mark.parametrize("verdict", [success({"status_code": 200}), Verdict.ignore(ERROR), Verdict.fail(ERROR)])
def test_repeated_completion_is_recognised(process: WorkerProcess, verdict: Verdict) -> None:
    """The first response was lost; the second run changes nothing and still reports success."""
    (mine,) = claimed(process)
    ended = completion_of(mine, verdict)
    complete(process.database, process.worker_id, [ended])
    assert complete(process.database, process.worker_id, [ended]) == {mine.claim.execution_id}
    assert len(rows.attempts(process.database, mine.claim.execution_id)) == 1


def test_success_of_another_claim_is_not_recognised(process: WorkerProcess) -> None:
    (mine,) = claimed(process)
    ended = completion_of(mine, success({"status_code": 200}))
    complete(process.database, process.worker_id, [ended])
    others = [mine.claim._replace(worker_id="wrk_other"), mine.claim._replace(attempt=2)]
    stale = [replace(ended, claim=claim) for claim in others]
    assert written(process.database, [*stale, completion_of(mine, Verdict.fail(ERROR))]) == set()


def test_row_with_a_bad_payload_does_not_block_its_batch(process: WorkerProcess) -> None:
    """JSONB cannot hold a NUL character, so the outcome is written without the payload."""
    good, bad, other = claimed(process, 3)
    ended = [
        completion_of(good, success({"body": "fine"})),
        completion_of(bad, success({"body": "bad \x00 byte"})),
        completion_of(other, success({"body": "fine"})),
    ]
    for completion in ended:
        process.finalizer.submit(completion)
    assert process.finalizer.flush(60)
    assert rows.statuses(process.database) == {"SUCCESS": 3}
    assert rows.execution(process.database, bad.claim.execution_id).output is None
    assert rows.execution(process.database, good.claim.execution_id).output == {"body": "fine"}
    assert process.values.total(REFUSED) == 1


def test_lost_claim_is_counted(process: WorkerProcess) -> None:
    (mine,) = claimed(process)
    take_over(process, mine)
    process.finalizer.submit(completion_of(mine, success({})))
    assert process.finalizer.flush(60)
    assert process.values.total(STALE) == 1


def test_refused_late_result_is_noted_once_in_the_history(process: WorkerProcess) -> None:
    (mine,) = claimed(process)
    take_over(process, mine)
    late = completion_of(mine, success({}))
    process.finalizer.submit(late)
    assert process.finalizer.flush(60)
    assert note_stale(process.database, process.worker_id, [late]) == 0, "a repeated write notes nothing"
    (noted,) = process.database.fetch(text("SELECT * FROM execution_events WHERE reason = 'STALE_RESULT'"))
    status = rows.execution(process.database, mine.claim.execution_id).status
    assert (noted.from_status, noted.to_status, noted.attempt_number) == (status, status, 1)
    assert noted.actor == process.worker_id


def test_failed_attempt_keeps_its_due_instant_and_a_success_has_that_of_its_row(process: WorkerProcess) -> None:
    again, good = claimed(process, 2)
    executions = [each.claim.execution_id for each in (again, good)]
    due = {each: rows.execution(process.database, each).run_at for each in executions}
    for ended in (completion_of(again, Verdict.retry(ERROR, 60_000)), completion_of(good, success({}))):
        process.finalizer.submit(ended)
    assert process.finalizer.flush(60)
    for each in executions:
        (tried,) = rows.attempts(process.database, each)
        assert tried.due_at == due[each]
    assert rows.execution(process.database, executions[0]).run_at > due[executions[0]], "the retry has overwritten it"


def test_first_verdict_of_an_attempt_wins(process: WorkerProcess) -> None:
    (mine,) = claimed(process)
    assert mine.enter(Stage.STARTED)
    assert mine.complete(Verdict.fail(ERROR))
    assert not mine.complete(success({}))
    assert not mine.release(even_if_started=True)
    assert process.finalizer.flush(60)
    assert rows.statuses(process.database) == {"FAILED": 1}


@pytest.mark.postgresql_only
def test_completion_finds_its_rows_by_primary_key(process: WorkerProcess) -> None:
    claimed(process, 50)
    rows.add_executions(process.database, 5_000)
    process.database.fetch(text("ANALYZE"))
    (mine,) = claimed(process)
    ended = completion_of(mine, success({}))
    from app.queue.executions.completion import _params

    plan = process.database.fetch(text("EXPLAIN " + COMPLETE.text), _params(process.worker_id, [ended]))
    assert not [row[0] for row in plan if "Seq Scan on executions" in row[0] or "Seq Scan on jobs" in row[0]]
