"""Fixtures of the tests of executions."""

import pytest

from app.kernel.db import Database
from app.kernel.processes import worker_lease
from tests.integration.client import Api
from tests.integration.executions.worker import WORKER
from tests.integration.registered import created, one_shot, register


@pytest.fixture
def execution_id(api: Api, database: Database) -> str:
    """A one-shot execution with three attempts, and a worker."""
    register(api, retry_policy={"max_attempts": 3})
    worker_lease.register(
        database, worker_id=WORKER, host="h", pid=1, queues=["http", "kafka"], capacity=9, lease_ms=60_000
    )
    found: str = created(api, one_shot("k"))["execution"]["execution_id"]
    return found
