"""The database dies, stalls, refuses and moves while clients go on: 503 in time, nothing lost, no silent repeat."""

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

import psycopg2
import pytest

from app.dev.process.child import Child, family, signal_all
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
# Every outage but the last is shorter than the lease, however slow the machine.
LONG_LEASE, SHORT_LEASE = {"TE_WORKER_TIMEOUT_SEC": "120"}, {"TE_WORKER_TIMEOUT_SEC": "6"}
RETRIES = {"max_attempts": 5, "backoff": "fixed", "initial_delay_ms": 100}


class Movable(Postgres):
    """A durable PostgreSQL that can come up again elsewhere, with the same data."""

    def move(self) -> None:
        """End it as a crash does and start it on another port."""
        self._running().stop(self.stop_seconds, signal.SIGQUIT)
        self._port = None
        self.start()


@dataclass(slots=True)
class System:
    """A web process, a worker and a scheduler, whose way to the database is a proxy that tests break."""

    postgres: Movable
    proxy: Proxy
    stack: Stack
    api: Api
    worker: Child

    @contextmanager
    def database(self) -> Iterator[Database]:
        """The database without the proxy, as it is now."""
        with closing(db.connect(self.postgres.url, pool_size=2, application_name="test")) as database:
            yield database

    def load(self, receiver: Receiver, name: str) -> Load:
        """Jobs to a new endpoint, on its own path of the receiver."""
        with self.database() as database:
            spec = {"url": f"{receiver.base_url}/slow/50/{name}", "method": "POST"}
            rows.add_endpoint(database, name, spec=spec, retry_policy=RETRIES)
        return Load(self.api, name)

    def check(self, receiver: Receiver, name: str, load: Load) -> int:
        """Everything arrived; returns the number of repeated sends."""
        assert load.broken == 0, "a request ended without an answer"
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


def test_killed_and_started_again(system: System, receiver: Receiver) -> None:
    with system.load(receiver, "killed") as load:
        load.wait_for_more()
        system.postgres.kill()
        load.wait_for_refusals()
        system.postgres.start()
        load.wait_for_more()
    system.check(receiver, "killed", load)
    assert {answer.code for answer in load.refusals} == {"SERVICE_UNAVAILABLE"}
    assert system.worker.is_running, "it kept its results and wrote them later"


def test_a_stall_of_two_seconds_costs_nothing_but_time(system: System, receiver: Receiver) -> None:
    with system.load(receiver, "stalled") as load:
        load.wait_for_more()
        system.proxy.set(Mode.STALL)
        time.sleep(2)  # the fault itself, not a wait for it
        system.proxy.set(Mode.PASS)
        load.wait_for_more()
    assert load.refusals == []
    assert system.check(receiver, "stalled", load) == 0
    assert system.worker.is_running


@pytest.mark.postgresql_only
def test_no_connection_left(system: System, receiver: Receiver) -> None:
    with system.load(receiver, "exhausted") as load, ExitStack() as taken:
        load.wait_for_more()
        take_every_connection(system.postgres.url, taken)
        load.wait_for_refusals(3)
        taken.close()
        load.wait_for_more()
    assert {answer.code for answer in load.refusals} == {"SERVICE_UNAVAILABLE"}
    system.check(receiver, "exhausted", load)
    assert system.worker.is_running


def test_a_failover_to_another_port(system: System, receiver: Receiver) -> None:
    with system.load(receiver, "moved") as load:
        load.wait_for_more()
        system.postgres.move()
        load.wait_for_refusals()
        system.proxy.redirect(system.postgres.port)
        load.wait_for_more()
    system.check(receiver, "moved", load)
    assert system.worker.is_running


def test_every_server_process_frozen_until_the_worker_gives_up(system: System, receiver: Receiver) -> None:
    """The kernel goes on answering for them: nothing but our own clocks ends the wait."""
    system.worker.stop(ENDED_SECONDS)
    system.worker = system.stack.worker(**SETTINGS, **SHORT_LEASE)
    with system.load(receiver, "frozen") as load:
        load.wait_for_more()
        servers = family(system.postgres.pid)
        signal_all(servers, signal.SIGSTOP)
        try:
            answers = ask_all_at_once(system.api, 40)
            status = system.worker.wait(ENDED_SECONDS)
        finally:
            signal_all(servers, signal.SIGCONT)
        assert status == EXIT_LEASE_LOST, system.worker.tail()
        assert {status for status, _ in answers} <= {503, 504}
        assert max(seconds for _, seconds in answers) < HUNG_SECONDS, "four threads, forty requests"
        system.worker = system.stack.worker(**SETTINGS, **LONG_LEASE)
        load.wait_for_more()
    system.check(receiver, "frozen", load)


def ask_all_at_once(api: Api, count: int) -> list[tuple[int, float]]:
    """Send so many requests at the same time; gives each one's status and how long it took."""

    def ask(_number: int) -> tuple[int, float]:
        began = time.monotonic()
        with closing(Api(api.base_url, api.key)) as own:
            answer = own.request("GET", "/jobs", timeout=120)
        return answer.status_code, time.monotonic() - began

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(ask, range(count)))


def take_every_connection(url: str, taken: ExitStack) -> None:
    """Hold all connections that the server gives; those of the processes under test are ended first."""
    control = taken.enter_context(closing(psycopg2.connect(url)))
    control.autocommit = True
    ours = "application_name LIKE 'te-%'"

    def is_all_ours() -> bool:
        with control.cursor() as cursor:
            cursor.execute(f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {ours}")
            (others,) = cursor.fetchone() or (0,)
        try:
            while True:
                taken.enter_context(closing(psycopg2.connect(url)))
        except psycopg2.OperationalError:
            return others == 0

    eventually(is_all_ours, what="all connections")
