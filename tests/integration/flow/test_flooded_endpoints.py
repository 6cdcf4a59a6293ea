"""Endpoints for which jobs are being created all the time: they can be paused and limited, and nothing dangles."""

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
def being_created(database: Database) -> Iterator[None]:
    """Create a job in a transaction that is not over: a flood is many of these, each begun before another ends."""
    creator = Creator(database, shards=1, look_ahead_ms=5000)
    target = creator.targets.fitting("target", {})
    new = NewJob(endpoint="target", trigger=Trigger.IMMEDIATE, input={}, idempotency_key="flood")
    params = job_insertion.params_of(new, target, "job_flood", 1) | {"look_ahead_ms": 5000}
    with database.engine.connect() as connection, connection.begin():
        assert connection.execute(job_insertion.ONE_SHOT, params).one().execution_status == "QUEUED"
        yield


@pytest.mark.postgresql_only  # CockroachDB has no row locks that are for keys only
@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
def test_a_change_of_the_flow_waits_for_no_job_that_is_being_created(
    api: Api, database: Database, method: str, path: str, body: Any
) -> None:
    register(api)
    with being_created(database):
        answer = api.send(method, path, json=body)
        assert answer.status_code == 200, answer.json
    assert api.get("/jobs/job_flood").status_code == 200


@pytest.mark.postgresql_only
@pytest.mark.parametrize(("method", "status"), [("PUT", 200), ("DELETE", 409)])
def test_a_new_version_and_a_deletion_wait_for_the_jobs_of_the_old_one(
    api: Api, database: Database, method: str, status: int
) -> None:
    register(api)
    body = {name: value for name, value in http_endpoint().items() if name != "name"} if method == "PUT" else None
    with ThreadPoolExecutor(1) as pool:
        with being_created(database):
            answer = pool.submit(api.send, method, "/endpoints/target", json=body)
            eventually(lambda: database.fetch(WAITING)[0].n == 1)
            assert not answer.done()
        assert answer.result().status_code == status
    assert api.get("/jobs/job_flood").json["endpoint_version"] == 1


@pytest.mark.postgresql_only  # as above
def test_a_job_is_created_while_the_endpoint_is_being_paused(api: Api, database: Database) -> None:
    register(api)
    with database.engine.connect() as connection, connection.begin():
        endpoint_rows.lock(connection, "target", AuditedChange(SYSTEM), keeps_version=True)
        connection.execute(PAUSE)
        assert created(api, one_shot("meanwhile"))["endpoint_version"] == 1
