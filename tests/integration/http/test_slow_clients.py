"""Slow clients in a real gunicorn: clients that send or read little delay no other client."""

import json
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
import requests

from tests.integration.http.web_process import Web, key_for
from tests.integration.registered import http_endpoint, one_shot
from tests.waiting import HUNG_SECONDS, eventually

THREADS = 2
QUEUE = 8
CONNECTIONS = 100
MORE_THAN_ENOUGH = 4 * (THREADS + QUEUE)


@pytest.fixture(scope="module")
def key(module_database_url: str) -> str:
    return key_for(module_database_url)


@pytest.fixture(scope="module")
def web(module_database_url: str, key: str) -> Iterator[Web]:
    with Web(
        module_database_url,
        TE_WEB_THREADS=str(THREADS),
        TE_WEB_QUEUE=str(QUEUE),
        TE_REQUEST_TIMEOUT_SEC="8",
        GUNICORN_CMD_ARGS=f"--worker-connections {CONNECTIONS}",
    ) as web:
        eventually(web.is_ready, what="the API")
        headers = {"Authorization": f"Bearer {key}"}
        assert requests.post(f"{web.base}/endpoints", json=http_endpoint(), headers=headers, timeout=HUNG_SECONDS).ok
        yield web


class Clients:
    """Open connections; each has sent some bytes."""

    def __init__(self, web: Web, stack: ExitStack) -> None:
        self._web, self._stack = web, stack

    def send(self, start: bytes) -> socket.socket:
        connection = self._stack.enter_context(
            socket.create_connection(("127.0.0.1", self._web.port), timeout=HUNG_SECONDS)
        )
        connection.sendall(start)
        return connection


@pytest.fixture
def clients(web: Web) -> Iterator[Clients]:
    with ExitStack() as stack:
        yield Clients(web, stack)


def post(key: str, length: int) -> bytes:
    return (
        f"POST /jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


def answer(connection: socket.socket) -> bytes:
    """Return all bytes until the server closes its side."""
    return b"".join(iter(lambda: connection.recv(65_536), b""))


def is_served(web: Web, key: str) -> bool:
    return (
        requests.get(f"{web.base}/jobs", headers={"Authorization": f"Bearer {key}"}, timeout=HUNG_SECONDS).status_code
        == 200
    )


def is_healthy(web: Web) -> bool:
    return all(requests.get(web.base + path, timeout=HUNG_SECONDS).ok for path in ("/health/live", "/health/ready"))


@contextmanager
def trickling(connection: socket.socket) -> Iterator[None]:
    """Send a byte periodically, as long as the server accepts them."""
    stopped = threading.Event()

    def send() -> None:
        while not stopped.wait(0.3):
            try:
                connection.sendall(b"1")
            except OSError:
                return

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


@pytest.mark.parametrize("start", [b"P", b"GET /health/live", b"GET /health/ready HTTP/1.1\r\nHost: x\r\n"])
def test_incomplete_head_holds_no_thread(web: Web, clients: Clients, key: str, start: bytes) -> None:
    for _ in range(MORE_THAN_ENOUGH):
        clients.send(start)
    assert is_healthy(web)
    assert is_served(web, key)


def test_head_in_pieces_is_assembled_on_new_and_kept_connections(web: Web, clients: Clients, key: str) -> None:
    body = json.dumps(one_shot("pieces")).encode()
    connection = clients.send(b"")
    reader = connection.makefile("rb")
    for last in (False, True):
        for piece in (b"\r\n", post(key, len(body))[:30], post(key, len(body))[30:], body[:5], body[5:]):
            assert is_healthy(web)  # the server has received the previous piece
            connection.sendall(piece)
        if last:
            connection.shutdown(socket.SHUT_WR)
        assert reader.readline().split()[1] == (b"200" if last else b"201")
        head = b"".join(iter(reader.readline, b"\r\n")).lower()
        reader.read(int(head.partition(b"content-length:")[2].split()[0]))
    assert reader.read() == b""


def test_trickling_client_gets_408(web: Web, clients: Clients, key: str) -> None:
    head, body = clients.send(b"GET /jobs?x="), clients.send(post(key, 1000))
    with trickling(head), trickling(body):
        for connection in (head, body):
            start, _, rest = answer(connection).partition(b"\r\n\r\n")
            assert start.startswith(b"HTTP/1.1 408 ")
            assert json.loads(rest)["error"]["code"] == "REQUEST_TIMEOUT"
    assert is_served(web, key)
    assert "Traceback" not in web.log


def test_endless_head_is_431(clients: Clients) -> None:
    connection = clients.send(b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20_000)
    start, _, rest = answer(connection).partition(b"\r\n\r\n")
    assert start.startswith(b"HTTP/1.1 431 ")
    assert json.loads(rest)["error"]["code"] == "HEADERS_TOO_LARGE"


def test_head_without_carriage_returns_is_400(clients: Clients) -> None:
    start, _, rest = answer(clients.send(b"GET / HTTP/1.1\nHost: x\n\n")).partition(b"\r\n\r\n")
    assert start.startswith(b"HTTP/1.1 400 ")
    assert json.loads(rest)["error"]["code"] == "INVALID_REQUEST"


def test_unneeded_body_is_not_awaited(clients: Clients) -> None:
    """Otherwise the first clients would hold the threads until later clients are refused."""
    connections = [clients.send(post("nobody", 1000)) for _ in range(THREADS + QUEUE)]
    assert {answer(connection).split(b" ", 2)[1] for connection in connections} == {b"401"}


def test_client_that_reads_nothing_releases_its_thread(web: Web, key: str) -> None:
    with ExitStack() as stack:
        for _ in range(THREADS):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", web.port))
            connection.settimeout(HUNG_SECONDS)
            connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 300)
        eventually(lambda: not is_served(web, key), what="the hold of all threads")
        assert is_healthy(web)
        eventually(lambda: is_served(web, key), what="a thread")
    assert "Traceback" not in web.log


def test_idle_connections_are_closed_for_new_connections(web: Web, clients: Clients, key: str) -> None:
    request = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"
    waiting = []
    for _ in range(3 * CONNECTIONS):
        for start in (b"", b"P"):
            clients.send(start)
        waiting.append(clients.send(request))
    eventually(lambda: is_healthy(web), what="the answers to all probes before")
    # A refused client counts as lingering, not idle, for two seconds at most.
    for connection in waiting:
        with suppress(OSError):
            if connection.recv(4096).startswith(b"HTTP/1.1 503 "):
                connection.close()
    assert is_healthy(web)
    new_connection = clients.send(b"")
    for _ in range(CONNECTIONS // 4):
        clients.send(b"P")
        probe = clients.send(request)
        with suppress(OSError):
            probe.recv(4096)  # else the probes that wait could fill the queue, and the next request would be refused
    assert is_served(web, key)
    new_connection.sendall(request)
    assert new_connection.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_connections_above_the_open_files_limit_stop_no_worker(module_database_url: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        few = Web(module_database_url)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with few as web, ExitStack() as stack:
        eventually(web.is_ready, what="the API")
        for _ in range(512):
            Clients(web, stack).send(b"")
        assert is_healthy(web)
        assert web.log.count("Booting worker") == 1
