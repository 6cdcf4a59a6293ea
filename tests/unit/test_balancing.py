"""Balance of connections between worker processes that accept from one socket."""

import logging
import selectors
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest
from gunicorn.config import Config

from app.web.server.balancing import Loads
from app.web.server.gunicorn_worker import Worker
from tests.waiting import eventually


@contextmanager
def worker_of(loads: Loads, listener: socket.socket) -> Iterator[Worker]:
    worker = type("Own", (Worker,), {"loads": loads})(
        1, 1, [listener], None, 30, Config(), logging.getLogger("gunicorn.error")
    )
    worker.loads, worker.place = loads, loads.join()
    with selectors.DefaultSelector() as worker.poller, ThreadPoolExecutor(1) as worker.tpool:
        yield worker
        for conn in worker.pending_conns:
            conn.close()
    worker.tmp.close()


def turn(worker: Worker) -> int:
    """Run the loop of a worker once, as gunicorn does; return the number of its connections."""
    worker.set_accept_enabled(True)
    worker.wait_for_and_dispatch_events(0.01)
    return worker.nr_conns


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.fixture
def workers(listener: socket.socket) -> Iterator[list[Worker]]:
    loads = Loads()
    with ExitStack() as stack:
        yield [stack.enter_context(worker_of(loads, listener)) for _ in range(2)]


@pytest.fixture
def connect(listener: socket.socket) -> Iterator[Callable[[], object]]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(socket.create_connection(listener.getsockname()))


def test_new_connection_is_left_to_the_worker_with_the_smaller_load(
    workers: list[Worker], connect: Callable[[], object]
) -> None:
    first, second = workers
    assert (turn(first), turn(second)) == (0, 0)
    connect()
    assert (turn(first), turn(first)) == (1, 1)
    connect()
    assert (turn(first), turn(second)) == (1, 1)


def test_connection_that_the_other_worker_does_not_take_is_accepted(
    workers: list[Worker], connect: Callable[[], object]
) -> None:
    first, frozen = workers
    turn(frozen)
    for _ in range(3):
        connect()
    eventually(lambda: turn(first) == 3, what="all connections")


def test_stopped_or_ended_worker_is_left_nothing(workers: list[Worker], connect: Callable[[], object]) -> None:
    first, second = workers
    turn(second)
    second.alive = False
    turn(second)
    for number in range(1, 4):
        connect()
        assert turn(first) == number
    second.alive = True
    turn(second)
    second.loads.leave(second.place)
    connect()
    assert turn(first) == 4
    assert first.loads.join() == second.place


def test_requests_count_before_connections(workers: list[Worker], connect: Callable[[], object]) -> None:
    first, second = workers
    for _ in range(3):
        connect()
        turn(first)
    second._taken = 1  # noqa: SLF001 - as if a thread served a request
    turn(second)
    connect()
    assert turn(first) == 4
