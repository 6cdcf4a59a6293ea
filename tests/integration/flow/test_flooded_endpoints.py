"""Changes of endpoints under a constant flood of new jobs: each change completes, and references stay valid."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import text

from app.catalog.endpoints import endpoint_rows
from app.kernel.audit import SYSTEM
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from app.queue.jobs import job_insertion
from app.queue.jobs.job_creation import Creator
from app.queue.jobs.job_model import NewJob
from schema.states import Trigger
from tests.integration.client import Api
from tests.integration.registered import created, http_endpoint, one_shot, register
from tests.waiting import eventually

LIMITS = {"max_in_flight": 1}
CHANGES = [
    pytest.param("POST", "/endpoints/target/pause", None, id="pause"),
    pytest.param("PATCH", "/endpoints/target", {"limits": LIMITS}, id="limits"),
    pytest.param("PUT", "/routes", {"routes": [{"pattern": "tar*", "queue": "slow"}]}, id="routes"),
]
PAUSE = text("UPDATE endpoints SET paused_at = now(), flow_revision = flow_revision + 1 WHERE name = 'target'")
WAITING = text(
    "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@contextmanager
def open_job_creation(database: Database) -> Iterator[None]:
    """Create a job in an open transaction. A flood is a sequence of such transactions, each overlapping the next."""
    creator = Creator(database, shards=1, look_ahead_ms=5000)
    target = creator.targets.accepting("target", {})
    new = NewJob(endpoint="target", trigger=Trigger.IMMEDIATE, input={}, idempotency_key="flood")
    params = job_insertion.params_of(new, target, "job_flood", 1) | {"look_ahead_ms": 5000}
    with database.engine.connect() as connection, connection.begin():
        assert connection.execute(job_insertion.ONE_SHOT, params).one().execution_status == "QUEUED"
        yield


@pytest.mark.postgresql_only  # CockroachDB lacks FOR KEY SHARE locks
@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
def test_change_of_the_flow_does_not_wait_for_open_job_creations(
    api: Api, database: Database, method: str, path: str, body: Any
) -> None:
    register(api)
    with open_job_creation(database):
        answer = api.send(method, path, json=body)
        assert answer.status_code == 200, answer.json
    assert api.get("/jobs/job_flood").status_code == 200


@pytest.mark.postgresql_only
@pytest.mark.parametrize(("method", "status"), [("PUT", 200), ("DELETE", 409)])
def test_new_version_and_deletion_wait_for_open_job_creations(
    api: Api, database: Database, method: str, status: int
) -> None:
    register(api)
    body = {name: value for name, value in http_endpoint().items() if name != "name"} if method == "PUT" else None
    with ThreadPoolExecutor(1) as pool:
        with open_job_creation(database):
            answer = pool.submit(api.send, method, "/endpoints/target", json=body)
            eventually(lambda: database.fetch(WAITING)[0].n == 1)
            assert not answer.done()
        assert answer.result().status_code == status
    assert api.get("/jobs/job_flood").json["endpoint_version"] == 1


@pytest.mark.postgresql_only  # CockroachDB lacks FOR KEY SHARE locks
def test_job_is_created_during_an_open_pause_of_its_endpoint(api: Api, database: Database) -> None:
    register(api)
    with database.engine.connect() as connection, connection.begin():
        endpoint_rows.lock(connection, "target", AuditedChange(SYSTEM), keeps_version=True)
        connection.execute(PAUSE)
        assert created(api, one_shot("concurrent"))["endpoint_version"] == 1
