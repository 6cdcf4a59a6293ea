"""Database faults under load: clients get 503 in time, no job is lost, and each repeated delivery is recorded."""

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

import psycopg2
import pytest

from app.dev.process.child import Child, freeze, signal_all
from app.dev.process.proxy import Mode, Proxy
from app.dev.receiver import Receiver
from app.dev.servers import Postgres
from app.dev.stack.runner import Stack
from app.dev.stack.stack_client import Api
from app.kernel import db
from app.kernel.db import Database
from brokers.worker_process import EXIT_LEASE_LOST
from schema import migrate
from tests import rows
from tests.acceptance.conftest import stack_over
from tests.acceptance.limits import ENDED_SECONDS
from tests.acceptance.load import Load, check_deliveries
from tests.servers import start_or_skip
from tests.waiting import HUNG_SECONDS, eventually

pytestmark = pytest.mark.acceptance

SETTINGS = {"TE_DB_POOL_SIZE": "4", "TE_WEB_WORKERS": "1", "TE_WEB_THREADS": "4", "TE_REQUEST_TIMEOUT_SEC": "8"}
# Every outage except the last is shorter than the long lease, also on a slow machine.
LONG_LEASE, SHORT_LEASE = {"TE_WORKER_TIMEOUT_SEC": "120"}, {"TE_WORKER_TIMEOUT_SEC": "6"}
RETRIES = {"max_attempts": 5, "backoff": "fixed", "initial_delay_ms": 100}


class Movable(Postgres):
    """PostgreSQL with fsync that can restart on another port with the same data."""

    def move(self) -> None:
        """Stop the server like a crash, and start it on another port."""
        self._running().stop(self.stop_seconds, signal.SIGQUIT)
        self._port = None
        self.start()


@dataclass(slots=True)
class System:
    """A web process, a worker and a scheduler, connected to the database through a proxy that the tests disturb."""

    postgres: Movable
    proxy: Proxy
    stack: Stack
    api: Api
    worker: Child

    @contextmanager
    def database(self) -> Iterator[Database]:
        """Connect to the current server without the proxy."""
        with closing(db.connect(self.postgres.url, pool_size=2, application_name="test")) as database:
            yield database

    def load(self, receiver: Receiver, name: str) -> Load:
        """Make a load of jobs for a new endpoint with a separate path of the receiver."""
        with self.database() as database:
            spec = {"url": f"{receiver.base_url}/slow/50/{name}", "method": "POST"}
            rows.add_endpoint(database, name, spec=spec, retry_policy=RETRIES)
        return Load(self.api, name)

    def check(self, receiver: Receiver, name: str, load: Load) -> int:
        """Check that every job was delivered, and return the number of repeated deliveries."""
        assert load.broken == 0, "a request ended without a response"
        with self.database() as database:
            return check_deliveries(database, receiver, f"/slow/50/{name}", load.accepted)


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with ExitStack() as opened:
        postgres = start_or_skip(Movable(max_connections=50))
        opened.callback(postgres.stop)
        proxy = opened.enter_context(Proxy(postgres.port))
        migrate.upgrade(postgres.url)
        stack = opened.enter_context(stack_over(proxy.url(postgres.url), tmp_path_factory.mktemp("logs")))
        stack.web(**SETTINGS)
        stack.scheduler(**SETTINGS)
        yield System(postgres, proxy, stack, stack.api, stack.worker(**SETTINGS, **LONG_LEASE))


def test_killed_and_restarted_database_loses_no_job(system: System, receiver: Receiver) -> None:
    with system.load(receiver, "killed") as load:
        load.wait_for_more()
        system.postgres.kill()
        load.wait_for_refusals()
        system.postgres.start()
        load.wait_for_more()
    system.check(receiver, "killed", load)
    assert {answer.code for answer in load.refusals} == {"SERVICE_UNAVAILABLE"}
    assert system.worker.is_running, "the worker ended instead of keeping its results"


def test_stall_of_two_seconds_only_delays_requests(system: System, receiver: Receiver) -> None:
    with system.load(receiver, "stalled") as load:
        load.wait_for_more()
        system.proxy.set(Mode.STALL)
        time.sleep(2)  # duration of the fault
        system.proxy.set(Mode.PASS)
        load.wait_for_more()
    assert load.refusals == []
    assert system.check(receiver, "stalled", load) == 0
    assert system.worker.is_running


@pytest.mark.postgresql_only
def test_exhausted_connections_lose_no_job(system: System, receiver: Receiver) -> None:
    with system.load(receiver, "exhausted") as load, ExitStack() as taken:
        load.wait_for_more()
        take_every_connection(system.postgres.url, taken)
        load.wait_for_refusals(3)
        taken.close()
        load.wait_for_more()
    assert {answer.code for answer in load.refusals} == {"SERVICE_UNAVAILABLE"}
    system.check(receiver, "exhausted", load)
    assert system.worker.is_running


def test_failover_to_another_port_loses_no_job(system: System, receiver: Receiver) -> None:
    with system.load(receiver, "moved") as load:
        load.wait_for_more()
        system.postgres.move()
        load.wait_for_refusals()
        system.proxy.redirect(system.postgres.port)
        load.wait_for_more()
    system.check(receiver, "moved", load)
    assert system.worker.is_running


def test_frozen_database_makes_the_worker_exit_after_its_lease(system: System, receiver: Receiver) -> None:
    """The kernel still acknowledges packets for the frozen server, so only timeouts of the product end a wait."""
    system.worker.stop(ENDED_SECONDS)
    system.worker = system.stack.worker(**SETTINGS, **SHORT_LEASE)
    with system.load(receiver, "frozen") as load:
        load.wait_for_more()
        servers = freeze(system.postgres.pid)
        try:
            answers = request_concurrently(system.api, 40)
            status = system.worker.wait(ENDED_SECONDS)
        finally:
            signal_all(servers, signal.SIGCONT)
        assert status == EXIT_LEASE_LOST, system.worker.tail()
        assert {status for status, _ in answers} <= {503, 504}
        assert max(seconds for _, seconds in answers) < HUNG_SECONDS, "forty requests for four threads took too long"
        system.worker = system.stack.worker(**SETTINGS, **LONG_LEASE)
        load.wait_for_more()
    system.check(receiver, "frozen", load)


def request_concurrently(api: Api, count: int) -> list[tuple[int, float]]:
    """Send `count` requests at the same time; return the status and the seconds of each."""

    def request(_number: int) -> tuple[int, float]:
        began = time.monotonic()
        with closing(Api(api.base_url, api.key)) as client:
            response = client.request("GET", "/jobs", timeout=120)
        return response.status_code, time.monotonic() - began

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(request, range(count)))


def take_every_connection(url: str, taken: ExitStack) -> None:
    """End the connections of the processes under test, and hold all connections of the server."""
    control = taken.enter_context(closing(psycopg2.connect(url)))
    control.autocommit = True
    of_product = "application_name LIKE 'te-%'"

    def are_all_taken() -> bool:
        with control.cursor() as cursor:
            cursor.execute(f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {of_product}")
            (ended,) = cursor.fetchone() or (0,)
        try:
            while True:
                taken.enter_context(closing(psycopg2.connect(url)))
        except psycopg2.OperationalError:
            return ended == 0

    eventually(are_all_taken, what="the hold of all connections")
