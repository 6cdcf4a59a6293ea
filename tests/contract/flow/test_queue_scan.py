"""Queue survey of a worker without configured queues: its maximum of queues, and the queues of its row."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from dramatiq import Worker
from sqlalchemy import event, text

from app.kernel.db import Database
from brokers.attempt import Attempt, Stage
from brokers.queue_scan import QueueScan
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.contract.conftest import StartWorker
from tests.verdicts import success
from tests.waiting import HUNG_SECONDS, eventually

ENDED = text("SELECT count(*) AS n FROM executions WHERE status = 'SUCCESS'")


def succeed(attempt: Attempt) -> None:
    attempt.enter(Stage.STARTED)
    attempt.complete(success({}))


@contextmanager
def surveying(process: WorkerProcess, worker: Worker, **bounds: Any) -> Iterator[None]:
    survey = QueueScan(process, worker, **bounds)
    survey.start()
    yield
    assert survey.stop()


def fill(database: Database, *names: str) -> None:
    # Due only after the move to the queue: a worker may serve the queue in which the executions are created.
    move = text("UPDATE executions SET queue = :queue, run_at = now() WHERE execution_id = ANY (:ids)")
    for name in names:
        later = rows.add_executions(database, due_in=timedelta(hours=1))
        database.fetch(move, {"ids": later, "queue": name})


def queues_in_row(database: Database) -> list[str]:
    """Return the queues in the row of the worker, except for the queue of its transport."""
    (row,) = database.fetch(text("SELECT queues FROM workers"))
    return sorted({*row.queues} - {"http"})


def queues_with_success(database: Database) -> set[str]:
    return {row.queue for row in database.fetch(text("SELECT queue FROM executions WHERE status = 'SUCCESS'"))}


def test_queues_named_by_jobs_leave_capacity_to_queues_of_endpoints_and_routes(
    database: Database, start_worker: StartWorker
) -> None:
    """A client that creates jobs can name any number of queues."""
    # A hint does not start an earlier survey while queues are left out.
    bounds = {"max_queues": 5, "max_of_jobs": 2, "scan_seconds": 0.5}
    own = text("UPDATE endpoints SET queue = 'x-own' WHERE name = :name")
    database.fetch(own, {"name": rows.add_endpoint(database, "other")})
    fill(database, "x-own", *(f"a{number}" for number in range(8)))
    worker, process = start_worker(succeed)
    with surveying(process, worker, **bounds):
        eventually(lambda: queues_in_row(database) == ["a0", "a1", "x-own"])
        routes = (
            "INSERT INTO routes (position, pattern, queue, source) VALUES (0, 'n*', 'z', 'api'), (1, 'm*', 'y', 'api')"
        )
        database.fetch(text(routes))
        fill(database, "y", "z")
        eventually(lambda: queues_with_success(database) == {"a0", "a1", "x-own", "y"})
        eventually(
            lambda: queues_in_row(database) == ["a0", "a1", "x-own", "y"], what="a queue for the last free place"
        )


def test_hint_for_a_queue_beyond_the_maximum_causes_no_survey(database: Database, start_worker: StartWorker) -> None:
    """A client can cause such a hint with each job that it creates."""
    bounds = {"max_of_jobs": 1, "scan_seconds": HUNG_SECONDS, "hinted_seconds": 0.0}
    fill(database, "a", "b")
    worker, process = start_worker(succeed)
    surveys: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        surveys.extend([statement] * ("FROM routes UNION" in statement))

    event.listen(process.database.engine, "before_cursor_execute", note)
    with surveying(process, worker, **bounds):
        for number in range(1, 11):
            eventually(lambda number=number: database.fetch(ENDED)[0].n == number)  # type: ignore[misc]
            process.inboxes.receive("b")
            fill(database, "a")
    assert (queues_in_row(database), len(surveys)) == (["a"], 1)


def test_queue_is_in_the_row_once_its_consumer_runs(
    database: Database, start_worker: StartWorker, caplog: pytest.LogCaptureFixture
) -> None:
    worker, process = start_worker(succeed)
    with surveying(process, worker):
        size = threading.stack_size(2**45)  # more memory than a process can have: no thread starts
        try:
            fill(database, "own")
            process.inboxes.receive("own")
            eventually(lambda: "Unexpected failure in after_declare_queue" in caplog.text)
        finally:
            threading.stack_size(size)
        assert queues_in_row(database) == []
        process.inboxes.receive("own")
        eventually(lambda: queues_with_success(database) == {"own"})
        eventually(lambda: queues_in_row(database) == ["own"])
