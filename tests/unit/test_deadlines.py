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
from werkzeug.utils import redirect
from werkzeug.wrappers import Response

from app.web.http.suspension import KEPT, Streamed
from app.web.server.guarded_application import WRITE_SECONDS, Answer, Deadlines
from app.web.server.gunicorn_worker import Worker
from tests.waiting import HUNG_SECONDS, eventually

GET = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
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


def test_parts_of_an_answer_share_one_deadline() -> None:
    now = 0.0
    deadlines, (server, client) = Deadlines(lambda: now), socket.socketpair()
    with server, client:
        client.settimeout(HUNG_SECONDS)
        for _ in Answer([b"some"] * 3, server, deadlines):
            now += WRITE_SECONDS / 2 + 0.1  # a client that reads a little more than a third in time
            deadlines.enforce(now)
        assert client.recv(1) == b""


def test_time_to_make_the_parts_of_an_answer_does_not_count() -> None:
    now = 0.0

    def parts() -> Iterator[bytes]:
        nonlocal now
        for _ in range(3):
            now += WRITE_SECONDS
            deadlines.enforce(now)
            yield b"some"

    deadlines, (server, client) = Deadlines(lambda: now), socket.socketpair()
    with server, client:
        assert b"".join(Answer(parts(), server, deadlines)) == b"some" * 3
        server.send(b"open")
        assert client.recv(4) == b"open"


def of_several_parts(_environ: Any, start_response: Any) -> Iterator[bytes]:
    start_response("200 OK", [])
    yield from (b"some", b"more")


def of_no_length(_environ: Any, start_response: Any) -> tuple[()]:
    start_response("304 Not Modified", [])
    return ()


def that_fails(_environ: Any, _start_response: Any) -> Any:
    raise ValueError("a fault of the application")


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (GET, Response("some")),
        (GET.replace(b"GET", b"HEAD"), Response("some")),
        (GET, of_no_length),
        (GET, of_several_parts),
        (GET, redirect("/elsewhere")),
        (GET, that_fails),
        (b"GET / HTTP/9\r\n\r\n", None),
        (EXPECTING, None),
        (STREAMING, Streamed(Any, None, b"id: 1\n\n", "text/event-stream", {})),
    ],
    ids=["plain", "head only", "no body", "parts", "redirect", "error", "refusal", "100 Continue", "head of a stream"],
)
def test_client_must_read_an_answer_in_time(request_: bytes, answer: Any) -> None:
    server, client = socket.socketpair()
    is_answering = threading.Event()

    def application(environ: Any, start_response: Any) -> Any:
        is_answering.set()
        return answer(environ, start_response)

    with worker_of(application) as worker, server, client:
        fill(server)
        client.sendall(request_)
        if answer is None:
            is_answering.set()
        assert_thread_returns(worker, connection(worker, server), is_answering)


def test_client_must_read_a_resumed_answer_in_time() -> None:
    is_answering = threading.Event()

    def application(environ: Any, _start_response: Any) -> tuple[()]:
        def resume(start_response: Any) -> Any:
            is_answering.set()
            return Response("some")(environ, start_response)

        environ[KEPT] = SimpleNamespace(resume=resume)
        return ()

    server, client = socket.socketpair()
    with worker_of(application) as worker, server, client:
        conn = connection(worker, server)
        client.sendall(GET)
        worker.handle(conn)
        fill(server)
        assert_thread_returns(worker, conn, is_answering)


def test_refusal_of_the_main_thread_never_blocks() -> None:
    server, client = socket.socketpair()
    with worker_of(None) as worker, server, client:
        conn = connection(worker, server)
        conn.init()
        fill(server)
        server.setblocking(True)
        worker._refuse_as_busy(conn)  # noqa: SLF001


def fill(server: socket.socket) -> None:
    """Fill the buffers of a socket with bytes that the client does not read."""
    server.setblocking(False)
    with suppress(BlockingIOError):
        while server.send(b"1"):
            pass


def assert_thread_returns(worker: Worker, conn: TConn, is_answering: threading.Event) -> None:
    thread = threading.Thread(target=worker.handle, args=[conn], daemon=True)
    thread.start()
    assert is_answering.wait(HUNG_SECONDS)  # the deadline until here is the head's

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
