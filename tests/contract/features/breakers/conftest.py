"""Fixtures of the tests of breakers: worker processes, and an endpoint."""

from typing import Any

import pytest

from app.dev.receiver import Receiver
from app.kernel.db import Database
from tests import rows
from tests.contract.features.breakers.breaking import NewWorker, Worker


@pytest.fixture
def new_worker(database: Database) -> NewWorker:
    numbers = iter(range(100))

    def new(**settings: Any) -> Worker:
        worker = Worker(database, f"wrk_{next(numbers)}", settings)
        worker.learn()
        return worker

    return new


@pytest.fixture
def three(new_worker: NewWorker) -> list[Worker]:
    return [new_worker() for _ in range(3)]


@pytest.fixture
def name(database: Database, receiver: Receiver) -> str:
    """The receiver as a target, which an endpoint leads to."""
    receiver.clear()
    rows.add_endpoint(database, "shut", spec={"url": receiver.url("/ok/shut"), "method": "POST", "timeout_ms": 5000})
    return f"http:127.0.0.1:{receiver.base_url.rpartition(':')[2]}"
