"""Idle queues of a worker process: one statement checks all of them, and each due execution is still found."""

import threading
from collections import Counter
from datetime import timedelta

import pytest
from sqlalchemy import event, text

from app.kernel.db import Database
from app.queue.claiming.due_queues import CHECK, QUEUES, due_queues
from app.queue.claiming.poll import POLL_1
from brokers.attempt import Stage
from brokers.consumer import ClaimConsumer
from brokers.idle_check import IdleCheck
from brokers.inbox import Inboxes
from brokers.worker_process import WorkerProcess
from schema.states import EndpointType
from tests import rows
from tests.contract.broker.delivering import OK, attempts_of
from tests.waiting import eventually

OTHERS = [f"other-{number}" for number in range(QUEUES)]  # more than one statement checks
HOUR = timedelta(hours=1)
CHECKS = 12  # at the interval of the process fixture, 50 ms
# Before a queue is idle, its polls come after 10, 20, 40, 50 ms; each may be followed by the poll of a wake-up.
STARTING = 8


def add(database: Database, queue: str, due_in: timedelta) -> None:
    (execution_id,) = rows.add_executions(database, due_in=due_in)
    update = text("UPDATE executions SET queue = :queue WHERE execution_id = :id")
    database.fetch(update, {"queue": queue, "id": execution_id})


def test_queues_with_executions_due_by_the_horizon_are_found(database: Database) -> None:
    now = rows.database_now(database)
    for queue, due_in in (("other-0", -HOUR), ("other-1", timedelta(0)), ("other-2", HOUR), ("other-3", -HOUR)):
        add(database, queue, due_in)
    queues = ["http", *OTHERS]
    assert due_queues(database, queues, now - HOUR * 2, 60_000).queues == {"other-0", "other-1", "other-3"}
    assert due_queues(database, queues, now - timedelta(minutes=1), 60_000).queues == {"other-1"}
    assert due_queues(database, queues, now, 2 * 3_600_000).queues == {"other-1", "other-2"}


def test_check_of_one_queue_wakes_the_consumers_of_other_due_queues(database: Database) -> None:
    inboxes = Inboxes()
    due, quiet = inboxes.open("other-0"), inboxes.open("other-1")
    check = IdleCheck(database, inboxes, interval_seconds=10, horizon_ms=100)
    for queue in ("http", "other-0", "other-1"):
        assert check.is_quiet(queue, 100.0)
    add(database, "other-0", timedelta(0))
    assert check.is_quiet("http", 108.0), "the check is repeated within its interval"
    assert not due.arrived.is_set()
    assert check.is_quiet("http", 110.0)
    assert due.arrived.is_set()
    assert not quiet.arrived.is_set()
    assert (check.is_quiet("other-0", 110.0), check.is_quiet("other-1", 110.0)) == (False, True)
    assert not check.is_quiet("other-0", 1000.0), "queues that are no longer idle are still known"


@pytest.mark.parametrize("shards", [1])  # a check reads one shard
def test_idle_process_polls_rarely_and_delivers_what_becomes_due_without_a_wake_up(process: WorkerProcess) -> None:
    counts = Counter[str]()
    event.listen(process.database.engine, "after_cursor_execute", lambda *call: counts.update([call[2]]))
    received = threading.Event()

    def consume(consumer: ClaimConsumer) -> None:
        while not process.draining.is_set():
            if (message := next(consumer)) is not None:
                received.set()
                for attempt in attempts_of(message):
                    attempt.enter(Stage.STARTED)
                    attempt.complete(OK)

    queues = [endpoint_type.queue for endpoint_type in EndpointType]
    threads = [threading.Thread(target=consume, args=[ClaimConsumer(process, queue, 100)]) for queue in queues]
    for thread in threads:
        thread.start()
    eventually(lambda: counts[CHECK.text] >= CHECKS, what="checks of the idle process")
    polls, checks = counts[POLL_1.text], counts[CHECK.text]
    rows.add_executions(process.database, 1)
    assert received.wait(60), "nothing was found without a wake-up"
    process.drain()
    for thread in threads:
        thread.join()
    assert polls <= len(queues) * (STARTING + checks / 10), "each queue is polled although it is idle"
