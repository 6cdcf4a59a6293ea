"""Commits with a lost, refused or unknown outcome: each statement of a worker or scheduler takes effect once.

The tests retry an UnavailableError like the product: the finalizer keeps results, and a chore runs again.
"""

import functools
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import text

from app.kernel import db, ids
from app.kernel.db import Database
from app.kernel.errors import UnavailableError
from app.kernel.metrics.values import Values
from app.kernel.processes import worker_lease
from app.queue.claiming.endpoint_rules import FlowRules
from app.queue.claiming.release import Release
from app.queue.ending.outbox_processor import OutboxProcessor
from app.queue.executions import reclaim_candidates
from app.queue.executions.completion import Completion
from app.queue.executions.execution_model import Claim
from app.queue.jobs import job_pause
from app.scheduler.chore import Counts
from brokers.attempt import Stage
from brokers.finalizer import Finalizer
from brokers.inbox import Inboxes
from brokers.outbox_thread import OutboxThread
from brokers.outcomes import Outcomes
from tests import rows
from tests.cases import each_case
from tests.claiming import take
from tests.contract.broker.delivering import Attempts
from tests.contract.conftest import worker_process
from tests.contract.scheduler.conftest import chores
from tests.cron_jobs import add_cron_job, daily, job, scheduled
from tests.pg_proxy import FAULTS, Fault, PgProxy
from tests.verdicts import success
from tests.waiting import eventually

pytestmark = pytest.mark.own_faults

WORKER = "wrk_1"
OK = success({"status_code": 200})


@pytest.fixture
def proxy(database_url: str) -> Iterator[PgProxy]:
    with PgProxy(urlsplit(database_url).port or 5432) as proxy:
        yield proxy


@pytest.fixture
def faulty(database_url: str, proxy: PgProxy) -> Iterator[Database]:
    """The test database, reached through the proxy."""
    database = db.connect(proxy.url(database_url), pool_size=2, application_name="te-faulty")
    yield database
    database.close()


def claimed(database: Database, *, max_attempts: int = 3) -> Claim:
    worker_lease.register(database, worker_id=WORKER, host="h", pid=1, queues=["http"], capacity=9, lease_ms=60_000)
    rows.add_executions(database, max_attempts=max_attempts)
    (claim,) = take(database, WORKER, 1).claims
    return claim


def each_fault(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test with each fault, on rows of its own."""

    @functools.wraps(test)
    def with_own_rows(database: Database, proxy: PgProxy, **others: Any) -> None:
        rows.delete_all(database)
        rows.add_endpoint(database)
        proxy.fired = 0
        test(database=database, proxy=proxy, **others)

    return each_case("fault", FAULTS, ids=map(str, FAULTS))(with_own_rows)


def run_until_it_succeeds(chore: Callable[[], Counts]) -> None:
    """Run a chore like the scheduler, which runs it again when the database could not be reached."""
    for _ in range(3):
        try:
            chore()
        except UnavailableError:
            continue
        return
    raise AssertionError("one fault made three runs of the chore fail")


@each_fault
def test_claim_takes_each_row_once_and_costs_no_extra_attempt(
    database: Database, faulty: Database, database_url: str, proxy: PgProxy, fault: Fault
) -> None:
    lease = db.connect(database_url, pool_size=1, application_name="te-test-lease")
    process = worker_process(faulty, lease)
    process.open(["http"])
    executions = rows.add_executions(database, 3)
    attempts = Attempts(process)
    proxy.arm("claimed AS", fault)
    held = [attempts.next() for _ in executions]
    assert proxy.fired == 1
    assert {attempt.claim.execution_id for attempt in held} == set(executions)
    assert {rows.execution(database, execution_id).attempt_count for execution_id in executions} == {1}
    for attempt in held:
        attempt.enter(Stage.STARTED)
        attempt.complete(OK)
    process.close()
    assert rows.statuses(database) == {"SUCCESS": 3}


def finalizer_of(database: Database, values: Values) -> Finalizer:
    inboxes = Inboxes()
    outbox = OutboxThread(OutboxProcessor(database, handlers=(), values=values), inboxes)
    return Finalizer(Outcomes(database, WORKER, values, FlowRules(database), inboxes=inboxes, outbox=outbox), values)


@each_fault
def test_completion_is_written_once_and_counted_as_written(
    database: Database, faulty: Database, proxy: PgProxy, fault: Fault
) -> None:
    claim, values = claimed(database), Values()
    finalizer = finalizer_of(faulty, values)
    finalizer.start()
    proxy.arm("tried AS", fault)
    finalizer.submit(Completion(claim, ids.attempt_id(), OK, claim.claimed_at, 5, ()))
    assert finalizer.stop(60)
    assert proxy.fired == 1
    assert rows.execution(database, claim.execution_id).status == "SUCCESS"
    (tried,) = rows.attempts(database, claim.execution_id)
    assert (tried.attempt_number, tried.status) == (1, "SUCCESS")
    assert rows.job_of(database, claim.execution_id).status == "RETIRED"
    assert values.totals() == {"worker_jobs_completed_total": 1, "tasks_executed_total": 1}


@each_fault
def test_release_returns_its_attempt_once(database: Database, faulty: Database, proxy: PgProxy, fault: Fault) -> None:
    claim = claimed(database)
    finalizer = finalizer_of(faulty, Values())
    finalizer.start()
    proxy.arm("unnest", fault)
    finalizer.submit(Release(claim.key))
    assert finalizer.stop(60)
    assert proxy.fired == 1
    row = rows.execution(database, claim.execution_id)
    assert (row.status, row.attempt_count) == ("QUEUED", 0)


@each_fault
def test_tick_is_materialised_once(database: Database, faulty: Database, proxy: PgProxy, fault: Fault) -> None:
    job_id = add_cron_job(database, daily(database), missed=timedelta(hours=2))
    materialize = chores(faulty).materialize
    proxy.arm("advanced AS", fault)
    run_until_it_succeeds(materialize)
    assert proxy.fired == 1

    def has_ticked() -> bool:
        # The server may keep the lock of a lost connection for a moment; a pass skips a locked job.
        materialize()
        return bool(scheduled(database, job_id))

    eventually(has_ticked)
    assert len(scheduled(database, job_id)) == 1


@each_fault
def test_resume_that_retires_a_job_succeeds(database: Database, faulty: Database, proxy: PgProxy, fault: Fault) -> None:
    job_id = add_cron_job(database, daily(database), ends_at=rows.database_now(database) + timedelta(seconds=1))
    job_pause.pause_job(database, job_id)
    proxy.arm("NO_TICK_LEFT", fault)
    job_pause.resume_job(faulty, job_id, 5000)
    assert proxy.fired == 1
    assert job(database, job_id).end_reason == "NO_TICK_LEFT"


@each_fault
def test_promotion_happens_once(database: Database, faulty: Database, proxy: PgProxy, fault: Fault) -> None:
    rows.add_executions(database, 3, status="PENDING")
    proxy.arm("promoted AS", fault)
    run_until_it_succeeds(chores(faulty).promote)
    assert proxy.fired == 1
    assert rows.statuses(database) == {"QUEUED": 3}


@pytest.mark.parametrize("max_attempts", [1, 2])
@each_fault
def test_lost_attempt_is_recorded_once(
    database: Database, faulty: Database, proxy: PgProxy, fault: Fault, max_attempts: int
) -> None:
    claim = claimed(database, max_attempts=max_attempts)
    worker_lease.leave(database, WORKER)
    proxy.arm("taken AS", fault)
    run_until_it_succeeds(chores(faulty).reclaim_from_dead_workers)
    assert proxy.fired == 1
    row = rows.execution(database, claim.execution_id)
    assert (row.status, row.max_attempts) == ("RETRYING", 2), "the lost worker did not grant exactly one extra attempt"
    (tried,) = rows.attempts(database, claim.execution_id)
    assert (tried.attempt_number, tried.error["type"]) == (1, reclaim_candidates.LossReason.WORKER_LOST.name)


@each_fault
def test_worker_registers_once(database: Database, faulty: Database, proxy: PgProxy, fault: Fault) -> None:
    def register() -> bool:
        worker_lease.register(faulty, worker_id=WORKER, host="h", pid=1, queues=["http"], capacity=9, lease_ms=60_000)
        return True

    proxy.arm("INSERT INTO workers", fault)
    assert _again(register)
    assert proxy.fired == 1
    assert [row.worker_id for row in database.fetch(text("SELECT worker_id FROM workers"))] == [WORKER]


@each_fault
def test_renewal_of_a_lease_succeeds_or_raises_unavailable(
    database: Database, faulty: Database, proxy: PgProxy, fault: Fault
) -> None:
    """False means that the lease is lost and ends the worker, so a connection fault must not return False."""
    claimed(database)

    def renew() -> bool:
        return worker_lease.renew(faulty, worker_id=WORKER, in_flight=1, lease_ms=60_000)

    proxy.arm("UPDATE workers", fault)
    assert _again(renew)
    assert proxy.fired == 1
    assert database.fetch(text("SELECT in_flight FROM workers"))[0].in_flight == 1


def _again(body: Callable[[], bool]) -> bool:
    try:
        return body()
    except UnavailableError:
        return body()
