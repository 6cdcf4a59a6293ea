"""Deadlines for clients that do not read their answer."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest
from gunicorn.config import Config
from gunicorn.glogging import Logger
from gunicorn.workers.gthread import TConn

from app.web.http.suspension import Streamed
from app.web.server.guarded_application import Answer, Deadlines
from app.web.server.gunicorn_worker import Worker
from tests.waiting import HUNG_SECONDS, eventually

EXPECTING = b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
STREAMING = b"GET /events HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n"


@contextmanager
def worker_of(application: Any) -> Iterator[Worker]:
    config = Config()
    worker = Worker(0, os.getppid(), [], SimpleNamespace(wsgi=lambda: application), 30, config, Logger(config))
    with closing(worker.tmp):
        worker.load_wsgi()
        yield worker


def connection(worker: Worker, server: socket.socket) -> TConn:
    return TConn(worker.cfg, server, ("127.0.0.1", 1), ("127.0.0.1", 2))


@pytest.mark.parametrize("parts", [(), (b"some",)], ids=["no body", "a body"])
def test_client_must_read_the_end_of_an_answer_in_time(parts: tuple[bytes, ...]) -> None:
    """gunicorn writes the end after the last part; an answer without a body is written all at once at the end."""
    deadlines, (server, client) = Deadlines(), socket.socketpair()
    with server, client:
        answer = Answer(parts, server, deadlines)
        assert tuple(answer) == parts
        deadlines.enforce(time.monotonic() + HUNG_SECONDS)
        client.settimeout(HUNG_SECONDS)
        assert client.recv(1) == b""
        answer.close()


@pytest.mark.parametrize(
    ("request_", "answer"),
    [(EXPECTING, None), (STREAMING, Streamed(Any, None, b"id: 1\n\n", "text/event-stream", {}))],
    ids=["100 Continue", "head of a stream"],
)
def test_client_must_read_the_beginning_of_an_answer_in_time(request_: bytes, answer: Any) -> None:
    server, client = socket.socketpair()
    with worker_of(answer) as worker, server, client:
        server.setblocking(False)
        with suppress(BlockingIOError):  # the socket is full of bytes that the client has not read
            while server.send(b"1"):
                pass
        client.sendall(request_)
        thread = threading.Thread(target=worker.handle, args=[connection(worker, server)], daemon=True)
        thread.start()

        def is_back() -> bool:
            worker.deadlines.enforce(time.monotonic() + HUNG_SECONDS)  # the main thread calls this with a later time
            return not thread.is_alive()

        eventually(is_back, what="the return of the thread")


def test_no_deadline_interrupts_a_slow_application() -> None:

    def application(_environ: object, start_response: Any) -> tuple[()]:
        worker.murder_pending()
        start_response("204 No Content", [])
        return ()

    server, client = socket.socketpair()
    with worker_of(application) as worker, server, client:
        worker.deadlines.write_seconds = -HUNG_SECONDS
        client.sendall(EXPECTING)
        worker.handle(connection(worker, server))
        server.close()
        heads = client.makefile("rb").read().split(b"\r\n\r\n")
        assert [head.split()[1] for head in heads if head] == [b"100", b"204"]
