"""Fixtures of the tests of traces: a client of the API, and a worker that delivers the client's jobs."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from sqlalchemy import text

import tests.worker_environment  # noqa: F401 - first
from actors.deliver import Deliveries
from actors.loop import DeliveryLoop
from app.dev.receiver import Receiver
from app.kernel.config import Settings
from app.kernel.db import Database
from app.scheduler.chore import ChoreContext
from brokers.worker_process import WorkerProcess
from tests.chores import chores_of
from tests.contract.broker.delivering import Attempts, catalog_of
from tests.integration.client import Api, administrator, running
from tests.integration.registered import register
from tests.waiting import eventually

Deliver = Callable[..., list[dict[str, str]]]
Attempting = Callable[..., list[dict[str, str]]]


@pytest.fixture
def settings(database_url: str, shards: int) -> Settings:
    return Settings(database_url=database_url, queue_shards=shards)


@pytest.fixture
def api(database: Database, settings: Settings) -> Iterator[Api]:
    with running(settings) as app:
        yield administrator(app)


@pytest.fixture
def attempt(database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver) -> Attempting:
    """Make `count` attempts, and return the headers of all deliveries at a path since the test began."""
    attempts = Attempts(process)

    def attempt(path: str, count: int, *, in_all: int | None = None) -> list[dict[str, str]]:
        for _ in range(count):
            Deliveries(catalog_of(database), loop, database, process).start([attempts.next()])
        received = receiver.wait_for(in_all or count, path=path)
        eventually(lambda: not process.shares.claims())
        assert process.finalizer.flush(60)
        return [{name.lower(): value for name, value in delivery.headers.items()} for delivery in received]

    return attempt


@pytest.fixture
def deliver(api: Api, attempt: Attempting, receiver: Receiver, database: Database, settings: Settings) -> Deliver:
    """Create a job with some headers, and return the headers of the delivery of each attempt.

    A repeating job has one tick, or one manual run, requested with the headers `run_headers`.
    """
    chores = chores_of(ChoreContext(database, settings, hint=lambda _queue: None, stopping=lambda: False))

    def deliver(
        name: str,
        body: Mapping[str, Any],
        headers: dict[str, str],
        behaviour: str = "ok",
        count: int = 1,
        run_headers: Mapping[str, str] | None = None,
    ) -> list[dict[str, str]]:
        path = f"/{behaviour}/traced-{name}"  # all tests of the session share one receiver
        policy = {"max_attempts": count, "backoff": "fixed", "initial_delay_ms": 1}
        register(api, name, spec={"url": receiver.url(path), "method": "POST"}, retry_policy=policy)
        job = api.post("/jobs", {"endpoint": name, **body}, headers=headers).json
        if run_headers is not None:
            assert api.post(f"/jobs/{job['job_id']}/run", headers=dict(run_headers)).status_code == 201
        elif body["trigger"] == "INTERVAL":
            database.fetch(text("UPDATE jobs SET cron_next_run_at = now() RETURNING job_id"))
            assert chores.materialize()["ticks"] == 1
        return attempt(path, count)

    return deliver
