"""Statements make exactly the changes in `schema.states.TRANSITIONS`: each action is tried on a row in each state."""

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import product

from sqlalchemy import text

from app.catalog.retry_policy import RetryPolicy
from app.features.expiry.store import expire
from app.kernel.errors import TaskExecutorError
from app.queue.executions import on_hold, reclaim, reclaim_candidates
from app.queue.executions.completion import Completion, complete
from app.queue.executions.execution_cancellation import IfRunning, cancel_execution
from app.queue.executions.execution_model import Claim, ClaimKey, DeliveryError
from app.queue.executions.manual_retry import retry_execution
from app.queue.executions.promotion import promote
from app.queue.executions.repairs import fail_exhausted
from app.queue.executions.verdict import Tried, Verdict, decide
from app.queue.jobs.run_now import run_job
from brokers.worker_process import WorkerProcess
from schema.states import FINAL, TRANSITIONS, EndpointType, ExecutionStatus, Followed
from tests import rows
from tests.claiming import release, take
from tests.verdicts import success

S = ExecutionStatus
ERROR = DeliveryError("HTTP_ERROR", "answered 503")
VERDICTS = {
    "succeed": success({}),
    "retry": Verdict.retry(ERROR, 1000),
    "fail": Verdict.fail(ERROR),
    "abort": Verdict.abort(),
}

EVERYTHING = Followed.SUCCESS | Followed.FAILURE | Followed.CANCELLATION | Followed.ATTEMPT_FAILED
COMPLETION_EVENTS = text("SELECT status, reason IS NULL AS by_attempt FROM execution_ends")

Action = Callable[[WorkerProcess, str], None]


def put_in(process: WorkerProcess, status: ExecutionStatus, attempt: int, max_attempts: int) -> str:
    """Make an execution in a state; this process holds the execution if the state is RUNNING."""
    (execution_id,) = rows.add_executions(process.database, max_attempts=max_attempts)
    change = {
        "status": status.value,
        "attempt": attempt,
        "worker": process.worker_id,
        "held": status is S.RUNNING,
        "final": status in FINAL,
        "followed": EVERYTHING,
    }
    process.database.fetch(
        text(
            "UPDATE executions SET status = :status, attempt_count = :attempt, worker_id = :worker, "
            "started_at = CASE WHEN :held THEN now() END, completed_at = CASE WHEN :final THEN now() END, "
            "followed = :followed"
        ),
        change,
    )
    return execution_id


def do_claim(process: WorkerProcess, execution_id: str) -> None:
    take(process.database, process.worker_id, 1)


def do_release(process: WorkerProcess, execution_id: str) -> None:
    row = rows.execution(process.database, execution_id)
    held = ClaimKey(execution_id, row.attempt_count, row.started_at or datetime.now(UTC))
    release(process.database, process.worker_id, [held])


def do_release_in_a_pause(process: WorkerProcess, execution_id: str) -> None:
    process.database.fetch(text("UPDATE jobs SET status = 'PAUSED', paused_at = now() WHERE status = 'ACTIVE'"))
    do_release(process, execution_id)


def do_promote(process: WorkerProcess, execution_id: str) -> None:
    promote(process.database, shard=0, ahead_ms=1000, limit=10)


def do_reclaim(process: WorkerProcess, execution_id: str) -> None:
    process.database.fetch(text("UPDATE workers SET lease_expires_at = now() - INTERVAL '1 second'"))
    row = rows.execution(process.database, execution_id)
    tried = Tried(execution_id, row.attempt_count, row.max_attempts)
    candidate = reclaim_candidates.Candidate(tried, decide(ERROR, None, tried, RetryPolicy(), None))
    reclaim.reclaim(process.database, [candidate])
    process.database.fetch(text("UPDATE workers SET lease_expires_at = now() + INTERVAL '1 minute'"))


def do_cancel(process: WorkerProcess, execution_id: str) -> None:
    try:
        cancel_execution(process.database, execution_id, if_running=None, actor=None)
    except TaskExecutorError:
        return


def do_retry(process: WorkerProcess, execution_id: str) -> None:
    try:
        retry_execution(process.database, execution_id, actor=None)
    except TaskExecutorError:
        return


def do_request(process: WorkerProcess, execution_id: str) -> None:
    """Request the cancellation of a running execution; only a later action changes the status."""
    try:
        cancel_execution(process.database, execution_id, if_running=IfRunning.REQUEST, actor=None)
    except TaskExecutorError:
        return


def do_request_abort(process: WorkerProcess, execution_id: str) -> None:
    """Request the abort of a running execution; its worker changes the status later."""
    try:
        cancel_execution(process.database, execution_id, if_running=IfRunning.ABORT, actor=None)
    except TaskExecutorError:
        return


def do_pause(process: WorkerProcess, execution_id: str) -> None:
    with process.database.engine.begin() as connection:
        on_hold.hold(connection, rows.execution(process.database, execution_id).job_id, None)


def do_hold_retries(process: WorkerProcess, execution_id: str) -> None:
    process.database.fetch(text("UPDATE jobs SET status = 'PAUSED', paused_at = now() WHERE status = 'ACTIVE'"))
    on_hold.hold_retries(process.database)


def do_resume(process: WorkerProcess, execution_id: str) -> None:
    process.database.fetch(text("UPDATE executions SET on_hold = true WHERE status = 'PENDING'"))
    with process.database.engine.begin() as connection:
        on_hold.let_go(connection, rows.execution(process.database, execution_id).job_id, 0, None)


def do_exhaust(process: WorkerProcess, execution_id: str) -> None:
    process.database.fetch(text("UPDATE executions SET run_at = now() - INTERVAL '2 minutes'"))
    fail_exhausted(process.database, limit=10)


def do_expire(process: WorkerProcess, execution_id: str) -> None:
    process.database.fetch(text("UPDATE executions SET expires_at = now()"))
    expire(process.database, {"endpoints": ["target"], "queues": []}, shard=0, limit=10)


def do_run(process: WorkerProcess, execution_id: str) -> None:
    try:
        run_job(process.database, rows.execution(process.database, execution_id).job_id, 1)
    except TaskExecutorError:
        return


def do_complete(verdict: Verdict) -> Action:
    def run(process: WorkerProcess, execution_id: str) -> None:
        row, now = rows.execution(process.database, execution_id), datetime.now(UTC)
        claimed = Claim(
            key=ClaimKey(execution_id, row.attempt_count, now),
            execution_id=execution_id,
            job_id=row.job_id,
            endpoint=row.endpoint,
            endpoint_version=1,
            endpoint_type=EndpointType.HTTP,
            worker_id=process.worker_id,
            attempt=row.attempt_count,
            max_attempts=row.max_attempts,
            config_revision=0,
            scheduled_at=now,
            claimed_at=now,
            due_in_seconds=0,
            late_seconds=0,
            claimed_here=0,
            followed=EVERYTHING,
        )
        ended = Completion(claimed, f"att_{execution_id}", verdict, now, 1, ())
        complete(process.database, process.worker_id, [ended])

    return run


ACTIONS: dict[str, Action] = {
    "claim": do_claim,
    "release": do_release,
    "release in a pause": do_release_in_a_pause,
    "promote": do_promote,
    "reclaim": do_reclaim,
    "cancel": do_cancel,
    "manual retry": do_retry,
    "request to cancel": do_request,
    "request to abort": do_request_abort,
    "pause": do_pause,
    "hold retries": do_hold_retries,
    "resume": do_resume,
    "run": do_run,
    "exhaust": do_exhaust,
    "expire": do_expire,
    **{name: do_complete(verdict) for name, verdict in VERDICTS.items()},
}


BY_ATTEMPT, BY_STATEMENT = True, False
# Changes that leave a row in the outbox when all completion events are subscribed: ends of attempts and executions.
EXPECTED_EVENTS = {
    *((S.RUNNING, after, BY_ATTEMPT) for after in (S.SUCCESS, S.RETRYING, S.FAILED, S.CANCELLED)),
    (S.RUNNING, S.CANCELLED, BY_STATEMENT),
    *((before, S.CANCELLED, BY_STATEMENT) for before in (S.PENDING, S.QUEUED, S.RETRYING)),
    *((before, S.FAILED, BY_STATEMENT) for before in (S.QUEUED, S.RETRYING)),
}


def test_statements_make_exactly_the_legal_transitions_and_one_completion_event_each(
    process: WorkerProcess,
) -> None:
    """Every action runs on every state, with and without attempts left."""
    found, events = set(), set()
    for before in S:
        for attempt, max_attempts in ((0, 1), (1, 3), (1, 1), (2, 3)):
            if (before is S.RUNNING) > (attempt > 0):
                continue
            requests = (False, True) if before is S.RUNNING else (False,)
            for action, has_cancel_request in product(ACTIONS.values(), requests):
                execution_id = put_in(process, before, attempt, max_attempts)
                if has_cancel_request:
                    do_request(process, execution_id)
                action(process, execution_id)
                after = ExecutionStatus(rows.execution(process.database, execution_id).status)
                if after is not before:
                    found.add((before, after))
                new_events = process.database.fetch(COMPLETION_EVENTS)
                assert len(new_events) <= 1, "one change left several completion events"
                is_final = before not in FINAL and after in FINAL
                assert bool(new_events) >= is_final, f"{before} to {after} left no completion event"
                events |= {(before, ExecutionStatus(event.status), event.by_attempt) for event in new_events}
                assert all(event.status == after for event in new_events)
                for table in ("execution_ends", "execution_events", "execution_logs", "attempts", "executions"):
                    process.database.fetch(text(f"DELETE FROM {table}"))
    assert found == {(before, after) for before, after in TRANSITIONS if before is not None}
    assert events == EXPECTED_EVENTS
