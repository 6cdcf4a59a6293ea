"""The queues that a worker finds which is told none: for which it has places, and that it serves what it says."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from dramatiq import Worker
from sqlalchemy import event, text

from app.kernel.db import Database
from app.queue.executions.verdict import Verdict
from brokers.attempt import Attempt, Stage
from brokers.queue_survey import QueueSurvey
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.contract.conftest import StartWorker
from tests.waiting import HUNG_SECONDS, eventually

ENDED = text("SELECT count(*) AS n FROM executions WHERE status = 'SUCCESS'")


def succeed(attempt: Attempt) -> None:
    attempt.enter(Stage.STARTED)
    attempt.conclude(Verdict.success({}))


@contextmanager
def surveying(process: WorkerProcess, worker: Worker, **bounds: Any) -> Iterator[None]:
    survey = QueueSurvey(process, worker, **bounds)
    survey.start()
    yield
    assert survey.stop()


def fill(database: Database, *names: str) -> None:
    # Not due before they are where they belong: a worker may serve the queue in which they are made.
    move = text("UPDATE executions SET queue = :queue, run_at = now() WHERE execution_id = ANY (:ids)")
    for name in names:
        later = rows.add_executions(database, due_in=timedelta(hours=1))
        database.fetch(move, {"ids": later, "queue": name})


def written(database: Database) -> list[str]:
    """Return which queues the worker says that it serves, besides that of its transport."""
    (row,) = database.fetch(text("SELECT queues FROM workers"))
    return sorted({*row.queues} - {"http"})


def ended(database: Database) -> set[str]:
    return {row.queue for row in database.fetch(text("SELECT queue FROM executions WHERE status = 'SUCCESS'"))}


def test_queues_that_jobs_name_leave_places_to_those_of_endpoints_and_routes(
    database: Database, start_worker: StartWorker
) -> None:
    """Whoever may create jobs can name as many as he likes."""
    # No hint makes it sooner while queues are left out.
    bounds = {"max_queues": 5, "max_of_jobs": 2, "survey_seconds": 0.5}
    own = text("UPDATE endpoints SET queue = 'x-own' WHERE name = :name")
    database.fetch(own, {"name": rows.add_endpoint(database, "other")})
    fill(database, "x-own", *(f"a{number}" for number in range(8)))
    worker, process = start_worker(succeed)
    with surveying(process, worker, **bounds):
        eventually(lambda: written(database) == ["a0", "a1", "x-own"])
        routes = (
            "INSERT INTO routes (position, pattern, queue, source) VALUES (0, 'n*', 'z', 'api'), (1, 'm*', 'y', 'api')"
        )
        database.fetch(text(routes))
        fill(database, "y", "z")
        eventually(lambda: ended(database) == {"a0", "a1", "x-own", "y"})
        eventually(lambda: written(database) == ["a0", "a1", "x-own", "y"], what="the last place to be taken")


def test_a_hint_that_names_a_queue_for_which_there_is_no_place_costs_nothing(
    database: Database, start_worker: StartWorker
) -> None:
    """Whoever may create jobs can send one with each."""
    bounds = {"max_of_jobs": 1, "survey_seconds": HUNG_SECONDS, "hinted_seconds": 0.0}
    fill(database, "a", "b")
    worker, process = start_worker(succeed)
    surveys: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        surveys.extend([statement] * ("FROM routes UNION" in statement))

    event.listen(process.database.engine, "before_cursor_execute", note)
    with surveying(process, worker, **bounds):
        for number in range(1, 11):
            eventually(lambda number=number: database.fetch(ENDED)[0].n == number)  # type: ignore[misc]
            process.inboxes.wake("b")
            fill(database, "a")
    assert (written(database), len(surveys)) == (["a"], 1)


def test_a_queue_is_served_once_its_consumer_runs(
    database: Database, start_worker: StartWorker, caplog: pytest.LogCaptureFixture
) -> None:
    worker, process = start_worker(succeed)
    with surveying(process, worker):
        size = threading.stack_size(2**45)  # more than a process can have: no thread starts
        try:
            fill(database, "own")
            process.inboxes.wake("own")
            eventually(lambda: "Unexpected failure in after_declare_queue" in caplog.text)
        finally:
            threading.stack_size(size)
        assert written(database) == []
        process.inboxes.wake("own")
        eventually(lambda: ended(database) == {"own"})
        eventually(lambda: written(database) == ["own"])
