"""Fixtures of the contract tests: objects of the product over a real database."""

from collections.abc import Callable, Iterator, Sequence

import dramatiq
import pytest
from dramatiq import Worker

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch import open_dispatchers
from actors.loop import DeliveryLoop
from app.features import FEATURES
from app.kernel import db
from app.kernel.config import Settings
from app.kernel.db import Database
from app.kernel.function_types import Call
from brokers.attempt import Attempt
from brokers.broker import ExecutionsBroker
from brokers.consumer import DELIVER
from brokers.middleware import Lifecycle
from brokers.worker_process import WorkerProcess
from brokers.worker_settings import WorkerSettings
from tests import rows
from tests.open_databases import OpenDatabases

# Failed asserts of these modules show their values; by default pytest rewrites only test modules.
pytest.register_assert_rewrite("tests.contract.features.limits.limited_plans", "tests.contract.store.metric_plans")

SHARDS = [pytest.param(1, id="1 shard"), pytest.param(16, id="16 shards")]
"""The default numbers of shards on PostgreSQL and on CockroachDB."""


@pytest.fixture
def database(database_url: str, open_databases: OpenDatabases) -> Iterator[Database]:
    """A migrated database with one HTTP endpoint called `target`."""
    with open_databases.lend(database_url, pool_size=10, application_name="te-test") as database:
        rows.add_endpoint(database)
        yield database


def worker_settings(**changes: object) -> WorkerSettings:
    """Return settings of a worker process that stops quickly."""
    values: dict[str, object] = {
        "capacity": 20,
        "poll_interval_ms": 50,
        "shards": 1,
        "lease_seconds": 15.0,
        "stuck_seconds": 300.0,
        "shutdown_timeout_seconds": 5.0,
        "startup_timeout_seconds": 5.0,
    }
    return WorkerSettings(**(values | changes))  # type: ignore[arg-type]


def worker_process(
    database: Database, lease: Database, publish: Call | None = None, **changes: object
) -> WorkerProcess:
    """Return a worker process that is not open and has no catalog."""
    return WorkerProcess(
        database,
        lease,
        worker_settings(**changes),
        on_revision=lambda _revision: None,
        features=FEATURES,
        publish=publish,
    )


@pytest.fixture
def shards() -> int:
    """The number of shards of a worker process; some tests run with both of SHARDS."""
    return 1


@pytest.fixture
def process(
    database: Database, database_url: str, open_databases: OpenDatabases, shards: int
) -> Iterator[WorkerProcess]:
    """An open process with a valid lease; no consumer runs.

    The lease lasts longer than any test: a process whose lease is gone exits, and the test run would exit with it.
    """
    with open_databases.lend(database_url, pool_size=1, application_name="te-test-lease") as lease:
        process = worker_process(database, lease, shards=shards, lease_seconds=600)
        process.open(["http"])
        yield process
        process.close()


@pytest.fixture
def loop() -> Iterator[DeliveryLoop]:
    """The real dispatchers on an event loop in a separate thread."""
    loop = DeliveryLoop(lambda: open_dispatchers(Settings(database_url="")))
    loop.start()
    yield loop
    loop.stop()


StartWorker = Callable[..., tuple[Worker, WorkerProcess]]


@pytest.fixture
def start_worker(database_url: str, shards: int) -> Iterator[StartWorker]:
    """Start a Dramatiq worker with the product's broker and the given actor body; stop it after the test."""
    started: list[Worker] = []

    def start(body: Callable[[Attempt], None], **changes: object) -> tuple[Worker, WorkerProcess]:
        database = db.connect(database_url, pool_size=5, application_name="te-test-worker")
        lease = db.connect(database_url, pool_size=1, application_name="te-test-lease")
        process = worker_process(database, lease, **({"shards": shards} | changes))
        broker = ExecutionsBroker(process, [Lifecycle(process, [])])

        def actor(attempts: Sequence[Attempt]) -> None:
            for attempt in attempts:
                body(attempt)

        dramatiq.Actor(actor, broker=broker, actor_name=DELIVER, queue_name="http", priority=0, options={})
        worker = Worker(broker, worker_threads=4, worker_timeout=100)
        worker.start()
        started.append(worker)
        return worker, process

    yield start
    for worker in started:
        if not worker.broker.process.draining.is_set():  # type: ignore[attr-defined]
            worker.stop()
