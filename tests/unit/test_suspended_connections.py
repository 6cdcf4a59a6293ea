"""Suspended connections in the main loop of a worker without other traffic."""

import logging
import selectors
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from gunicorn.config import Config
from gunicorn.workers.gthread import TConn

from app.web.server.gunicorn_worker import Worker


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker(1, 1, [], None, 30, Config(), logging.getLogger("gunicorn.error"))
    with selectors.DefaultSelector() as worker.poller, ThreadPoolExecutor(1) as worker.tpool:
        worker.method_queue.init()
        queue = worker.method_queue
        worker.poller.register(queue.fileno(), selectors.EVENT_READ, queue.run_callbacks)
        yield worker
        queue.close()
    worker.tmp.close()


def test_client_may_disconnect_when_its_wait_ends(worker: Worker) -> None:
    """A client timeout equal to `wait` disconnects then. An error here would end the process and all other waits."""
    ends: list[Callable[[], object]] = []

    class Wait:
        def begin(self, over: Callable[[], object]) -> Callable[[], object]:
            ends.append(over)
            return ends.clear

    ours, client = socket.socketpair()
    with ours, client:
        conn = TConn(worker.cfg, ours, ("", 0), ("", 0))
        conn.kept, conn.slot = Wait(), ExitStack()
        worker._suspend(conn, conn.kept)  # noqa: SLF001 - gunicorn calls it by way of finish_request
        assert worker.waiting() == 1
        ends[0]()
        client.close()
        worker.wait_for_and_dispatch_events(1.0)
        assert worker.waiting() == 0


@pytest.mark.parametrize("is_read", [True, False], ids=["body read", "body left"])
def test_only_an_unread_body_limits_the_time_to_keep_a_connection(worker: Worker, is_read: bool) -> None:
    """The thread may run late. A deadline passed by then must not drop a client that may keep its connection."""
    worker.rest_seconds = 0.0
    server, client = socket.socketpair()
    with server, client:
        conn = TConn(worker.cfg, server, ("", 0), ("", 0))
        conn.init()
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody")
        request = next(conn.parser)
        if is_read:
            assert request.body.read() == b"body"
        assert worker._keepalive_after(conn, True) is is_read  # noqa: SLF001 - gunicorn calls it after each request
