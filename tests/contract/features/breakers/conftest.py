"""Fixtures of the breaker tests: worker processes, and an endpoint."""

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
        worker.read_states()
        return worker

    return new


@pytest.fixture
def three(new_worker: NewWorker) -> list[Worker]:
    return [new_worker() for _ in range(3)]


@pytest.fixture
def name(database: Database, receiver: Receiver) -> str:
    """Target name of the receiver; the endpoint `blocked` resolves to it."""
    receiver.clear()
    rows.add_endpoint(
        database, "blocked", spec={"url": receiver.url("/ok/blocked"), "method": "POST", "timeout_ms": 5000}
    )
    return f"http:127.0.0.1:{receiver.base_url.rpartition(':')[2]}"
