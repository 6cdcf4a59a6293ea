"""Fixtures of the tests of flow: worker processes with breakers."""

import pytest

from app.db import Database
from app.flow.breaker import BreakerSettings
from tests.contract.flow.breaking import NewWorker, Worker


@pytest.fixture
def new_worker(database: Database) -> NewWorker:
    numbers = iter(range(100))

    def new(**settings: BreakerSettings) -> Worker:
        worker = Worker(database, f"wrk_{next(numbers)}", settings)
        worker.learn()
        return worker

    return new


@pytest.fixture
def three(new_worker: NewWorker) -> list[Worker]:
    return [new_worker() for _ in range(3)]
