"""Jobs of a completion exist if and only if the completion is written."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from sqlalchemy import text

from app.kernel import db, ids
from app.kernel.db import Database
from app.kernel.errors import LockedError
from app.kernel.metrics.series import STALE
from app.queue.executions.completion import Completion, complete
from app.queue.executions.execution_model import Claim, DeliveryError, FollowingJob
from app.queue.executions.verdict import Verdict
from app.queue.jobs.following_jobs import Placing, complete_with_jobs
from brokers.actor_outcomes import ActorOutcomes
from brokers.attempt import Attempt
from brokers.unwritten import TRIES_WHOLE, Batch
from brokers.worker_process import WorkerProcess
from schema.states import EndpointType
from tests import rows
from tests.claiming import take
from tests.contract.broker.finalizing import locked
from tests.verdicts import success

PLACING = Placing(1, 5_000)
NEXT = FollowingJob("mail", {"args": [1]}, "next-1")
LATER = FollowingJob("mail", {"args": [2]}, "later-1", delay_ms=60_000, priority=9)


@pytest.fixture(autouse=True)
def _actor(database: Database) -> None:
    rows.add_endpoint(database, "mail", type_=EndpointType.ACTOR, spec={"actor": "mail", "queue": "default"})


@pytest.fixture
def claimed(process: WorkerProcess) -> Attempt:
    rows.add_executions(process.database, max_attempts=3)
    (claim,) = take(process.database, process.worker_id).claims
    return Attempt(claim, process.finalizer, process.shares)


def completion(attempt: Attempt, *then: FollowingJob, verdict: Verdict | None = None) -> Completion:
    claim = attempt.claim
    return Completion(claim, ids.attempt_id(), verdict or success({}), claim.claimed_at, 5, (), then=then)


def jobs(database: Database) -> list[Any]:
    return list(
        database.fetch(text("SELECT * FROM jobs WHERE idempotency_key ~ '^(next|later)' ORDER BY idempotency_key DESC"))
    )


def test_jobs_are_created_with_delay_priority_and_name(process: WorkerProcess, claimed: Attempt) -> None:
    assert complete_with_jobs(process.database, process.worker_id, completion(claimed, NEXT, LATER), PLACING) == {
        EndpointType.ACTOR.queue
    }
    assert rows.statuses(process.database) == {"SUCCESS": 1, "QUEUED": 1, "PENDING": 1}
    first, second = jobs(process.database)
    assert [first.name, second.name] == ["next-1", "later-1"]
    assert (first.input, second.priority) == ({"args": [1]}, 9)


def test_lost_attempt_creates_nothing(process: WorkerProcess, claimed: Attempt) -> None:
    process.database.fetch(text("UPDATE executions SET worker_id = 'wrk_other' WHERE status = 'RUNNING'"))
    assert complete_with_jobs(process.database, process.worker_id, completion(claimed, NEXT), PLACING) is None
    assert jobs(process.database) == []


def test_repeated_completion_creates_no_second_job(process: WorkerProcess, claimed: Attempt) -> None:
    ended = completion(claimed, NEXT)
    complete_with_jobs(process.database, process.worker_id, ended, PLACING)
    assert complete_with_jobs(process.database, process.worker_id, ended, PLACING) is None
    assert len(jobs(process.database)) == 1


def test_known_key_is_no_second_job_and_no_error(process: WorkerProcess, claimed: Attempt) -> None:
    retried = completion(claimed, NEXT, NEXT, verdict=Verdict.retry(DeliveryError("X", "x"), 0))
    complete_with_jobs(process.database, process.worker_id, retried, PLACING)
    assert len(jobs(process.database)) == 1
    again = next(one for one in take(process.database, process.worker_id).claims if one.attempt == 2)
    second = Attempt(again, process.finalizer, process.shares)
    ended = completion(second, NEXT, LATER)
    assert complete_with_jobs(process.database, process.worker_id, ended, PLACING) == {EndpointType.ACTOR.queue}
    assert len(jobs(process.database)) == 2


def test_job_that_no_endpoint_takes_writes_nothing(process: WorkerProcess, claimed: Attempt) -> None:
    ended = completion(claimed, NEXT, FollowingJob("absent", {}, "next-2"))
    with pytest.raises(DeliveryError, match="no endpoint named 'absent'"):
        complete_with_jobs(process.database, process.worker_id, ended, PLACING)
    assert (rows.statuses(process.database), jobs(process.database)) == ({"RUNNING": 1}, [])


def test_job_of_an_endpoint_that_is_no_actor_writes_nothing(process: WorkerProcess, claimed: Attempt) -> None:
    with pytest.raises(DeliveryError, match="'target' is no actor"):
        complete_with_jobs(
            process.database, process.worker_id, completion(claimed, FollowingJob("target", {}, "next-3")), PLACING
        )
    assert (rows.statuses(process.database), jobs(process.database)) == ({"RUNNING": 1}, [])


def test_second_try_hardly_waits_for_a_locked_row(process: WorkerProcess, claimed: Attempt, database_url: str) -> None:
    patient = db.connect(database_url, pool_size=2, application_name="te-own", statement_timeout_seconds=120)
    batch = Batch([completion(claimed, NEXT)], failures=1)
    with closing(patient), ThreadPoolExecutor(1) as pool:
        outcomes = ActorOutcomes(patient, process.worker_id, PLACING, process.inboxes)
        with locked(process.database, claimed.claim), pytest.raises(LockedError):
            pool.submit(outcomes.complete, batch).result(20)  # the lock timeout of these connections is 60 s
        assert outcomes.complete(batch) == {claimed.claim.execution_id}


def test_success_whose_jobs_cannot_be_stored_is_a_failure(process: WorkerProcess, claimed: Attempt) -> None:
    process.listen_to_actors()
    claimed.conclude_with((FollowingJob("mail", {"args": ["\0"]}, "next-4"),), lambda _is_written: None)
    claimed.complete(success({}))
    assert process.finalizer.flush(30)
    assert (rows.statuses(process.database), jobs(process.database)) == ({"FAILED": 1}, [])
    (attempt,) = rows.attempts(process.database, claimed.claim.execution_id)
    assert attempt.error["type"] == "UNSTORABLE"


def test_finalizer_writes_completions_with_jobs_and_reports_each(process: WorkerProcess) -> None:
    process.listen_to_actors()
    rows.add_executions(process.database, 4)
    attempts = [
        Attempt(claim, process.finalizer, process.shares) for claim in take(process.database, process.worker_id).claims
    ]
    process.database.fetch(
        text("UPDATE executions SET worker_id = 'wrk_other' WHERE execution_id = :id"),
        {"id": attempts[3].claim.execution_id},
    )
    told: dict[int, bool] = {}
    for number, then in enumerate([(NEXT,), (), (FollowingJob("absent", {}, "next-2"),), (LATER,)]):
        attempts[number].conclude_with(then, lambda is_written, number=number: told.update({number: is_written}))
        attempts[number].complete(success({}))
    assert process.finalizer.flush(30)
    assert told == {0: True, 1: True, 2: True, 3: False}
    assert [job.idempotency_key for job in jobs(process.database)] == ["next-1"]
    (refused,) = rows.attempts(process.database, attempts[2].claim.execution_id)
    assert refused.error["type"] == "THEN_REFUSED"
    assert process.values.total(STALE) == 1


def test_outcomes_whose_claims_have_ended_before_a_later_try_are_reported(process: WorkerProcess) -> None:
    """After a failover, an earlier try may have written an outcome without an answer."""
    process.listen_to_actors()
    rows.add_executions(process.database, 2)
    told: dict[str, bool] = {}
    ended = [
        Completion(
            claim, ids.attempt_id(), success({}), claim.claimed_at, 5, (), on_written=partial(reported, told, claim)
        )
        for claim in take(process.database, process.worker_id).claims
    ]
    complete(process.database, process.worker_id, ended[:1])
    lost = {"id": ended[1].claim.execution_id}
    process.database.fetch(text("UPDATE executions SET worker_id = 'wrk_other' WHERE execution_id = :id"), lost)
    process.finalizer.outcomes.complete(Batch([*ended], failures=TRIES_WHOLE))
    assert told == {ended[0].claim.execution_id: True, ended[1].claim.execution_id: False}


def reported(told: dict[str, bool], claim: Claim, is_written: bool) -> None:
    told[claim.execution_id] = is_written
