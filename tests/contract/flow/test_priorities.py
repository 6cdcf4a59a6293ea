"""Priorities: due executions are claimed by priority, and low priorities get their share."""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import text

from app.kernel import db
from app.kernel.db import Database
from app.queue.claiming.partition import Partition
from brokers.attempt import Stage
from brokers.sharing.ready_partitions import ONE_IN
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.claiming import add_to
from tests.contract.broker.delivering import OK, Attempts
from tests.contract.conftest import worker_process

PRIORITIES = (0, 5, 127, 128, 200, 255)


NewProcess = Callable[..., WorkerProcess]


@pytest.fixture
def new_process(database_url: str) -> Iterator[NewProcess]:
    """Return a function that opens a process with these settings."""
    opened = list[WorkerProcess]()

    def new_process(**settings: int) -> WorkerProcess:
        ours, lease = (db.connect(database_url, pool_size=size, application_name="te-test") for size in (5, 1))
        opened.append(worker_process(ours, lease, **settings))
        opened[-1].open(["http"])
        return opened[-1]

    yield new_process
    for process in opened:
        process.close()


@pytest.fixture
def process(new_process: NewProcess) -> WorkerProcess:
    """A process with one slot."""
    return new_process(capacity=1)


def partition(priority: int, endpoint: str = "target") -> Partition:
    return Partition(0, endpoint, "", priority)


def deliver(attempts: Attempts) -> int:
    """Deliver the next attempt; returns its priority."""
    attempt = attempts.next()
    attempt.enter(Stage.STARTED)
    attempt.complete(OK)
    return attempt.claim.priority


def test_due_executions_are_delivered_by_priority_and_then_by_due_time(
    database: Database, process: WorkerProcess
) -> None:
    """The order holds for first attempts, retries and ticks, except for the share of low priorities."""
    job = rows.job_of(database, rows.add_executions(database)[0]).job_id
    database.fetch(text("UPDATE jobs SET status = 'ACTIVE'"))
    database.fetch(text("UPDATE executions SET status = 'CANCELLED', completed_at = now()"))
    for place, priority in enumerate(PRIORITIES * 3):
        if place % 3 == 0:
            execution_id = rows.add_tick(database, job)
            move = "priority = :priority, run_at = now() + :due_in * INTERVAL '1 second'"
            params = {"priority": priority, "due_in": place - 60, "id": execution_id}
            database.fetch(text(f"UPDATE executions SET {move} WHERE execution_id = :id"), params)
        else:
            (execution_id,) = add_to(database, partition(priority), due_in=place - 60.0)
        if place % 3 == 1:
            retry = "status = 'RETRYING', attempt_count = 1, max_attempts = 3"
            database.fetch(text(f"UPDATE executions SET {retry} WHERE execution_id = :id"), {"id": execution_id})
    attempts = Attempts(process)
    got = [deliver(attempts) for _ in range(len(PRIORITIES) * 3)]
    assert sorted(got) == sorted(PRIORITIES * 3)
    early = sum(any(later > priority for later in got[place + 1 :]) for place, priority in enumerate(got))
    assert early <= len(got) // ONE_IN + 1, got


def test_backlog_of_a_high_priority_leaves_low_priorities_their_share(
    database: Database, process: WorkerProcess
) -> None:
    """Each delivery is followed by a new execution of the highest priority."""
    add_to(database, partition(255), 20)
    low = {priority: len(add_to(database, partition(priority), 2)) for priority in (0, 10)}
    attempts, got = Attempts(process), list[int]()
    while sum(priority != 255 for priority in got) < sum(low.values()):
        got.append(deliver(attempts))
        add_to(database, partition(255, f"e{len(got) % 3}"))
        assert len(got) <= ONE_IN * (sum(low.values()) + 2), got
    assert got.count(255) >= sum(low.values()), "the high priority goes first"


def test_highest_priority_starts_first(database: Database, new_process: NewProcess) -> None:
    """Four quick endpoints have a backlog each; the process has 200 slots."""
    for priority in (10, 100, 200, 250):
        add_to(database, partition(priority, f"p{priority}"), 100)
    attempts = Attempts(new_process(capacity=200))
    assert [deliver(attempts) for _ in range(50)].count(250) >= 40
